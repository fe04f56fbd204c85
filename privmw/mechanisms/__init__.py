"""The accounted mechanisms: they take private values, and return released values with the event charged.

selection.py chooses candidates by private scores (scores.py computes them from counts), noise.py adds noise
to private counts, residual_noise.py to their interactions, threshold.py shows only large noisy counts, and
randomized_response.py flips private bits. Each cost depends on parameters alone and is known before any value
is seen: `Selection`, `Noise`, `ResidualNoise` and `Threshold` let the curator charge it first. Draws are
exact (csrc/draw), and no error message shows a private value.
"""

from privmw.mechanisms.noise import Noise, add_discrete_gaussian, add_discrete_laplace
from privmw.mechanisms.randomized_response import randomized_response
from privmw.mechanisms.residual_noise import ResidualNoise, add_residual_gaussian
from privmw.mechanisms.selection import (
    Selection,
    draw_exponential,
    report_noisy_max,
    select_exponential,
    select_permute_and_flip,
)
from privmw.mechanisms.threshold import Threshold, add_thresholded_laplace

__all__ = [
    "Noise",
    "ResidualNoise",
    "Selection",
    "Threshold",
    "add_discrete_gaussian",
    "add_discrete_laplace",
    "add_residual_gaussian",
    "add_thresholded_laplace",
    "draw_exponential",
    "randomized_response",
    "report_noisy_max",
    "select_exponential",
    "select_permute_and_flip",
]
