"""A checkpoint: a folder from which an interrupted run is resumed, on any number of ranks.

run.json identifies the run and holds the terms of its ledger. rounds/N.zip holds the released values of round
N and their events; it is written before anything else sees them: nothing is drawn again, so nothing is spent
twice. Each file holds the digest of the one before it, and rounds.txt those of all, so that a missing last
one shows too. What a round says must be what the schedule allows; the ledger is charged anew.
weights/N.R.zip is the model after round N on rank R, its rows in the order of their hashes, which is the same
for any number of ranks; weights.json names the last complete one, and without it the rounds suffice.
Everything in the folder is public or released, and readable by its owner only: no private value, no
generator.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from privmw.accounting import Event, Ledger
from privmw.accounting.record import read_event, write_budget, write_event
from privmw.accounting.rounding import positive_integer
from privmw.algorithms.loop import Model, Released
from privmw.algorithms.schedule import ExpectedRounds
from privmw.data.strict_json import parse_json
from privmw.data.support import Support
from privmw.io.whole_file import whole_file
from privmw.kernels.arrays import Float64s
from privmw.kernels.checks import check_integer
from privmw.random import Rng
from privmw.ranks import allgather, on_every_rank, on_root
from privmw.release.file import (
    describe_measurements,
    explained,
    read_archive,
    read_array,
    read_measurements,
    write_archive,
    write_array,
    write_measurements,
)
from privmw.release.history import Round, read_round, write_round
from privmw.secrecy import expect, shown

LINE_OF_ROUNDS = re.compile(r"([0-9]{6,}\.zip) ([0-9a-f]{64})")  # of rounds.txt
FORM, VERSION = "privmw checkpoint", 2


class Checkpoint:
    """The folder of one run, opened by all its ranks, or created if it does not exist.

    identity: equal for two runs of the same settings; the support's rows and constraints are added here.
    terms: a ledger without events. every: None stores rounds only, and only rank 0 needs to see the folder.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        identity: str,
        support: Support,
        *,
        terms: Ledger,
        expected: ExpectedRounds,
        every: int | None = 10,
    ) -> None:
        self._comm, self._support = support.comm, support
        self._every = None if every is None else positive_integer("every", every)
        self._folder, self._expected, self._terms = Path(folder), expected, terms
        rules = "" if support.constraints is None else support.constraints.to_json()
        named = f"{identity} {support.fingerprint()} {rules}"
        self._identity = hashlib.sha256(named.encode()).hexdigest()
        self._digest, self._events = "", 0  # on rank 0: of the last round; stored in all
        run, released, ledger = on_root(self._comm, self._open)
        self.run: str = run  # the run's identifier, kept when the run is resumed
        self.released: Sequence[Released] = released
        self.ledger: Ledger | None = ledger
        if every is not None:
            on_every_rank(self._comm, self._check)

    @property
    def finished(self) -> bool:
        """True if every round was released."""
        return len(self.released) == len(self._expected.numbers)

    def rng(self, rng: Rng) -> Rng:
        """The generator of the remaining rounds: a seed is changed, so that no number is drawn twice."""
        if self.ledger is None or rng is None:
            return rng
        expect("rng", rng, int | np.integer, "None or a seed to resume a run")
        changed = hashlib.sha256(f"{rng} after {len(self.ledger.events)} events".encode()).digest()
        return int.from_bytes(changed[:7], "little")

    def store_round(self, released: Released, ledger: Ledger) -> None:
        """Store the released values of a round, before anything else sees them."""
        on_root(self._comm, lambda: self._store_round(released, ledger))

    def store_state(self, history: Sequence[Round], model: Model) -> None:
        """Store the model every `every` rounds."""
        number = history[-1].round
        if self._every is None or number % self._every:
            return
        state = model.state()
        if state is None:
            return
        rows, others = state
        order = self._support.hash_order()
        arrays = {f"rows/{name}.npy": array[order] for name, array in rows.items()}
        arrays |= {f"others/{name}.npy": array for name, array in others.items()}
        shard = self._shard(number, self._comm.rank)
        members = ((name, write_array(array)) for name, array in arrays.items())
        on_every_rank(self._comm, lambda: _write(shard, members, overwrite=True))
        sizes = allgather(self._comm, np.int64(self._support.size))[:, 0].tolist()
        stored = {"round": number, "sizes": sizes, "history": [write_round(entry) for entry in history]}
        on_root(self._comm, lambda: self._commit(stored))

    def restore(self, model: Model) -> list[Round]:
        """Restore the model's last stored state; returns the history up to there."""
        stored = None if self._every is None else on_root(self._comm, self._stored)
        if stored is None:
            return []
        sizes = allgather(self._comm, np.int64(self._support.size))[:, 0].tolist()
        place = sum(sizes[: self._comm.rank])
        state = on_every_rank(self._comm, lambda: self._state(stored["round"], stored["sizes"], place))
        history = [read_round(entry) for entry in stored["history"]]
        measurements = [
            measurement
            for released in self.released
            if released.round <= stored["round"]
            for measurement in released.measurements
        ]
        model.restore(measurements, state)
        return history

    def _open(self) -> tuple[str, list[Released], Ledger | None]:
        """On rank 0: returns the identifier of the run, the stored rounds, and the ledger after them."""
        file = self._folder / "run.json"
        if not file.exists():
            if any(path.is_file() and not _unfinished(path) for path in self._folder.rglob("*")):
                raise ValueError(f"checkpoint ({self._folder}) must be a checkpoint or an empty folder")
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in ("rounds", "weights"):
                (self._folder / name).mkdir(mode=0o700, exist_ok=True)
            new = {"run": secrets.token_hex(16), "identity": self._identity, "terms": _terms(self._terms)}
            with contextlib.suppress(FileExistsError):  # another process created it first: use its file
                _write_json(file, new)
        run = self._check()
        rounds, ledger = self._read_rounds()
        return run, rounds, ledger

    def _check(self) -> str:
        """On every rank: check that it sees the folder of this run; returns the run's identifier."""
        stored = _read_json(self._folder / "run.json", {"run", "identity", "terms"})
        if stored["identity"] != self._identity or stored["terms"] != _terms(self._terms):
            raise ValueError(
                f"checkpoint ({self._folder}) must be of this run: the support, the workload, the algorithm, "
                f"its budget, the number of private records or the version of privmw differs"
            )
        return str(stored["run"])

    def _read_rounds(self) -> tuple[list[Released], Ledger | None]:
        """On rank 0: read the stored rounds, check them against the schedule, and charge the ledger."""
        rounds: list[Released] = []
        ledger = None
        digests: dict[str, str] = {}
        first = self._expected.numbers[0]
        # If a killed run drew a round without storing it, the round is drawn again, and only the new one is
        # kept.
        for path in (self._folder / "rounds").glob(".*.unfinished"):
            path.unlink(missing_ok=True)
        for path in sorted((self._folder / "rounds").glob("[0-9]*.zip")):
            stored = _read_round(path)
            if stored.after != self._digest:
                raise ValueError(
                    f"checkpoint ({self._folder}) must hold the rounds of one run, all of them: the one "
                    f"before {path.name} is missing or another"
                )
            with explained(path, FORM):
                if path != self._round(stored.released.round):
                    raise ValueError(f"round ({stored.released.round}) must be that of the file's name")
                self._expected.check(stored.released, stored.events, first + len(rounds), rounds)
                ledger = _charged(self._terms if ledger is None else ledger, stored, new=ledger is None)
            self._digest = digests[path.name] = _digest(path)
            rounds.append(stored.released)
        self._events = 0 if ledger is None else len(ledger.events)
        for name, digest in self._stored_rounds():
            if digests.get(name) != digest:
                raise ValueError(f"checkpoint ({self._folder}) must hold {name} as it was stored")
        return rounds, ledger

    def _store_round(self, released: Released, ledger: Ledger) -> None:
        """On rank 0: write a file with the digest of the previous one."""
        path, events = self._round(released.round), ledger.events
        try:
            _write(path, _members(released, events[self._events :], ledger, self._digest))
        except FileExistsError:
            raise ValueError(
                f"checkpoint ({self._folder}) must be used by one run at a time: another has released round "
                f"{released.round}"
            ) from None
        self._digest, self._events = _digest(path), len(events)
        # Not synced: the round's file is, and this line only distinguishes a lost file from one never
        # written.
        with open(self._folder / "rounds.txt", "ab", opener=partial(os.open, mode=0o600)) as file:
            file.write(f"\n{path.name} {self._digest}\n".encode())  # even after an unfinished line

    def _stored_rounds(self) -> Iterator[tuple[str, str]]:
        """On rank 0: the names and digests of stored rounds; unfinished lines are ignored."""
        file = self._folder / "rounds.txt"
        for line in file.read_bytes().split(b"\n") if file.exists() else ():
            if found := LINE_OF_ROUNDS.fullmatch(line.decode(errors="replace")):
                yield found[1], found[2]

    def _round(self, number: int) -> Path:
        return self._folder / "rounds" / f"{number:06}.zip"

    def _shard(self, number: int, rank: int) -> Path:
        return self._folder / "weights" / f"{number:06}.{rank:04}.zip"

    def _commit(self, stored: Mapping[str, Any]) -> None:
        """On rank 0, after all shards are written: record the state and delete earlier ones."""
        after = _digest(self._round(stored["round"]))
        _write_json(self._folder / "weights.json", {**stored, "after": after}, overwrite=True)
        for path in (self._folder / "weights").iterdir():  # and unfinished files of ranks that were killed
            if not path.name.startswith(f"{stored['round']:06}."):
                path.unlink()

    def _stored(self) -> dict[str, Any] | None:
        """On rank 0: the contents of weights.json, if it exists."""
        file = self._folder / "weights.json"
        if not file.exists():
            return None
        stored = _read_json(file, {"after", "round", "sizes", "history"})
        if not self.released or stored["round"] > self.released[-1].round:
            raise ValueError(f"checkpoint ({self._folder}) must hold every round up to {stored['round']}")
        if stored["after"] != _digest(self._round(stored["round"])):
            raise ValueError(f"checkpoint ({self._folder}) must hold weights that its rounds led to")
        return stored

    def _state(
        self, number: int, sizes: Sequence[int], place: int
    ) -> tuple[dict[str, Float64s], dict[str, Float64s]]:
        """The state of this rank's rows, which begin at `place` in the concatenated shards."""
        order = self._support.hash_order()
        rows: dict[str, Float64s] = {}
        others: dict[str, Float64s] = {}
        begin, filled = 0, 0
        for rank, size in enumerate(sizes):
            low, high = max(begin, place), min(begin + size, place + len(order))
            if low < high:
                for path, array in _read_arrays(self._shard(number, rank)):
                    kind, name = path.split("/")
                    if kind == "others":
                        others[name] = array
                    elif len(array) == size:
                        values = rows.setdefault(name, np.empty(len(order)))
                        values[order[low - place : high - place]] = array[low - begin : high - begin]
                        filled += high - low
                    else:
                        raise ValueError(f"checkpoint ({self._folder}) must hold weights of every row")
            begin += size
        if begin != self._support.whole_size or filled != len(rows) * len(order):
            raise ValueError(f"checkpoint ({self._folder}) must hold weights of every row")
        return rows, others


