"""How the budget of one shot is spread over marginals: `equal`, `residual`, `hdmm`.

A strategy is a frozen configuration. `calibrate(workload, budget, at_most=1)` makes it a `Shot`, which states
every look, every event, its cost and the variance of every cell, and later turns noisy values into unbiased
answers that agree with each other. All of it is a pure function of domain, workload and budget; no private
value comes here. one_shot.py takes a shot to the curator.
"""

from privmw.extensions.unbiased.strategies.hdmm import Hdmm, hdmm
from privmw.extensions.unbiased.strategies.residual import Residual, residual
from privmw.extensions.unbiased.strategies.shot import Residuals, Shot, TableLook
from privmw.extensions.unbiased.strategies.strategy import Equal, Strategy, equal

__all__ = [
    "Equal",
    "Hdmm",
    "Residual",
    "Residuals",
    "Shot",
    "Strategy",
    "TableLook",
    "equal",
    "hdmm",
    "residual",
]
