"""Privacy accounting: budgets, events, the ledger of a run, the account of a table, and conversions.

rounding -> conversion, calibration, events, worst_difference -> residual_gaussian, noise -> looks,
composition -> budget -> record, statement -> ledger -> account.
This package imports nothing of privmw but secrecy, and sees no private value. Costs are exact rationals;
every float it returns is rounded in the safe direction.
"""

from .account import Account, AccountedRun
from .budget import Budget, BudgetError
from .composition import Composition, Parallel, Sequential
from .conversion import (
    delta_from_rho,
    delta_from_threshold,
    epsilon0_advanced,
    epsilon_advanced,
    epsilon_for_rho_exponential,
    epsilon_for_rho_permute_and_flip,
    epsilon_from_q,
    epsilon_from_rho,
    group_approximate,
    group_epsilon,
    group_rho,
    rho_from_epsilon,
    scale_for_epsilon,
    sigma_for_rho,
    square_l2_sensitivity,
    threshold_for_delta,
)
from .events import (
    Cost,
    Event,
    ExponentialMechanism,
    Neighbors,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    ThresholdedLaplace,
)
from .ledger import Ledger
from .noise import DiscreteGaussian, DiscreteLaplace
from .residual_gaussian import ResidualGaussian

__all__ = [
    "Account",
    "AccountedRun",
    "Budget",
    "BudgetError",
    "Composition",
    "Cost",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "ExponentialMechanism",
    "Ledger",
    "Neighbors",
    "Parallel",
    "PermuteAndFlip",
    "RandomizedResponse",
    "ReportNoisyMax",
    "ResidualGaussian",
    "Sequential",
    "ThresholdedLaplace",
    "delta_from_rho",
    "delta_from_threshold",
    "epsilon0_advanced",
    "epsilon_advanced",
    "epsilon_for_rho_exponential",
    "epsilon_for_rho_permute_and_flip",
    "epsilon_from_q",
    "epsilon_from_rho",
    "group_approximate",
    "group_epsilon",
    "group_rho",
    "rho_from_epsilon",
    "scale_for_epsilon",
    "sigma_for_rho",
    "square_l2_sensitivity",
    "threshold_for_delta",
]