class StoredRound(NamedTuple):
    """The content of a round's file: released values, events, and the source of randomness."""

    released: Released
    events: tuple[Event, ...]
    generator: str
    seeded: str | None
    after: str  # the digest of the previous file


def _terms(ledger: Ledger) -> dict[str, Any]:
    """The terms of a run's ledger, equal in all its rounds, as JSON values."""
    return {
        "budget": write_budget(ledger.budget),
        "neighbors": ledger.neighbors.value,
        **{name: getattr(ledger, name) for name in ("n", "unit", "numerics")},
    }


def _charged(ledger: Ledger, stored: StoredRound, *, new: bool) -> Ledger:
    """Charge the events of one more round; makes a new ledger if this one has no events yet."""
    if new:
        words = {"unit": ledger.unit, "numerics": ledger.numerics}
        if stored.seeded is None:
            words["generator"] = stored.generator
        ledger = Ledger(ledger.budget, ledger.neighbors, n=ledger.n, **words)
    for event in stored.events:
        ledger.charge(event)
    if stored.seeded is not None:
        ledger.mark_seeded(stored.seeded)
    if stored.released.rho != ledger.rho:
        raise ValueError(f"rho ({stored.released.rho}) must be that of all events so far, {ledger.rho}")
    return ledger


def _members(
    released: Released, events: Sequence[Event], ledger: Ledger, after: str
) -> Iterator[tuple[str, bytes]]:
    described = {
        "after": after,
        "round": released.round,
        "chosen": list(released.chosen),
        "rho": released.rho,
        "events": [write_event(event) for event in events],
        "generator": ledger.generator,
        "seeded": ledger.seeded,
        "measurements": describe_measurements(released.measurements),
    }
    yield "round.json", json.dumps(described, allow_nan=False).encode()
    yield from write_measurements(released.measurements)


