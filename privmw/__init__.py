"""privmw: differentially private answers and synthetic records by re-weighting public rows.

The path of the data, package by package (README.md has the map):

1. io reads files and frames into data: a `Table` of codes on a `Domain` that is known beforehand.
2. Public records become a `Support`, distinct rows with counts; a `Workload` lists the marginals to answer.
3. Private records go to the curator, which alone holds their counts. accounting lists every look at them
   beforehand and charges it to a ledger; mechanisms selects and adds noise, exactly, with bits from random.
4. algorithms runs the rounds: a model of models answers the workload, the curator selects and measures, the
   model is updated. It sees released and public values only; kernels does the sums.
5. A release has weighted rows, measurements and the ledger. It gives answers and synthetic records.
6. report makes a page of it, and cli does all this from the command line.

Beside this path: ranks spreads rows over processes, secrecy keeps private values out of messages and freed
memory. extensions has what the core does without, one package each: unbiased (answers without a model,
strategies, HDMM), postprocess (fits to noisy marginals), relaxed (RAP, GEM), baselines (DualQuery, FEM),
cluster (MPI), engines (counting in SQL, Spark, Dask, Ray), explorer (a release as a page that answers
queries), adapters (dp_accounting, mbi, OpenDP), synthesizer (`Synthesizer`), evaluation (true errors: NOT
PRIVATE), experiments (the papers' data sets) and population (made-up people).
"""

from privmw import accounting, kernels, mechanisms
from privmw.accounting import Account, Budget, BudgetError
from privmw.algorithms.auto import release_auto
from privmw.algorithms.choose_public import choose_public
from privmw.algorithms.mw_pub import MWPub
from privmw.algorithms.mwem import MWEM
from privmw.algorithms.mwem_pub import MWEMPub
from privmw.algorithms.pep import PEP
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.data.support import Support
from privmw.data.syntax import Syntax
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.extensions import engines, postprocess
from privmw.extensions.baselines.dual_query import DualQuery
from privmw.extensions.baselines.fem import FEM
from privmw.extensions.evaluation import evaluate
from privmw.extensions.relaxed.gem import GEM
from privmw.extensions.relaxed.rap import RAP
from privmw.extensions.synthesizer import Synthesizer
from privmw.extensions.unbiased import strategies
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
    "Support",
    "Syntax",
    "Synthesizer",
    "Table",
    "Workload",
    "__version__",
    "accounting",
    "choose_public",
    "engines",
    "evaluate",
    "kernels",
    "load_release",
    "measure_marginals",
    "mechanisms",
    "postprocess",
    "read_table",
    "release_auto",
    "scan_table",
    "strategies",
]
