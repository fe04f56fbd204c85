"""Inputs of commands: the support, the workload, and the mechanism with its budget.

`inspect` and `release` share them, so that `inspect` reports what `release` will do.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple, get_args

from privmw.algorithms.auto import recommend
from privmw.algorithms.configuration import ALGORITHMS, Algorithm
from privmw.algorithms.mechanism import Mechanism
from privmw.algorithms.task import Granularity
from privmw.cli.console import Console
from privmw.cli.extensions import Counts, ShardedSupport, mpi
from privmw.cli.options import is_counts, positive, syntax_of
from privmw.cli.refusal import RefusalError
from privmw.data.constraints import Constraints
from privmw.data.domain import Domain
from privmw.data.records import Records
from privmw.data.support import Support, in_words
from privmw.data.workload import LARGEST_ORDER, Workload
from privmw.io.files import checked_path, columns_of, files_of
from privmw.io.scan import scan_table
from privmw.ranks import ALONE, Communicator, launched, on_every_rank
from privmw.secrecy import shown

ALGORITHM_OF_METHOD = dict(sorted((kind.method, kind) for kind in ALGORITHMS.values()))

DEFAULT_ORDER = 3  # of marginals
SAMPLE_SEED = 0  # of the sample of marginals, which is public


def add_method(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the mechanism; `choose` makes it."""
    parser.add_argument(
        "--method",
        choices=("auto", *ALGORITHM_OF_METHOD),
        default="auto",
        help="default: auto, the recommended one",
    )
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help="number of rounds, for methods other than auto"
    )
    parser.add_argument(
        "--measure",
        choices=get_args(Granularity),
        help="measure single cells or whole marginals in a round; for methods other than auto that measure "
        "(default: that of the method)",
    )


class PublicInputs(NamedTuple):
    """The workload of a release, the support, and the rows of each public file."""

    support: Support
    workload: Workload
    files: tuple[Support, ...] = ()


def join_ranks(cluster: str | None, wait: float | None = None) -> Communicator:
    """Return the MPI ranks, or a single rank.

    wait: the seconds of silence of a rank after which the others abort; None is the default.
    """
    if cluster is not None:
        comm = mpi()
        if wait is not None:
            comm.wait = wait
        return comm
    if wait is not None:
        raise RefusalError("--wait must come with --cluster mpi")
    if launched() > 1:
        hint = "add --cluster mpi: otherwise each of them makes, and pays for, a release"
        raise RefusalError(f"{launched()} ranks were started", hint)
    return ALONE


def read_public_inputs(
    options: argparse.Namespace, domain: Domain, console: Console, comm: Communicator = ALONE
) -> PublicInputs:
    """Make the support and the workload; the support of MWEM is every row of the domain.

    Without a public file the support has no public row; `auto` and models with rows of their own allow this.
    """
    constraints = on_every_rank(
        comm, lambda: Constraints.read(options.constraints, domain) if options.constraints else None
    )
    workload = on_every_rank(comm, lambda: make_workload(options, domain))
    alone = comm is ALONE
    kind = ALGORITHM_OF_METHOD.get(options.method)
    if options.public and kind is not None and (reason := kind.takes_no_public):
        given = f"public file ({', '.join(options.public)})"
        raise RefusalError(f"{given} must not be given with --method {options.method}: {reason}")
    if options.method == "mwem":
        if not alone:
            return PublicInputs(ShardedSupport.full(domain, comm, constraints=constraints), workload)
        return PublicInputs(Support.full(domain, constraints=constraints), workload)
    if not options.public:
        if not _public_optional(options.method):
            without = [
                "auto",
                *(name for name in ALGORITHM_OF_METHOD if name == "mwem" or _public_optional(name)),
            ]
            listed = f"{', '.join(without[:-1])} and {without[-1]}"
            raise RefusalError(
                f"--method ({options.method}) must come with a public file", f"{listed} do without"
            )
        if not alone:
            raise RefusalError("--cluster must come with --public", "rows that ranks share are public ones")
        return PublicInputs(Support.without_public(domain, constraints), workload)
    if not alone:
        shard = _read_shard(options, domain, constraints, console, comm)
        return PublicInputs(shard, workload, (shard,))
    files = []
    for path in options.public:
        with console.step(f"reading {path}"):
            public = scan_table(
                path,
                domain,
                private=False,
                missing_ok=_public_optional(options.method),
                on_note=console.note,
            )
            files.append(Support.from_table(public, constraints, domain=domain))
            if constraints is not None and (lost := public.n - files[-1].records):
                console.note(f"{path}: {lost:,} of {public.n:,} records break a constraint, and are left out")
        if files[-1].missing and len(options.public) > 1:
            raise RefusalError(
                f"{path} lacks the column {in_words(files[-1].missing)}",
                "of several public files each must have every column of the domain",
            )
    return PublicInputs(Support.from_tables(files) if len(files) > 1 else files[0], workload, tuple(files))


