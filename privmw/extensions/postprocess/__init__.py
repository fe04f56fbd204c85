"""Post-processing: noisy marginals to non-negative data. Nothing here sees a private value.

noisy_file (files of noisy and fitted counts) -> problem, fit -> descent -> solve -> least_squares, reweight,
sequential, max_fit -> rounding -> microdata -> report/, command.
"""

from privmw.extensions.postprocess import theory
from privmw.extensions.postprocess.fit import Certificate, Fit, Stage
from privmw.extensions.postprocess.least_squares import nnls, ols
from privmw.extensions.postprocess.max_fit import max_fit
from privmw.extensions.postprocess.microdata import to_microdata
from privmw.extensions.postprocess.noisy_file import read_noisy_marginals
from privmw.extensions.postprocess.reweight import reweight
from privmw.extensions.postprocess.sequential import sequential
from privmw.release.noisy_marginals import NoisyMarginal, NoisyMarginals

__all__ = [
    "Certificate",
    "Fit",
    "NoisyMarginal",
    "NoisyMarginals",
    "Stage",
    "max_fit",
    "nnls",
    "ols",
    "read_noisy_marginals",
    "reweight",
    "sequential",
    "theory",
    "to_microdata",
]
