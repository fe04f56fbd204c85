"""The compiled kernels, as csrc/bind offers them. Importing fails if the extension was not built."""

from privmw.kernels._native import *  # noqa: F403
