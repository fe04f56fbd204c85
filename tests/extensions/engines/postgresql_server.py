"""A PostgreSQL server of its own, on a socket in a folder of its own; the study `engines` runs it too."""

import contextlib
import getpass
import os
import shutil
import subprocess
import tempfile
from pathlib import Path


def programs():
    """The folder of PostgreSQL's programs, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [shutil.which("initdb")]
    return None if found[-1] is None else Path(found[-1]).parent


@contextlib.contextmanager
def running():
    """Start a server; yields the address to connect to, and stops it at the end."""
    found = programs()
    if found is None:
        raise FileNotFoundError("no PostgreSQL server: apt-get install postgresql")
    root = os.geteuid() == 0  # as root it does not start: Debian's user postgres does
    user = "postgres" if root else getpass.getuser()
    prefix = ["runuser", "-u", user, "--"] if root else []
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    try:
        if root:
            shutil.chown(folder, user)
        data, quiet = folder / "data", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        as_user = ["-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        init = [*prefix, str(found / "initdb"), "-D", str(data), *as_user]
        subprocess.run(init, check=True, capture_output=True, cwd=folder)
        control = [*prefix, str(found / "pg_ctl"), "-D", str(data), "-w"]
        options = f"-k {folder} -c listen_addresses= -c fsync=off"
        start = [*control, "-l", str(folder / "log"), "-o", options, "start"]
        subprocess.run(start, check=True, cwd=folder, **quiet)
        try:
            yield f"host={folder} user=tester dbname=postgres"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, cwd=folder, capture_output=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
