"""Slow cases, left out of a quick run: each stands beside quick ones of the same test."""

import pytest


def slow(*values):
    """Parameters whose cases are slow."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def slow_among(values, chosen):
    """All values as parameters, the chosen ones slow."""
    assert set(chosen) <= set(values)
    return [pytest.param(value, marks=pytest.mark.slow if value in chosen else ()) for value in values]


def examples(few, many):
    """The argument `examples` of a test that draws them: a few, or many in a slow case."""
    return pytest.mark.parametrize("examples", [few, *slow(many)])
