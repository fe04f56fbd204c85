"""Post-processing: noisy marginals to non-negative data. Nothing here sees a private value.

noise, common_noise, noisy_marginals, noisy_file -> problem -> descent, solve -> least_squares, reweight,
sequential, max_fit -> fit -> rounding, microdata.
"""

from privmw.postprocess import theory
from privmw.postprocess.fit import Certificate, Fit, Stage
from privmw.postprocess.least_squares import nnls, ols
from privmw.postprocess.max_fit import max_fit
from privmw.postprocess.microdata import to_microdata
from privmw.postprocess.noisy_file import read_noisy_marginals
from privmw.postprocess.reweight import reweight
from privmw.postprocess.sequential import sequential
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
