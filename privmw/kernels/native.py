"""The compiled kernels, as csrc/bind offers them. Importing fails where the extension was not built."""

from privmw.kernels._native import *  # noqa: F403
