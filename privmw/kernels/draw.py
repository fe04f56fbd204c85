"""The exact draws: the extension's, or their twin in Python integers where another backend runs.

Each takes a bit generator first (`privmw.random.privacy_stream(rng).bit_generator`). Rationals are a
numerator and a denominator of up to 4096 bits; a candidate weighs exp(-(largest score - score) * gamma).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from privmw.kernels import backend

if TYPE_CHECKING or backend() == "native":
    from privmw.kernels._native import (
        bernoulli,
        coin_exp,
        discrete_gaussian,
        discrete_laplace,
        report_noisy_max,
        select_exponential,
        select_permute_and_flip,
        uniform_below,
    )
else:
    from privmw.kernels.draw_python import (
        bernoulli,
        coin_exp,
        discrete_gaussian,
        discrete_laplace,
        report_noisy_max,
        select_exponential,
        select_permute_and_flip,
        uniform_below,
    )

__all__ = [
    "bernoulli",
    "coin_exp",
    "discrete_gaussian",
    "discrete_laplace",
    "report_noisy_max",
    "select_exponential",
    "select_permute_and_flip",
    "uniform_below",
]
