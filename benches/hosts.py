"""Hosts on one machine: network namespaces behind a bridge, in which `mpiexec` starts ranks over TCP.

    with Hosts(3) as hosts:
        job = hosts.start("-m", "privmw", ...)   # one rank per host
        hosts.delay(0.02); hosts.cut(2); hosts.connect(2)

Needs root and iproute2: `missing()` says what is not there.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
LAUNCHER = """#!/bin/sh
# mpiexec calls it as it would ssh: options, a host, a command
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
# With its own host name and address, so that MPI does not share memory between hosts.
exec ip netns exec "PREFIX${host##*.}" unshare --uts --mount sh -c \
    "hostname host${host##*.}; mount --bind FOLDER/hosts /etc/hosts; \\
    export UCX_TLS=tcp,self FI_TCP_IFACE=eth0; $*"
"""


def missing() -> str | None:
    """What these hosts need and this machine lacks; None if they can be made."""
    if MPIEXEC is None:
        return "mpiexec: pip install mpich mpi4py"
    if not shutil.which("ip") or not shutil.which("tc"):
        return "ip and tc of iproute2"
    name = f"privmw-try-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None if tried.returncode == 0 else "the right to make network namespaces (root)"


def _ip(*words: object, check: bool = True) -> None:
    subprocess.run(["ip", *map(str, words)], check=check, capture_output=True)


class Hosts:
    """So many hosts, 10.77.N.1 and so on, in namespaces of this process; removed at the end."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._prefix = f"pmw{os.getpid()}h"
        self._bridge = f"pmwbr{os.getpid()}"
        self._net = f"10.77.{os.getpid() % 250 + 1}"
        self._folder = Path(mkdtemp(prefix="privmw-hosts-"))

    def __enter__(self) -> Hosts:  # noqa: PYI034 - Python 3.10 has no typing.Self
        launcher = self._folder / "launcher"
        launcher.write_text(LAUNCHER.replace("PREFIX", self._prefix).replace("FOLDER", str(self._folder)))
        names = [f"{self._net}.{number} host{number}" for number in range(1, self.count + 1)]
        (self._folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        launcher.chmod(0o755)
        # The bridge is in a namespace too, so that nothing outside changes.
        switch = f"{self._prefix}0"
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", self._bridge, "type", "bridge")
        _ip("-n", switch, "link", "set", self._bridge, "up")
        for number in range(1, self.count + 1):
            host = f"{self._prefix}{number}"
            _ip("netns", "add", host)
            _ip("-n", switch, "link", "add", f"port{number}", "type", "veth", "peer", "eth0", "netns", host)
            _ip("-n", switch, "link", "set", f"port{number}", "master", self._bridge, "up")
            _ip("-n", host, "addr", "add", f"{self._net}.{number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", host, "link", "set", device, "up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in range(self.count + 1):
            _ip("netns", "del", f"{self._prefix}{number}", check=False)
        shutil.rmtree(self._folder)

    def start(self, *words: object, ranks: int | None = None) -> subprocess.Popen[str]:
        """Start a Python program with one rank on each host, or on each of the first ones."""
        addresses = [f"{self._net}.{number}" for number in range(1, (ranks or self.count) + 1)]
        launcher = str(self._folder / "launcher")
        command = [str(MPIEXEC), "-launcher", "ssh", "-launcher-exec", launcher, "-localhost", addresses[0]]
        command += ["-hosts", ",".join(addresses), "-n", str(len(addresses)), "-ppn", "1", sys.executable]
        return subprocess.Popen(
            [launcher, addresses[0], f"exec {shlex.join([*command, *map(str, words)])}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def delay(self, seconds: float) -> bool:
        """Delay all that a host sends by so many seconds; 0 ends that. False if the kernel has no netem."""
        for number in range(1, self.count + 1):
            host = f"{self._prefix}{number}"
            how = ["add", "dev", "eth0", "root", "netem", "delay", f"{seconds * 1e3:.3f}ms"]
            words = how if seconds else ["del", "dev", "eth0", "root"]
            done = subprocess.run(["tc", "-n", host, "qdisc", *words], check=False, capture_output=True)
            if seconds and done.returncode != 0:
                return False
        return True

    def cut(self, number: int) -> None:
        """Cut a host (from 1) off from the others."""
        _ip("-n", f"{self._prefix}0", "link", "set", f"port{number}", "down")

    def connect(self, number: int) -> None:
        """Connect a host that was cut off."""
        _ip("-n", f"{self._prefix}0", "link", "set", f"port{number}", "up")
