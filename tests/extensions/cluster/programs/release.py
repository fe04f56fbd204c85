"""A rank of releases: release.py FOLDER KIND,KIND OUTPUT [CHECKPOINT [WHO ROUND]]

FOLDER holds public/ (parquet files), private.parquet and domain.json. A KIND is an algorithm of
cluster.cases, on private records of rank 0 or "sharded"; OUTPUT gets KIND.npz. With WHO and ROUND that rank
is killed in that round. KIND.RANK says whether the memory of a rank held the counts of FOLDER/hidden.npy in
the second round.
"""

import os
import signal
import sys

import numpy as np

import privmw as pmw
from extensions.cluster.cases import ALGORITHMS, MASK, workload_of
from privmw.extensions.cluster import ShardedRecords, ShardedSupport, mpi
from privmw.models.multiplicative import MultiplicativeWeights
from privmw.models.projected import ProjectionModel

folder, kinds, output = sys.argv[1:4]
checkpoint = sys.argv[4] if len(sys.argv) > 4 else None
who, dying = (int(word) for word in sys.argv[5:7]) if len(sys.argv) > 5 else (None, None)
hidden = np.load(os.path.join(folder, "hidden.npy"))
held = None


def in_memory():
    """Whether the numbers lie anywhere in this process; what is known of them here is masked."""
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in list(maps):
            place, rights = line.split()[:2]
            if "rw" in rights and "[v" not in line:
                start, last = (int(number, 16) for number in place.split("-"))
                while start < last:
                    os.lseek(memory.fileno(), start, os.SEEK_SET)
                    try:
                        read = memory.read(min(2**24, last - start))
                    except OSError:  # a page that is gone by now
                        read = b""
                    numbers = np.frombuffer(read, np.int64)
                    for at in np.flatnonzero(numbers ^ MASK == hidden[0]):
                        found = numbers[at : at + len(hidden)]
                        if len(found) == len(hidden) and (found ^ MASK == hidden).all():
                            return True
                    start += max(len(read) - hidden.nbytes, 4096)  # they may lie across two blocks
    return False


def watched(update):
    def updated(self, measurements, *, last=False):
        global held
        number = measurements[0].round
        if comm.rank == who and number == dying:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 2:
            held = in_memory()
        return update(self, measurements, last=last)

    return updated


for model in (MultiplicativeWeights, ProjectionModel):
    model.update = watched(model.update)
comm = mpi()
domain = pmw.Domain.read(os.path.join(folder, "domain.json"))
support = ShardedSupport.from_parquet(os.path.join(folder, "public"), domain, comm)
file = os.path.join(folder, "private.parquet")
for kind in kinds.split(","):
    held = None
    if kind.startswith("sharded "):
        private = ShardedRecords.from_parquet(file, domain, comm, private=True)
    else:
        private = pmw.read_table(file, domain, private=True) if comm.rank == 0 else None
    mechanism = ALGORITHMS[kind.removeprefix("sharded ")].calibrate(rho=0.5)
    release = mechanism(
        private, support, workload_of(domain), rng=7, threads=1, checkpoint=checkpoint, every=2
    ).gathered()
    if release is not None:
        release.save(os.path.join(output, f"{kind}.npz"))
    with open(os.path.join(output, f"{kind}.{comm.rank}"), "w") as saying:
        saying.write(str(held))
