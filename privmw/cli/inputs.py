"""What commands make from public information: the support, the workload, and the mechanism with its budget.

`inspect` and `release` share it, so that `inspect` reports what `release` will do.
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
from privmw.cli.refusal import RefusalError
from privmw.cluster import mpi
from privmw.cluster.sharded_support import ShardedSupport
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.data.support import Support
from privmw.data.workload import Workload
from privmw.io.scan import scan_table
from privmw.ranks import ALONE, Communicator, launched, on_every_rank

METHODS: dict[str, type[Algorithm]] = {"mw-pub": MWPub, "pep": PEP, "mwem": MWEM, "mwem-pub": MWEMPub}

SAMPLE_SEED = 0  # the draw of marginals is public: the same on every computer


class PublicInputs(NamedTuple):
    """The workload of a release, and the public rows to re-weight."""

    support: Support
    workload: Workload


def join_ranks(cluster: str | None) -> Communicator:
    """Return the ranks of MPI, or this one alone."""
    if cluster is not None:
        return mpi()
    if launched() > 1:
        hint = "say --cluster mpi: otherwise each of them makes, and pays for, a release"
        raise RefusalError(f"{launched()} ranks were started", hint)
    return ALONE


def read_public_inputs(
    options: argparse.Namespace, domain: Domain, console: Console, comm: Communicator = ALONE
) -> PublicInputs:
    """Make the support and the workload; the support of MWEM is every row of the domain."""
    constraints = on_every_rank(
        comm, lambda: Constraints.read(options.constraints, domain) if options.constraints else None
    )
    workload = on_every_rank(comm, lambda: make_workload(options, domain))
    if options.method == "mwem":
        if options.public is not None:
            raise RefusalError("--public must not be given with --method mwem: it uses the whole domain")
        if comm is not ALONE:
            return PublicInputs(ShardedSupport.full(domain, comm, constraints=constraints), workload)
        return PublicInputs(Support.full(domain, constraints=constraints), workload)
    if options.public is None:
        raise RefusalError("--public is missing", "only --method mwem does without")
    with console.step(f"reading {options.public}"):
        if comm is not ALONE:
            shard = ShardedSupport.from_parquet(options.public, domain, comm, constraints=constraints)
            return PublicInputs(shard, workload)
        public = scan_table(options.public, domain, private=False, missing_ok=options.method == "auto")
        return PublicInputs(Support.from_table(public, constraints, domain=domain), workload)


def make_workload(options: argparse.Namespace, domain: Domain) -> Workload:
    """All marginals of the orders that --marginals lists, or a sample of them."""
    if options.sample is not None and len(options.marginals) > 1:
        raise RefusalError("--sample must come with one order of marginals")
    try:
        if options.sample is None:
            return Workload.all(domain, k=options.marginals)
        return Workload.sample(domain, k=options.marginals[0], size=options.sample, seed=SAMPLE_SEED)
    except ValueError as error:
        flags = f"--marginals {','.join(map(str, options.marginals))}"
        flags += "" if options.sample is None else f" --sample {options.sample}"
        raise RefusalError(f"{flags}: {error}", "--sample draws some of very many marginals") from None


def choose(
    options: argparse.Namespace, n: int, inputs: PublicInputs, at_most: int = 1
) -> tuple[Mechanism, Support]:
    """Make the mechanism of --method with the budget of the options, and the support that it re-weights.

    n, at_most: the number of private records, and how many of a unit enter.
    """
    if n == 0:
        raise RefusalError("private (0 records) must have at least one record")
    kind = METHODS.get(options.method)
    if kind is None:
        if options.rounds is not None:
            raise RefusalError("--rounds must come with a --method other than auto, which chooses them")
        given = {"epsilon": options.epsilon, "delta": options.delta, "at_most": at_most}
        return recommend(n, inputs.support, inputs.workload, **given), inputs.support
    algorithm = kind() if options.rounds is None else kind(rounds=options.rounds)
    return algorithm.calibrate(options.epsilon, options.delta, n=n), inputs.support
