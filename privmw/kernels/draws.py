"""Draws: exact coins, discrete noise and selections, and the scores that selections take.

They are the kernels of the chosen backend, under their own names, as _native.pyi declares them. Each draw
takes a bit generator first (`privmw.random.privacy_stream(rng).bit_generator`). Rationals are a numerator and
a denominator of up to 4096 bits; a candidate weighs exp(-(largest score - score) * gamma). Excluded
candidates must ascend. The kernels check arguments themselves, before the first word, since only they know
how long an integer may be.

`Errors` are errors of answers as integers, |count 2^bits - rint(answer whole)|, one per cell: scores, which
the native kernels compute on access and do not store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privmw.kernels import choice

if TYPE_CHECKING:
    from privmw.kernels._native import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:  # at the call: a test may set choice.kernels
        return getattr(choice.kernels, name)
