"""Counting where the private records lie: a database, Spark, Dask or Ray.

What leaves the engine is a `Counts`, exact and private, which stands wherever a private table does. Records
stay where they are; only the public rows need the memory of this machine, or MPI (docs/cluster.md).
"""

from privmw.extensions.engines.counts import Counts
from privmw.extensions.engines.partitions import dask, ray, spark
from privmw.extensions.engines.statements import Statements, sql

__all__ = ["Counts", "Statements", "dask", "ray", "spark", "sql"]
