"""The counts of capped records over the ranks of MPI, written by rank 0."""

import sys

import numpy as np

import privmw as pmw
from privmw.extensions.cluster import ShardedRecords, mpi

path, domain, output = sys.argv[1:]
comm, domain = mpi(), pmw.Domain.read(domain)
records = ShardedRecords.from_parquet(path, domain, comm, private=True, unit="household", at_most=3)
counts = records.counts(pmw.Workload.all(domain, [1, 2, 3]))
if comm.rank == 0:
    np.save(output, counts)
