"""One rank of a release over MPI, in a process of its own; bench_cluster.py starts them.

    python cluster_rounds.py make FILE ROWS                       writes the public rows, 67 columns of codes
    mpiexec -n R python cluster_rounds.py run FILE THREADS MARGINALS ROUNDS    prints figures as JSON (rank 0)

Figures: seconds and bytes added up of every round but the first, and each rank's memory. The digest is of the
answers and must be the same for any number of ranks and threads.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from footprint import memory
from shapes import ACS_SIZES, acs67

import privmw as pmw
from privmw.extensions.cluster import ShardedSupport, mpi
from privmw.ranks import allgather
from privmw.release.history import Round

GROUP = 2**18  # rows of a row group
RECORDS = 100_000  # private
ALGORITHMS = {
    "MW-Pub": lambda rounds: pmw.MWPub(rounds=rounds),
    "MW-Pub, by changes": lambda rounds: pmw.MWPub(rounds=rounds, replay="none"),
    "PEP, marginals": lambda rounds: pmw.PEP(rounds=min(rounds, 3), prior_weight=3000.0),  # of many passes
}


def make(file: Path, rows: int) -> None:
    table = acs67(rows)
    batch = pa.table({name: table.column(name) for name in table.domain.names})
    pq.write_table(batch, file, row_group_size=GROUP, compression="lz4")


def run(file: Path, threads: int, marginals: int, rounds: int) -> None:
    comm = mpi()
    pmw.kernels.set_threads(threads)
    domain = pmw.Domain({f"a{a:03d}": size for a, size in enumerate(ACS_SIZES)})
    began = time.perf_counter()
    support = ShardedSupport.from_parquet(str(file), domain, comm)
    figures: dict[str, object] = {"ranks": comm.size, "threads": threads, "rows": support.whole_size}
    figures["reading"] = time.perf_counter() - began
    workload = pmw.Workload.sample(domain, k=3, size=marginals, seed=0)
    private = None
    if comm.rank == 0:
        records = acs67(RECORDS)
        columns = dict(zip(domain.names, records.columns, strict=True))
        private = pmw.Table(columns, domain, private=True)
    digest = hashlib.sha256()
    figures["cells"], figures["rounds"] = workload.cells, {}
    for name, algorithm in ALGORITHMS.items():
        marks: list[tuple[float, int, int]] = []

        def mark(entry: Round, marks: list[tuple[float, int, int]] = marks) -> None:
            marks.append((time.perf_counter(), comm.bytes_reduced, comm.collectives))

        release = algorithm(rounds).calibrate(rho=0.1)(
            private,
            support,
            workload,
            rng=1,
            progress=mark,
            public_is_public=True,
        )
        digest.update(release.answers().tobytes())
        pairs = itertools.pairwise(marks)
        figures["rounds"][name] = [[b - a for a, b in zip(*pair, strict=True)] for pair in pairs]
        if name == "MW-Pub":
            figures["plan"] = algorithm(rounds).calibrate(rho=0.1).plan(support, workload).traffic
    figures["digest"] = digest.hexdigest()
    figures["peaks"] = allgather(comm, memory("VmHWM"))[:, 0].tolist()
    if comm.rank == 0:
        print(json.dumps(figures))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        run(Path(sys.argv[2]), *map(int, sys.argv[3:]))
