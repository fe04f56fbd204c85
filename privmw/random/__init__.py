"""Sources of randomness: one stream for privacy, another for post-processing, never mixed.

This package chooses generators and records whether their output is repeatable. It draws nothing and knows no
mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from privmw.random import chacha20_python
from privmw.secrecy import expect

try:
    from privmw.random._chacha20 import ChaCha20

    compiled = True
except ImportError:  # no compiler where privmw was installed: the same words, slower
    ChaCha20 = chacha20_python.ChaCha20  # type: ignore[assignment, misc]
    compiled = False

__all__ = [
    "NOT_FOR_RELEASE",
    "ChaCha20",
    "Rng",
    "Stream",
    "compiled",
    "is_seeded",
    "privacy_stream",
    "sampling_stream",
]

NOT_FOR_RELEASE = "seeded: not for release"


@dataclass(frozen=True)
class Stream:
    """A source of random words for `privmw.kernels`, and whether they are repeatable."""

    bit_generator: Any

    @property
    def seeded(self) -> bool:
        """False only for a ChaCha20 keyed by the operating system; read from the generator at every call."""
        ours = type(self.bit_generator) in (ChaCha20, chacha20_python.ChaCha20)
        return not ours or bool(self.bit_generator.seeded)

    @property
    def statement(self) -> str:
        """The statement about the generator in a ledger."""
        return NOT_FOR_RELEASE if self.seeded else "ChaCha20, keyed by the operating system"

    def __repr__(self) -> str:
        return f"Stream({self.statement})"


Rng: TypeAlias = int | np.random.Generator | np.random.BitGenerator | Stream | None


def privacy_stream(rng: Rng = None) -> Stream:
    """The stream of the mechanisms: None for a ChaCha20 keyed by the operating system; others are seeded.

    Raises RuntimeError if the operating system gives no entropy: there is no weaker fallback.
    """
    if type(rng) is Stream:  # no subclass, which could override `seeded`
        return rng
    if rng is None:
        return Stream(ChaCha20())
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool):
        return Stream(ChaCha20(seed=int(rng)))
    bit_generator: Any = rng.bit_generator if isinstance(rng, np.random.Generator) else rng
    right = isinstance(bit_generator, np.random.BitGenerator | chacha20_python.ChaCha20)
    expect("rng", rng, right, "None, an integer seed, or a numpy Generator or BitGenerator")
    return Stream(bit_generator)


def is_seeded(rng: Rng) -> bool:
    """Whether the privacy stream of rng would be repeatable; refuses what `privacy_stream` does.

    >>> is_seeded(None), is_seeded(7)
    (False, True)
    """
    return privacy_stream(rng).seeded


def sampling_stream(seed: int | np.random.SeedSequence | None = None) -> np.random.Generator:
    """The stream of post-processing, which sees released values only and may be seeded freely.

    It differs from a privacy stream of the same seed: another generator, with another spawn key.
    """
    expect("seed", seed, int | np.integer | np.random.SeedSequence | None, "None or a non-negative integer")
    if isinstance(seed, bool) or (isinstance(seed, int | np.integer) and seed < 0):
        raise ValueError(f"seed ({seed}) must be a non-negative integer")
    seeds = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    sampling_seeds = np.random.SeedSequence(seeds.entropy, spawn_key=(*seeds.spawn_key, 0x73616D70))
    return np.random.Generator(np.random.PCG64(sampling_seeds))
