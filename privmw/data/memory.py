"""How much memory this machine has: what bounds a support, a plan or a table of synthetic records."""

from __future__ import annotations

import os


def physical_memory() -> int:
    """Bytes of physical memory; 2^63, no bound, where the operating system does not tell.

    >>> physical_memory() > 0
    True
    """
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**63
