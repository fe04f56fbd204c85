"""Count private records inside a database, Spark, Dask or Ray.

The result is a `Counts`, exact and private, which is accepted in place of a private table. Records stay where
they are; only the public rows need the memory of this machine, or MPI (docs/cluster.md).
"""

from privmw.extensions.engines.counts import Counts
from privmw.extensions.engines.partitions import dask, ray, spark
from privmw.extensions.engines.statements import Statements, sql

__all__ = ["Counts", "Statements", "dask", "ray", "spark", "sql"]
