"""How far counts are from answers: the extension's `Errors`, or the twin in numpy where another backend runs.

Errors(counts, answers, whole, bits) are the integers |count 2^bits - rint(answer whole)|, which selections of
`kernels.draw` take as scores. The extension computes each when it is looked at and stores none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from privmw.kernels import backend

if TYPE_CHECKING or backend() == "native":
    from privmw.kernels._native import Errors
else:
    from privmw.kernels.errors_python import Errors

__all__ = ["Errors"]
