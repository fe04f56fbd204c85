"""What commands read before anything private: the domain, the public support, the workload; and the method.

The budget and the method are made from public numbers here, so that `inspect` tells what `release` will do.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from privmw.algorithms.auto import recommend
from privmw.algorithms.configuration import Algorithm
from privmw.algorithms.mechanism import Mechanism
from privmw.algorithms.mw_pub import MWPub
from privmw.algorithms.mwem import MWEM
from privmw.algorithms.mwem_pub import MWEMPub
from privmw.algorithms.pep import PEP
from privmw.cli.console import Console
from privmw.cli.options import words
from privmw.cli.refusal import RefusalError
from privmw.cluster import launched, mpi
from privmw.cluster.sharded_support import ShardedSupport
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.io.scan import scan_table
from privmw.ranks import ALONE, Communicator, on_every_rank

METHODS: dict[str, type[Algorithm]] = {"mw-pub": MWPub, "pep": PEP, "mwem": MWEM, "mwem-pub": MWEMPub}

SAMPLE_SEED = 0  # the draw of marginals is public: the same for everyone


class Question(NamedTuple):
    """What is asked, and the public rows to answer it with."""

    support: Support
    workload: Workload


def join_ranks(cluster: str | None) -> Communicator:
    """The ranks of MPI, or this one alone."""
    if cluster is not None:
        return mpi()
    if launched() > 1:
        hint = "say --cluster mpi: otherwise each of them makes, and pays for, a release"
        raise RefusalError(f"{launched()} ranks were started", hint)
    return ALONE


def read_question(
    options: argparse.Namespace, domain: Domain, console: Console, comm: Communicator = ALONE
) -> Question:
    """The support and the workload that the options name; MWEM has every row of the domain as its support."""
    constraints, workload = on_every_rank(comm, lambda: _read_asked(options, domain))
    if options.method == "mwem":
        if options.public is not None:
            raise RefusalError("--public must not be given with --method mwem: it uses the whole domain")
        if comm is not ALONE:
            return Question(ShardedSupport.full(domain, comm, constraints=constraints), workload)
        return Question(Support.full(domain, constraints=constraints), workload)
    if options.public is None:
        raise RefusalError("--public is missing", "only --method mwem does without")
    with console.step(f"reading {options.public}"):
        if comm is not ALONE:
            shard = ShardedSupport.from_parquet(options.public, domain, comm, constraints=constraints)
            return Question(shard, workload)
        public = scan_table(options.public, domain)
        return Question(Support.from_table(public, constraints=constraints), workload)


def _read_asked(options: argparse.Namespace, domain: Domain) -> tuple[Constraints | None, Workload]:
    """Which rows may be, and which marginals are asked."""
    constraints = Constraints.read(options.constraints, domain) if options.constraints else None
    return constraints, make_workload(options, domain)


def make_workload(options: argparse.Namespace, domain: Domain) -> Workload:
    """All marginals of the orders asked, or some of them."""
    if options.sample is not None and len(options.marginals) > 1:
        raise RefusalError("--sample must come with one order of marginals")
    try:
        if options.sample is None:
            return Workload.all(domain, k=options.marginals)
        return Workload.sample(domain, k=options.marginals[0], size=options.sample, seed=SAMPLE_SEED)
    except ValueError as error:
        orders = words(options.marginals)
        said = f"--marginals {orders}" + ("" if options.sample is None else f" --sample {options.sample}")
        raise RefusalError(f"{said}: {error}", "--sample draws some of very many marginals") from None


def choose(options: argparse.Namespace, n: int, asked: Question) -> tuple[Mechanism, Support]:
    """The method that the options name, with their budget; and the support that it re-weights."""
    if options.method == "auto":
        if options.rounds is not None:
            raise RefusalError("--rounds must come with a --method other than auto, which chooses them")
        return recommend(n, asked.support, asked.workload, epsilon=options.epsilon, delta=options.delta)
    kind = METHODS[options.method]
    algorithm = kind() if options.rounds is None else kind(rounds=options.rounds)
    return algorithm.calibrate(options.epsilon, options.delta, n=n), asked.support
