"""DualQuery and FEM: rounds that draw signed cells, and an oracle that answers with records."""

from privmw.extensions.baselines.dual_query import DualQuery
from privmw.extensions.baselines.fem import FEM

__all__ = ["FEM", "DualQuery"]
