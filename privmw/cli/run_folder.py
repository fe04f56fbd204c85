"""The output folder of a release: reserved before the budget is spent, and kept once it is.

OUT/unfinished/ exists until every file is written. It holds the lock of the process that works on the folder,
the options of the run, disk space reserved for the release, and the checkpoint of the rounds. release.npz is
written first, atomically, and nothing here deletes it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from privmw.accounting import Account, Ledger
from privmw.cli.refusal import RefusalError, Remedy
from privmw.data.strict_json import parse_json
from privmw.io.whole_file import whole_file
from privmw.release import Release
from privmw.release.file import load_release

if TYPE_CHECKING:
    from typing_extensions import Self

RELEASE_FILE = "release.npz"
UNFINISHED = "unfinished"
TEMPORARY = re.compile(r"\..*\.[0-9a-f]{16}\.unfinished")  # the names that whole_file gives to its files


def release_of(path: str) -> Release:
    """Load the release of a folder given as the argument RELEASE."""
    file = Path(path) / RELEASE_FILE
    if not file.exists():
        raise RefusalError(f"RELEASE ({path}) must be a folder of a release, with {RELEASE_FILE}")
    return load_release(file)


class Paid(Protocol):
    """The result of a run that spent budget: a `Release`, or an extension's."""

    @property
    def ledger(self) -> Ledger:
        """What it cost."""

    @property
    def settings(self) -> dict[str, Any]:
        """The options of the run, as JSON values."""

    def statement(self) -> str:
        """The privacy statement."""

    def save(self, path: Path) -> None:
        """Write it to one file."""


