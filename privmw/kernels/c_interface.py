"""The folders of the installed C interface, for building other programs."""

from __future__ import annotations

import sys
from pathlib import Path


def get_include() -> str:
    """The folder of `privmw.h`.

    >>> (Path(get_include()) / "privmw.h").is_file()
    True
    """
    return _installed("include")


def get_cmake_dir() -> str:
    """The folder of `privmwConfig.cmake`, for `-Dprivmw_DIR=`.

    >>> (Path(get_cmake_dir()) / "privmwConfig.cmake").is_file()
    True
    """
    return _installed("lib/cmake/privmw")


def get_pkgconfig_dir() -> str:
    """The folder of `privmw.pc`, for `PKG_CONFIG_PATH`.

    >>> (Path(get_pkgconfig_dir()) / "privmw.pc").is_file()
    True
    """
    return _installed("lib/pkgconfig")


def _installed(folder: str) -> str:
    # An editable install has two folders: the sources, and the compiled module.
    for home in sys.modules[__name__.partition(".")[0]].__path__:
        if (path := Path(home) / folder).is_dir():
            return str(path)
    raise RuntimeError("privmw (installed without a compiler) must be compiled to have a C interface")