def _read_round(path: Path) -> StoredRound:
    members = read_archive(path, form=FORM, version=VERSION)
    with explained(path, FORM):
        described = parse_json(members.pop("round.json").decode())
        measurements = tuple(read_measurements(described["measurements"], members))
        chosen = tuple(check_integer("chosen", choice, 0) for choice in described["chosen"])
        number = check_integer("round", described["round"], 0)
        released = Released(number, chosen, measurements, described["rho"])
        events = tuple(read_event(event) for event in described["events"])
        words = (described[name] for name in ("generator", "seeded", "after"))
        return StoredRound(released, events, *words)


def _unfinished(path: Path) -> bool:
    """True if this is an incomplete run.json, left by a run that was killed while it wrote it."""
    return path.name.startswith(".run.json.") and path.name.endswith(".unfinished")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_arrays(path: Path) -> Iterator[tuple[str, Float64s]]:
    members = read_archive(path, form=FORM, version=VERSION)
    with explained(path, FORM):
        for name, content in members.items():
            yield name.removesuffix(".npy"), read_array(content, np.float64)


def _write(path: Path, members: Iterable[tuple[str, bytes]], *, overwrite: bool = False) -> None:
    write_archive(path, members, form=FORM, version=VERSION, overwrite=overwrite, mode=0o600)


def _write_json(path: Path, values: Mapping[str, Any], *, overwrite: bool = False) -> None:
    contents = {"format": FORM, "version": VERSION, **values}
    with whole_file(path, overwrite=overwrite, mode=0o600) as file:
        file.write(json.dumps(contents, allow_nan=False).encode())


def _read_json(path: Path, names: set[str]) -> dict[str, Any]:
    with explained(path, FORM):
        values = parse_json(path.read_text("utf-8"))
        if not isinstance(values, dict) or values.pop("format", None) != FORM:
            raise ValueError(f"it must say format {shown(FORM)}")
        if values.pop("version", None) != VERSION or set(values) != names:
            raise ValueError(f"it must be of version {VERSION}")
        return values
