"""privmw: differentially private answers and synthetic records by re-weighting public rows.

The way of the data, file by file:

    domain.py, attribute.py    what values there are, known beforehand
    records.py, table.py       records as codes on the domain; every bad value is refused here
    io/                        files and frames become codes, and codes files and frames again
    propose/, constraints/     a domain proposed from public data; combinations that no record can have
    workload.py                which marginals are asked, and where their cells lie
    support.py, row_hash.py    the distinct public rows, with counts and answers
    communicator.py, cluster/  rows and records that lie on several ranks
    kernels/                   the loops: arrays in, arrays out (native C++, numba or numpy)
    random.py                  the stream of the mechanisms and the one of post-processing, never mixed
    accounting/                what looking at private data costs: events, budgets, the ledger
    mechanisms/                selection, noise, randomized response: each with the event it cost
    curator.py                 the door: private counts in; chosen queries and noisy counts out, paid for
    door.py                    the same on every rank: rank 0 has the curator, the others hear it
    schedule.py                how an algorithm cuts its budget, before any data
    adaptive.py, checkpoint.py the loop: select, measure, update; a folder from which a run goes on
    models/                    what the loop improves: a weighted support, stepped or projected
    projection.py newton.py slack.py                 the solver of projections, with its certificate
    question.py, algorithm.py  a frozen configuration, calibrated into a mechanism that states its cost
    plan.py, shorthand.py      what a run will need; release_* in one call
    mwem.py mwem_pub.py mw_pub.py pep.py             the algorithms: their parts and their privacy
    auto.py                    the recommended one, chosen from public information
    release.py                 weights on public rows, measurements, ledger; answers, sample, save
    release_file.py, cells.py  a release as one file; its answers and noisy counts as rows of a file
    measure.py                 a set of marginals measured once, without a loop
    postprocess/               noisy marginals to non-negative weights and whole records
    evaluation.py              true errors, for experiments: not private
    report/, cli/              a release as a page to read; everything from the command line
    population/                made-up people to try it on
"""

from privmw import accounting, kernels, mechanisms, postprocess
from privmw.accounting import Budget, BudgetError, Ledger, Neighbors
from privmw.algorithms.auto import release_auto
from privmw.algorithms.measure import measure_marginals
from privmw.algorithms.mw_pub import MWPub, release_mw_pub
from privmw.algorithms.mwem import MWEM, release_mwem
from privmw.algorithms.mwem_pub import MWEMPub, release_mwem_pub
from privmw.algorithms.pep import PEP, release_pep
from privmw.cluster.sharded_records import ShardedRecords
from privmw.cluster.sharded_support import ShardedSupport
from privmw.curator import Curator
from privmw.data.attribute import Attribute
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.data.support import Support
from privmw.data.table import Table
from privmw.data.workload import Workload
from privmw.evaluation import best_mixture_error, evaluate
from privmw.io.scan import Scan, read_table, scan_table
from privmw.random import ChaCha20
from privmw.release import Release
from privmw.release.file import load_release
from privmw.version import __version__

__all__ = [
    "MWEM",
    "PEP",
    "Attribute",
    "Budget",
    "BudgetError",
    "ChaCha20",
    "Constraints",
    "Curator",
    "Domain",
    "Ledger",
    "MWEMPub",
    "MWPub",
    "Neighbors",
    "Release",
    "Scan",
    "ShardedRecords",
    "ShardedSupport",
    "Support",
    "Table",
    "Workload",
    "__version__",
    "accounting",
    "best_mixture_error",
    "evaluate",
    "kernels",
    "load_release",
    "measure_marginals",
    "mechanisms",
    "postprocess",
    "read_table",
    "release_auto",
    "release_mw_pub",
    "release_mwem",
    "release_mwem_pub",
    "release_pep",
    "scan_table",
]
