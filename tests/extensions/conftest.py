"""Fixtures of commands and of pages, for the extensions that have them."""

from cli.conftest import blank_pictures, first_release, released
from report.conftest import browser

__all__ = ["blank_pictures", "browser", "first_release", "released"]