class RunFolder:
    """The folder of one release, locked by this process; a context manager.

    On exit the folder is removed if no budget was spent; otherwise it stays, and an error gets a remedy: the
    command that resumes. FILE: the file of the release. finish: the command that writes the other files.
    """

    FILE: ClassVar[str] = RELEASE_FILE
    finish: ClassVar[str | None] = None  # `privmw finish`

    def __init__(self, path: str, checkpoint: str | None = None) -> None:
        self.path = Path(path)
        self.unfinished = self.path / UNFINISHED
        self.checkpoint = self.unfinished / "checkpoint" if checkpoint is None else Path(checkpoint)
        self._lock: int | None = None
        self._complete = False  # whether nothing was unfinished when the folder was taken

    @classmethod
    def reserve(cls, path: str, options: Mapping[str, Any], checkpoint: str | None = None) -> Self:
        """Make the folder, or take over that of an interrupted run with the same options.

        checkpoint: where the rounds of the run are stored, if not in the folder.
        """
        if not path:
            raise RefusalError(f"--output ('{path}') must name a folder")
        folder = cls(path, checkpoint)
        above = folder.path.parent
        if not above.is_dir():
            raise RefusalError(f"--output ({path}) must lie in a folder that exists, not in {above}")
        try:
            folder.path.mkdir()
        except FileExistsError:
            if not folder.unfinished.is_dir():
                hint = "name another folder: nothing is ever overwritten"
                raise RefusalError(f"--output ({path}) {folder.tidied()}", hint) from None
        folder._take()
        before = folder.options()
        if before is None and folder.has_release:
            folder._unlock()
            raise RefusalError(f"{path} holds a release", f"{folder._finish} writes the files that it lacks")
        if before is not None and before != options and folder.has_spent:
            folder._unlock()
            names = sorted(name for name in {*before, *options} if before.get(name) != options.get(name))
            raise RefusalError(
                f"{path} holds an unfinished release with other options ({', '.join(names)})",
                "repeat its command to resume it, or name another folder",
            )
        if folder.has_spent:  # by a run of these options, or of lost ones, which the checkpoint then checks
            return folder
        shutil.rmtree(folder.unfinished / "checkpoint", ignore_errors=True)  # perhaps of other options
        with whole_file(folder.unfinished / "options.json", overwrite=True, mode=0o600) as file:
            file.write(json.dumps(options).encode())
        return folder

    @classmethod
    def of_release(cls, path: str) -> RunFolder:
        """Open a folder that holds a release, to write its missing files."""
        folder = cls(path)
        if not folder.has_release:
            hint = "repeat the command that began it" if folder.unfinished.is_dir() else None
            raise RefusalError(f"FOLDER ({path}) must hold {cls.FILE}", hint)
        folder._complete = not folder.unfinished.is_dir()
        folder._take()
        return folder

    def tidied(self) -> str:
        """Remove leftovers of a run killed at its very end; returns the state for messages."""
        if not self.has_release:
            return "exists"
        self._tidy(f".{UNFINISHED}.*.unfinished")
        return "exists and is finished"

    @property
    def has_release(self) -> bool:
        """True if the release is written, so that only post-processing remains."""
        return (self.path / self.FILE).exists()

    @property
    def has_spent(self) -> bool:
        """True if the folder holds a released round, or an account the cost of the run."""
        inside = self.checkpoint.is_relative_to(self.unfinished)  # else it may be that of another run
        rounds = any(self.checkpoint.glob("rounds/[0-9]*.zip"))
        return self.has_release or (inside and rounds) or self._reserved()

    def options(self) -> dict[str, Any] | None:
        """The options of the run; None if they are missing or damaged."""
        try:
            options: dict[str, Any] = parse_json((self.unfinished / "options.json").read_text("utf-8"))
            return options if isinstance(options, dict) else None
        except (FileNotFoundError, ValueError):
            return None

    def keep_space(self, size: int) -> None:
        """Reserve `size` bytes on the disk, so that a full disk is an error before the run."""
        with _naming(self.path), open(self.unfinished / "space", "wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            elif shutil.disk_usage(self.path).free < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def save(self, release: Paid) -> None:
        """Write the release in its reserved space."""
        with contextlib.suppress(FileNotFoundError):
            (self.unfinished / "space").unlink()
        release.save(self.path / self.FILE)

    def load(self) -> Release:
        """Load the release of the folder."""
        return load_release(self.path / self.FILE)

    def finished(self) -> None:
        """Remove what only an unfinished release needs."""
        # Renamed first, in case another process takes over the folder meanwhile.
        self.unfinished.rename(self.path / f".{UNFINISHED}.{secrets.token_hex(8)}.unfinished")
        self._tidy(".*.unfinished")  # also files of processes that were killed

    def _tidy(self, pattern: str) -> None:
        for file in self.path.glob(pattern):
            if TEMPORARY.fullmatch(file.name):
                shutil.rmtree(file, ignore_errors=True) if file.is_dir() else file.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            remedy, ledger = None, getattr(error, "ledger", None)
            if self._complete:
                shutil.rmtree(self.unfinished, ignore_errors=True)
            elif self.has_release and self.unfinished.exists():
                remedy = Remedy(f"{self.path / self.FILE} is written", f"{self._finish} writes the rest")
            elif not self.has_release and (self.has_spent or (ledger is not None and ledger.rho)):
                command = "the same command resumes it, on the same files"
                remedy = Remedy(f"{self.checkpoint} keeps the run", command)
            if remedy is not None:
                error.remedy = remedy  # type: ignore[attr-defined]
            elif not self.has_release:
                shutil.rmtree(self.unfinished, ignore_errors=True)
                with contextlib.suppress(OSError):
                    self.path.rmdir()
        self._unlock()

    @property
    def _finish(self) -> str:
        return self.finish or shlex.join(["privmw", "finish", str(self.path)])

    def _reserved(self) -> bool:
        """True if the run has an account that holds its cost."""
        account, file = (self.options() or {}).get("account"), self.checkpoint / "run.json"
        if account is None or not file.exists():
            return False
        try:
            number = parse_json(file.read_text("utf-8"))["run"]
            return any(entry.run == number for entry in Account(account).runs)
        except (OSError, ValueError):  # unreadable: assume that it does
            return True

    def _take(self) -> None:
        """Lock the folder, so that one process at a time works on it; the system unlocks it at the end."""
        with _naming(self.path):
            self.unfinished.mkdir(mode=0o700, exist_ok=True)
            lock = os.open(self.unfinished / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A process that failed may have removed the file between these two lines.
            if not os.path.samestat(os.fstat(lock), os.stat(self.unfinished / "lock")):
                raise BlockingIOError
        except (BlockingIOError, FileNotFoundError):
            os.close(lock)
            raise RefusalError(f"another process is writing {self.path}", "wait until it has ended") from None
        except ImportError:  # a system without such locks
            pass
        self._lock = lock

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextlib.contextmanager
def _naming(path: Path) -> Any:
    """Make errors name the requested folder."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
