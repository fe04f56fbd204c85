"""Kills runs with an account and a checkpoint at random times, and repeats them: is any budget spent twice?

`python tests/algorithms/killed_runs.py FOLDER KILLS SEED` prints what it found as JSON. One process imports
privmw and forks each run, so that a kill costs no import.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import privmw as pmw
from privmw.algorithms.checkpoint import FORM, VERSION
from privmw.release.file import read_archive, read_measurements

DOMAIN = pmw.Domain({"age": 4, "sex": 2, "own": 3})
PRIVATE = pmw.Table.from_codes([[0, 0, 1], [1, 1, 2], [3, 0, 0], [2, 1, 1]] * 60, DOMAIN, private=True)
MECHANISM = pmw.MWPub(rounds=12, measure="marginal", warm_up=0.1).calibrate(epsilon=1, delta=1e-9)
KILLS_A_RUN = 3


def release(place, account):
    """The command: it makes the release, or goes on where a former one was killed."""
    made = MECHANISM(
        PRIVATE,
        pmw.Support.full(DOMAIN),
        pmw.Workload.all(DOMAIN, k=2),
        checkpoint=place / "checkpoint",
        every=3,
        account=account,
    )
    made.save(place / "x.release", overwrite=True)


def forked(place, account, until=None):
    """Run the command in another process, and kill it after some seconds; returns whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            release(place, account)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
    if until is not None:
        time.sleep(until)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "the command failed"
    return False


def stored(place):
    return {
        path.name: path.read_bytes() for path in sorted((place / "checkpoint" / "rounds").glob("[0-9]*.zip"))
    }


def measured(place):
    """The measurements of the stored rounds."""
    for path in sorted((place / "checkpoint" / "rounds").glob("[0-9]*.zip")):
        members = read_archive(path, form=FORM, version=VERSION)
        yield from read_measurements(json.loads(members["round.json"])["measurements"], members)


def main(folder, kills, seed):
    rng = random.Random(seed)
    account = folder / "account.jsonl"
    pmw.Account.create(account, pmw.Budget.approximate(50, 1e-9))
    began = time.monotonic()
    (folder / "first").mkdir()
    forked(folder / "first", account)
    usual = time.monotonic() - began
    one = pmw.load_release(folder / "first" / "x.release").ledger.total
    found = {"kills": 0, "runs": 1, "lost": 0, "changed": 0, "spent_twice": 0}
    while found["kills"] < kills:
        place = folder / str(found["runs"])
        place.mkdir()
        for _ in range(KILLS_A_RUN):
            before = stored(place)
            found["kills"] += forked(place, account, rng.uniform(0, usual))
            after = stored(place)
            found["changed"] += any(after.get(name) != content for name, content in before.items())
        before = stored(place)
        forked(place, account)
        found["runs"] += 1
        made = pmw.load_release(place / "x.release")
        found["changed"] += any(stored(place)[name] != content for name, content in before.items())
        found["lost"] += list(made.measurements) != list(measured(place)) or made.ledger.total != one
    total = pmw.Account(account)
    found["spent_twice"] = len(total.runs) - found["runs"]
    assert all(run.total == one for run in total.runs)
    assert total.total.rho == found["runs"] * one.rho
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
