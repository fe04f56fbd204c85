"""privmw: differentially private answers and synthetic records by re-weighting public rows.

The way of the data, file by file:

    domain.py, attribute.py    what values there are, known beforehand
    table.py                   records as codes on the domain; every bad value is refused here
    workload.py                which marginals are asked, and where their cells lie
    support.py                 the distinct public rows, with counts and answers
    kernels/                   the loops: arrays in, arrays out (native C++, numba or numpy)
    random.py                  the stream of the mechanisms and the one of post-processing, never mixed
    accounting/                what looking at private data costs: events, budgets, the ledger
    mechanisms/                selection, noise, randomized response: each with the event it cost
    curator.py                 the door: private counts in; chosen queries and noisy counts out, paid for
"""

from privmw import accounting, kernels, mechanisms
from privmw.accounting import Budget, BudgetError, Ledger, Neighbors
from privmw.attribute import Attribute
from privmw.curator import Curator
from privmw.domain import Domain
from privmw.random import ChaCha20
from privmw.support import Support
from privmw.table import Table
from privmw.workload import Workload

__all__ = [
    "Attribute",
    "Budget",
    "BudgetError",
    "ChaCha20",
    "Curator",
    "Domain",
    "Ledger",
    "Neighbors",
    "Support",
    "Table",
    "Workload",
    "accounting",
    "kernels",
    "mechanisms",
]
__version__ = "0.1.0"
