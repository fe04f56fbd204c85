"""How many records a public start is worth, chosen from the measurements.

A fit q of answers a with noise of known variance has, cell by cell in units of that noise, the expected
squared error E |q - truth|^2 = E [ |q - a|^2 - m + 2 df ] (Stein 1981), with m cells and df = sum of the
derivatives of q_i by a_i. df is estimated from the fit's response to a random change of each answer by one
standard deviation, up or down (Ramani, Blu and Unser 2008): the same signs for every weight, and one linear
system each (freedom.py). So the prior weight of least estimated error is found from released values alone,
and costs no privacy. Too large a weight ignores the measurements (bad for a biased public table); too small a
weight fits the noise.
"""

from __future__ import annotations

import math

import numpy as np

from privmw.kernels.arrays import Float64s
from privmw.models.projection.freedom import freedom
from privmw.models.projection.queries import ProjectedQueries
from privmw.models.projection.solver import Slack, project
from privmw.random import sampling_stream

HEAVIEST_PRIOR, LIGHTEST_PRIOR, PRIOR_STEP = 100_000.0, 90.0, math.sqrt(10.0)
FIRST_SHARE = 1 / 16  # of the rows, in the first Newton step of a fit whose tolerance is large


def choose_prior_weight(
    matrix: ProjectedQueries,
    prior: Float64s,
    answers: Float64s,
    precision: Float64s,
    *,
    heaviest: float = HEAVIEST_PRIOR,
    certainty: float = 1.0,
) -> tuple[float, Float64s]:
    """The weight of least estimated error, and the multipliers of its fit.

    Tries weights from `heaviest` down; each fit starts from the last and costs more. Stops at the first
    weight whose estimate exceeds the last one by more than -`certainty` standard deviations, and takes a
    weight only if it beats the best by more than `certainty` - 1.
    """
    signs = sampling_stream(0).integers(0, 2, matrix.count) * 2.0 - 1.0
    scale = np.sqrt(precision)
    best, before = (math.inf, heaviest, np.zeros(matrix.count)), (math.inf, prior[:0])
    multipliers: Float64s | None = None
    weight, share = heaviest, FIRST_SHARE
    while weight >= LIGHTEST_PRIOR:
        w, tolerance = precision / weight, 1 / weight  # errors to about the noise
        fit = project(
            matrix,
            prior,
            answers,
            Slack(w=w),
            multipliers=multipliers,
            tolerance=tolerance,
            share=share,
        )
        multipliers, fitted, share = fit.multipliers, fit.answers, fit.share
        misfit = (fitted - answers) * scale
        error = float(np.einsum("i,i->", misfit, misfit))
        error += 2 * weight * freedom(matrix, fit.weights, fitted, w, signs / scale)
        chance = _chance(fitted, before[1], scale) if len(before[1]) else 0.0
        if error < best[0] - (certainty - 1) * chance:
            best = (error, weight, multipliers)
        if error > before[0] - certainty * chance:
            break
        before = (error, fitted)
        weight /= PRIOR_STEP
    return best[1], best[2]


def _chance(one: Float64s, other: Float64s, scale: Float64s) -> float:
    """The standard deviation of the difference of two estimates: twice the distance of their fits."""
    difference = (one - other) * scale
    return 2 * math.sqrt(float(np.einsum("i,i->", difference, difference)))
