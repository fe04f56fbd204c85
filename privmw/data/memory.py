"""The memory that this process may use, which limits supports, plans and tables of synthetic records."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

NO_BOUND = 2**63
CGROUPS = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Bytes that this process may use: the minimum of the machine's, the container's and its own limit.

    The process limit (`ulimit -v`) counts addresses, so those in use are subtracted. 2^63 if the operating
    system reports no limit.

    >>> available_memory() > 0
    True
    """
    return max(min(_physical(), _of_container(), _of_process()), 0)


def _physical() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return NO_BOUND


def _of_container() -> int:
    """The smallest limit of this process's cgroup and its ancestors."""
    limits = [NO_BOUND]
    with contextlib.suppress(OSError, ValueError):
        # 0::/user.slice/... in version 2; 4:memory:/docker/... in version 1
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                inside = Path(path.lstrip("/"))
                for group in (inside, *inside.parents):
                    limits += [_limit(CGROUPS / group / "memory.max")]
                    limits += [_limit(CGROUPS / "memory" / group / "memory.limit_in_bytes")]
    return min(limits)


def _limit(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # "max"
        return NO_BOUND


def _of_process() -> int:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (ImportError, OSError, ValueError):
        return NO_BOUND
    return NO_BOUND if limit == resource.RLIM_INFINITY else limit - used
