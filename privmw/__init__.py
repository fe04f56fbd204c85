"""privmw: differentially private answers and synthetic records by re-weighting public rows.

The way of the data, room by room (README.md has the map):

1. io reads files and frames into data: a `Table` of codes on a `Domain` that is known beforehand.
2. Public records become a `Support`, distinct rows with counts; a `Workload` lists the marginals to answer.
3. Private records go to the curator, the door. It holds their counts, charges every look to the ledger of
   accounting, and lets out only what mechanisms return; random supplies the randomness.
   strategies spreads the budget of one shot over marginals, before any data.
4. algorithms runs the loop: a model of models answers the workload, the curator selects and measures, the
   model is updated. It sees released and public values only; kernels does the sums.
5. A release has weighted rows, measurements and the ledger. It gives answers and synthetic records.
6. report makes a page of it, and cli does all this from the command line. postprocess fits noisy marginals,
   evaluation computes true errors (NOT PRIVATE), ranks and cluster spread rows over MPI ranks, engines counts
   private records where they lie, adapters speak with other libraries and has `Synthesizer`, experiments
   reads the papers' data sets.
"""

from privmw import accounting, experiments, kernels, mechanisms
from privmw.accounting import Account, Budget, BudgetError
from privmw.algorithms.auto import release_auto
from privmw.algorithms.choose_public import choose_public
from privmw.algorithms.gem import GEM
from privmw.algorithms.mw_pub import MWPub
from privmw.algorithms.mwem import MWEM
from privmw.algorithms.mwem_pub import MWEMPub
from privmw.algorithms.pep import PEP
from privmw.algorithms.rap import RAP
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.data.support import Support
from privmw.data.syntax import Syntax
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.evaluation import evaluate
from privmw.extensions import engines, postprocess
from privmw.extensions.baselines.dual_query import DualQuery
from privmw.extensions.baselines.fem import FEM
from privmw.extensions.cluster.sharded_records import ShardedRecords
from privmw.extensions.cluster.sharded_support import ShardedSupport
from privmw.extensions.synthesizer import Synthesizer
from privmw.extensions.unbiased import UnbiasedAnswers, load_unbiased_answers, strategies
from privmw.extensions.unbiased.measure import measure_marginals
from privmw.extensions.unbiased.one_shot import HDMM
from privmw.io.scan import read_table, scan_table
from privmw.random import ChaCha20
from privmw.release import Release
from privmw.release.file import load_release
from privmw.version import __version__

__all__ = [
    "FEM",
    "GEM",
    "HDMM",
    "MWEM",
    "PEP",
    "RAP",
    "Account",
    "Budget",
    "BudgetError",
    "ChaCha20",
    "Constraints",
    "Domain",
    "DualQuery",
    "MWEMPub",
    "MWPub",
    "Release",
    "ShardedRecords",
    "ShardedSupport",
    "Support",
    "Syntax",
    "Synthesizer",
    "Table",
    "UnbiasedAnswers",
    "Workload",
    "__version__",
    "accounting",
    "choose_public",
    "engines",
    "evaluate",
    "experiments",
    "kernels",
    "load_release",
    "load_unbiased_answers",
    "measure_marginals",
    "mechanisms",
    "postprocess",
    "read_table",
    "release_auto",
    "scan_table",
    "strategies",
]
