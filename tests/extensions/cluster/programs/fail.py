"""One rank of a job cannot go on, or not as the others do: HOW, and which rank."""

import os
import signal
import sys
import time

import numpy as np

import privmw.extensions.cluster.mpi  # noqa: F401

how, who = sys.argv[1], int(sys.argv[2])
if how == "version" and os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK")) == str(who):
    sys.modules["privmw.extensions.cluster.mpi"].__version__ = "0.0.9"
if how == "arithmetic" and os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK")) == str(who):
    exponential = np.exp
    np.exp = lambda x: np.nextafter(exponential(x), 9)

if how == "threadless":
    import mpi4py

    mpi4py.rc.threads = False
    sys.modules["privmw.extensions.cluster.heartbeat"].WAIT = 0.5

from privmw.extensions import cluster  # noqa: E402
from privmw.ranks import on_every_rank  # noqa: E402

comm = cluster.mpi()
mine = comm.rank == who


def act():
    if how == "raise":
        raise ValueError("the cause of it all")
    if how == "exit":
        sys.exit(3)
    if how == "end":
        sys.exit(0)
    if how == "_exit":
        os._exit(5)
    if how == "abort":
        cluster.abort_job(7)
    if how == "catch":
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        try:
            comm.allreduce(np.zeros(5, np.int64))
        except KeyboardInterrupt:
            sys.exit(0)
    if how in ("SIGKILL", "SIGTERM", "SIGINT", "SIGSEGV"):
        os.kill(os.getpid(), getattr(signal, how))
        time.sleep(60)


def missing():
    if mine:
        raise FileNotFoundError("people.parquet must exist")


if how == "together":
    on_every_rank(comm, missing)
if how == "everyone" or (how == "others" and not mine):
    raise ValueError("the cause of it all")
if how == "exits":
    sys.exit(3)
if how == "late":
    if mine:
        time.sleep(3)
    sys.exit(0)
if how in ("STOP", "slow"):
    comm.wait = 0.5  # shorter than the interval of heartbeats: then a few of these
    if mine:
        os.kill(os.getpid(), signal.SIGSTOP) if how == "STOP" else time.sleep(5)
if how == "threadless" and mine:
    time.sleep(4.5)
if how == "patient":
    comm.wait = float("inf")
if how == "wait":
    if mine:
        sys.stdout.write("waiting\n")
        sys.stdout.flush()
        time.sleep(60)
elif mine and how not in ("STOP", "slow"):
    act()
elif how == "catch":
    time.sleep(60)
comm.allreduce(np.zeros(5, np.int64))
sys.stdout.write("met\n")
