"""How many records a public start is worth, chosen from the measurements.

A fit q of answers a with noise of known variance has, cell by cell in units of that noise, the expected
squared error E |q - truth|^2 = E [ |q - a|^2 - m + 2 df ] (Stein 1981), with m cells and df = sum of the
derivatives of q_i by a_i. df is estimated from how the fit follows answers that are moved by one standard
deviation up or down, at random (Ramani, Blu and Unser 2008): the same signs for every weight, and one linear
equation each (freedom.py). So the prior weight of least estimated error is found from released values alone,
and costs no privacy. Far too large a weight hides what was measured (a biased public table); far too small a
one fits the noise.
"""

from __future__ import annotations

import math

import numpy as np

from privmw.kernels.arrays import Float64s
from privmw.models.projection.freedom import freedom
from privmw.models.projection.queries import ProjectedQueries
from privmw.models.projection.solver import Slack, project
from privmw.random import sampling_stream

HEAVIEST, LIGHTEST, STEP = 100_000.0, 90.0, math.sqrt(10.0)
PRECISION = 1.0  # of a fit on the way, in units of the squared noise that errors are counted in
LEAST_SHARE = 1 / 16  # of the rows, for the first Newton step of fits on the way


def choose_prior_weight(
    matrix: ProjectedQueries,
    prior: Float64s,
    answers: Float64s,
    precision: Float64s,
    threads: int | None,
    *,
    heaviest: float = HEAVIEST,
    certainty: float = 1.0,
) -> tuple[float, Float64s]:
    """The weight of least estimated error, and the multipliers of its fit.

    Tries weights from `heaviest` down; each fit starts from the one before and costs more than it. Stops
    at the first whose estimate is not lower by `certainty` times what chance explains, and takes no weight
    whose estimate is lower by one time less than that.
    """
    signs = sampling_stream(0).integers(0, 2, matrix.count) * 2.0 - 1.0
    scale = np.sqrt(precision)
    best, before = (math.inf, heaviest, np.zeros(matrix.count)), (math.inf, prior[:0])
    multipliers: Float64s | None = None
    weight, share = heaviest, LEAST_SHARE
    while weight >= LIGHTEST:
        w, tolerance = precision / weight, PRECISION / weight
        fit = project(
            matrix,
            prior,
            answers,
            Slack(w=w),
            multipliers=multipliers,
            tolerance=tolerance,
            threads=threads,
            share=share,
        )
        multipliers, fitted, share = fit.multipliers, fit.answers, fit.share
        missed = (fitted - answers) * scale
        error = float(np.einsum("i,i->", missed, missed))
        error += 2 * weight * freedom(matrix, fit.weights, fitted, w, signs / scale)
        chance = _chance(fitted, before[1], scale) if len(before[1]) else 0.0
        if error < best[0] - (certainty - 1) * chance:
            best = (error, weight, multipliers)
        if error > before[0] - certainty * chance:
            break
        before = (error, fitted)
        weight /= STEP
    return best[1], best[2]


def _chance(one: Float64s, other: Float64s, scale: Float64s) -> float:
    """The standard deviation of two estimates' difference: twice the noise along that of the fits."""
    apart = (one - other) * scale
    return 2 * math.sqrt(float(np.einsum("i,i->", apart, apart)))
