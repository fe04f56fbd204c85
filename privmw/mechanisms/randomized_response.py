"""Private bits, each kept or flipped by its own coin: the oldest mechanism, and the one without a curator."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from privmw.accounting import RandomizedResponse, epsilon_from_q
from privmw.accounting.rounding import Real, positive
from privmw.kernels import draws
from privmw.mechanisms.noise import drawable
from privmw.random import Rng, Stream, privacy_stream
from privmw.secrecy import erasing, expect_array, sealed

Bits: TypeAlias = npt.NDArray[np.bool_]


@sealed
def randomized_response(
    bits: Bits, *, epsilon: Real | None = None, q: Real | None = None, rng: Rng = None
) -> tuple[Bits, RandomizedResponse]:
    """Keep or flip each bit with an independent coin (Warner 1965); returns the event charged too.

    Requires: bool bits, one per record; replace-one neighbours (n is public); rng None for a release.
    Ensures: with epsilon a bit is kept with probability e^epsilon / (1 + e^epsilon); with q, 0 < q < 1, with
        probability (1 + q) / 2, so that E[1 - 2 out] = q (1 - 2 bit).
    Privacy: epsilon-DP, whatever the number of bits; q costs ln((1 + q) / (1 - q)), rounded up to a float.
    Numerics: exact; the coin of epsilon is made of fair ones and coins of exp(-epsilon), q's is rational.
    Checked by:
        tests/mechanisms/test_mechanisms.py::test_randomized_response_keeps_bits_with_its_exact_probability,
        tests/mechanisms/test_audit.py::test_what_the_audit_finds_is_within_the_claim

    >>> kept, event = randomized_response(np.array([True, False]), q=0.5)
    >>> kept.dtype, event.epsilon - 1.0986 < 1e-4
    (dtype('bool'), True)
    """
    expect_array("bits", bits, np.bool_)
    if bits.ndim != 1 or bits.size == 0:
        raise ValueError(f"bits (shape {bits.shape}) must be one-dimensional, with at least one bit")
    if (epsilon is None) == (q is None):
        raise TypeError("exactly one of epsilon and q must be given")
    if q is not None:
        event = RandomizedResponse(epsilon_from_q(q), size=bits.size)
        flip = drawable("q", (1 - Fraction(q)) / 2)
        generator = privacy_stream(rng).bit_generator
        flips = draws.bernoulli(generator, flip.numerator, flip.denominator, bits.size)
    else:
        assert epsilon is not None
        event = RandomizedResponse(positive("epsilon", epsilon), size=bits.size)
        flips = _logistic_coins(drawable("epsilon", event.epsilon_of_one), bits.size, privacy_stream(rng))
    out = bits ^ flips
    flips.fill(False)  # as private as the bits
    return out, event


def _logistic_coins(epsilon: Fraction, size: int, stream: Stream) -> Bits:
    """Coins of probability x / (1 + x), x = exp(-epsilon).

    Heads of a fair coin ends with tails; else heads of a coin of x ends with heads; else again. So
    P = 1/2 x + 1/2 (1 - x) P, which is x / (1 + x).
    """
    heads = np.zeros(size, np.bool_)
    undecided = np.arange(size)
    with erasing() as erased:
        while len(undecided):
            fair = erased(draws.bernoulli(stream.bit_generator, 1, 2, len(undecided)))
            undecided = erased(undecided[fair])
            hits = erased(
                draws.coin_exp(stream.bit_generator, epsilon.numerator, epsilon.denominator, len(undecided))
            )
            heads[erased(undecided[hits])] = True
            undecided = erased(undecided[erased(~hits)])
    return heads
