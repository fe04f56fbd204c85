"""ChaCha20 without the extension: the same seeded words by numpy, and the operating system's by os.urandom.

The interface of `_chacha20.ChaCha20` as far as privmw needs it; it is no numpy BitGenerator, and slow.
"""

from __future__ import annotations

import os
import threading
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from privmw.secrecy import expect

BUFFER_BYTES = 4096
KEY_BYTES = 32
SIGMA = np.frombuffer(b"expand 32-byte k", dtype="<u4")
NO_ENTROPY = "entropy (none) must come from the operating system: {}"
NOT_COPIED = "ChaCha20 (without the extension) must not be copied or pickled"

# Forks by os.fork are counted; other forks (by libraries) are detected by the process id.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


def _process() -> tuple[int, int]:
    return _forks, os.getpid()


def _rotate(x: NDArray[np.uint32], bits: int) -> None:
    x[...] = (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))


def _quarter_rounds(rows: list[NDArray[np.uint32]]) -> None:
    # The four quarter rounds of a column (or diagonal) round at once; row r of the state is rows[r].
    a, b, c, d = rows
    for x, y, z, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        x += y
        z ^= x
        _rotate(z, bits)


def blocks(key: bytes, nonce: bytes, counter: int, count: int) -> bytes:
    """Blocks counter, counter + 1, ... of the key stream of RFC 8439, 64 bytes each."""
    start = np.empty((16, count), dtype=np.uint32)
    start[:4] = SIGMA[:, None]
    start[4:12] = np.frombuffer(key, dtype="<u4")[:, None]
    start[12] = (np.arange(counter, counter + count) & 0xFFFFFFFF).astype(np.uint32)
    start[13:] = np.frombuffer(nonce, dtype="<u4")[:, None]
    state = start.reshape(4, 4, count).copy()
    for _ in range(10):
        _quarter_rounds(list(state))
        for row in range(1, 4):  # diagonals become columns
            state[row] = np.roll(state[row], -row, axis=0)
        _quarter_rounds(list(state))
        for row in range(1, 4):
            state[row] = np.roll(state[row], row, axis=0)
    state = state.reshape(16, count) + start
    return bytes(state.T.astype("<u4").tobytes())


def check_seed(seed: object) -> None:
    """Raise for a negative or invalid seed, which numpy's error would quote."""
    if isinstance(seed, bool) or (isinstance(seed, int) and seed < 0):
        raise ValueError(f"seed ({seed}) must be a non-negative integer")
    right = isinstance(seed, int | np.integer | np.random.SeedSequence | list | tuple | np.ndarray | None)
    expect("seed", seed, right, "None, a non-negative integer or a list of them")


class ChaCha20:
    """ChaCha20() yields words of os.urandom; ChaCha20(seed=7) those of the compiled ChaCha20(seed=7)."""

    def __init__(self, seed: int | np.random.SeedSequence | None = None) -> None:
        check_seed(seed)
        self.lock = threading.RLock()
        self._buffer = bytearray()
        self._position = 0
        self._process = _process()
        self._key: bytes | None = None
        if seed is not None:
            sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
            self._key = sequence.generate_state(8, np.uint32).astype("<u4").tobytes()
        else:
            self._refill()

    @property
    def seeded(self) -> bool:
        """Whether the words can be repeated: such a generator is not for a release."""
        return self._key is not None

    def ready(self) -> None:
        """After a fork, drop the words shared with the parent; raises RuntimeError without entropy."""
        with self.lock:
            if self._key is None and self._process != _process():
                self._refill()

    def _refill(self) -> None:
        self._buffer[:] = bytes(len(self._buffer))
        if self._key is not None:
            self._buffer = bytearray(blocks(self._key, bytes(12), 0, BUFFER_BYTES // 64))
            self._key = bytes(self._buffer[:KEY_BYTES])
            self._buffer[:KEY_BYTES] = bytes(KEY_BYTES)
            self._position = KEY_BYTES
            return
        try:
            self._buffer = bytearray(os.urandom(BUFFER_BYTES))
        except (OSError, NotImplementedError) as failure:
            raise RuntimeError(NO_ENTROPY.format(failure)) from failure
        self._position, self._process = 0, _process()

    def next_word(self) -> int:
        """The next 64 bits, wiped from the buffer; the caller holds the lock."""
        if self._key is None and self._process != _process():
            self._refill()
        if self._position == len(self._buffer):
            self._refill()
        place = slice(self._position, self._position + 8)
        word = int.from_bytes(self._buffer[place], "little")
        self._buffer[place] = bytes(8)
        self._position += 8
        return word

    def random_raw(self, size: int) -> NDArray[np.uint64]:
        """`size` words."""
        with self.lock:
            return np.array([self.next_word() for _ in range(size)], dtype=np.uint64)

    def bytes(self, count: int) -> bytes:
        """`count` random bytes: those of the next ceil(count / 8) words."""
        if count < 0:
            raise ValueError(f"count ({count}) must be non-negative")
        return self.random_raw((count + 7) // 8).astype("<u8").tobytes()[:count]

    def __reduce__(self) -> NoReturn:
        raise TypeError(NOT_COPIED)