def read_private_input(options: argparse.Namespace, workload: Workload, console: Console) -> Records:
    """Read the private file of a command line: checked records, or counts."""
    with console.step(f"checking {options.private}"):
        if is_counts(options.private):
            return read_counts(options.private, workload, options.unit, options.at_most)
        return scan_table(
            options.private,
            workload.domain,
            private=True,
            unit=options.unit,
            at_most=options.at_most,
            syntax=syntax_of(options),
            on_note=console.note,
        )


def read_counts(path: str, workload: Workload, unit: str | None = None, at_most: int | None = None) -> Counts:
    """Read an engine's counts (docs/engines.md); refuses counts of another domain, workload or unit.

    unit, at_most: options that, if given, must agree with the file: the engine has applied the limit.
    """
    counts = Counts.load(path)
    domain, counted = workload.domain, counts.domain
    if counted != domain:
        unlike = [name for name in domain.names if name not in counted or counted[name] != domain[name]]
        unlike += [name for name in counted.names if name not in domain]
        what = f"attribute {shown(unlike[0])} differs" if unlike else "the attributes are in another order"
        raise RefusalError(
            f"{path} was counted on another domain than --domain: {what}",
            "count again on this one, or name the domain file that the engine counted on",
        )
    try:
        counts.check_counted(workload)
    except ValueError as error:
        hint = "count these marginals too, or ask with --marginals for what was counted"
        raise RefusalError(f"{path}: {error}", hint) from None
    if unit is not None and (unit, at_most) != (counts.unit, counts.at_most):
        raise RefusalError(
            f"--unit ({unit}) and --at-most ({at_most}) must be those of {path}, which protects one "
            f"{counts.protected}",
            "leave them out, or count again: a cap is applied where the records lie",
        )
    return counts


def _public_optional(method: str) -> bool:
    """True if a method accepts public rows with missing columns, or none at all."""
    return method == "auto" or ALGORITHM_OF_METHOD[method]().fills_missing_columns


def _read_shard(
    options: argparse.Namespace,
    domain: Domain,
    constraints: Constraints | None,
    console: Console,
    comm: Communicator,
) -> Support:
    """Read this rank's rows of one public file with every column of the domain."""
    if len(options.public) > 1:
        raise RefusalError("--cluster must come with one public file", "several lie on one rank")
    (path,) = options.public

    def check() -> None:
        for file in files_of(checked_path(path)):
            columns = set(columns_of(file, private=False)[0])
            lacking = [name for name in domain.names if name not in columns]
            if lacking:
                raise RefusalError(
                    f"{path} lacks the column {in_words(lacking)}",
                    "without --cluster, --method auto completes its rows",
                )

    on_every_rank(comm, check)
    with console.step(f"reading {path}"):
        return ShardedSupport.from_parquet(path, domain, comm, constraints=constraints)


def make_workload(options: argparse.Namespace, domain: Domain) -> Workload:
    """All marginals of the orders that --marginals lists, or a sample of them."""
    orders = options.marginals or [min(DEFAULT_ORDER, len(domain))]
    listed = ",".join(map(str, orders))
    if options.sample is not None and len(orders) > 1:
        raise RefusalError(f"--sample ({options.sample}) must come with one order of marginals, not {listed}")
    target = getattr(options, "target", None)
    if target is not None and options.sample is not None:
        raise RefusalError(f"--target ({target}) must come without --sample")
    if target is not None and target not in domain:
        raise RefusalError(f"--target ({target}) must be an attribute of the domain")
    try:
        if options.sample is None:
            return Workload.all(domain, k=orders, target=target)
        return Workload.sample(domain, k=orders[0], size=options.sample, seed=SAMPLE_SEED)
    except ValueError as error:
        flags = f"--marginals {listed}"
        flags += "" if options.sample is None else f" --sample {options.sample}"
        too_many = options.sample is None and max(orders) <= min(LARGEST_ORDER, len(domain))
        hint = "--sample draws some of very many marginals" if too_many else None
        raise RefusalError(f"{flags}: {error}", hint) from None


def choose(options: argparse.Namespace, n: int, inputs: PublicInputs, at_most: int = 1) -> Mechanism:
    """Make the mechanism of --method with the budget of the options.

    n, at_most: the number of private records, and the maximum per unit.
    """
    if n == 0:
        raise RefusalError("private (0 records) must have at least one record")
    kind = ALGORITHM_OF_METHOD.get(options.method)
    chosen = {name: getattr(options, name) for name in ("rounds", "measure")}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    for name, value in chosen.items():
        if kind is None:
            raise RefusalError(
                f"--{name} ({value}) must come with a --method other than auto, which chooses it"
            )
        if name == "measure" and not issubclass(kind, Algorithm):
            raise RefusalError(
                f"--measure ({value}) must come with a --method that measures, not {options.method}"
            )
    if kind is None:
        given = {"epsilon": options.epsilon, "delta": options.delta, "at_most": at_most}
        return recommend(n, inputs.support, inputs.workload, **given)
    return kind(**chosen).calibrate(options.epsilon, options.delta, n=n, at_most=at_most)
