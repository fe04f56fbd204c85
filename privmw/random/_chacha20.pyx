# cython: language_level=3, binding=True, embedsignature=False
"""A numpy BitGenerator on ChaCha20. Connects csrc/draw/keystream to numpy."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from numpy.random cimport BitGenerator

from numpy.random import SeedSequence

from privmw.random.chacha20_python import check_seed

cdef extern from "draw/chacha20.hpp" namespace "privmw::draw" nogil:
    void c_blocks "privmw::draw::chacha20_blocks"(
        const uint32_t* key, const uint32_t* nonce, uint32_t counter, size_t blocks, uint8_t* out)
    void c_blocks_portable "privmw::draw::chacha20_blocks_portable"(
        const uint32_t* key, const uint32_t* nonce, uint32_t counter, size_t blocks, uint8_t* out)

cdef extern from "draw/keystream.hpp" namespace "privmw::draw" nogil:
    cppclass Keystream:
        Keystream()
        uint32_t key[8]
        uint32_t position
        uint32_t half
        cbool has_half
        cbool seeded
        uint8_t buffer[4096]
    cbool keystream_from_os(Keystream& stream)
    void keystream_from_key(Keystream& stream, const uint8_t* key)
    void keystream_wipe(Keystream& stream)
    cbool keystream_ready(Keystream& stream)
    uint64_t keystream_next64(void* state) noexcept
    uint32_t keystream_next32(void* state) noexcept
    double keystream_next_double(void* state) noexcept
    void keystream_fill(Keystream& stream, uint8_t* out, size_t count)
    void fail_entropy(cbool fail)

NO_ENTROPY = "entropy (none) must come from the operating system: getrandom failed"
NOT_COPIED = "ChaCha20 (keyed by the operating system) must not be copied, pickled or restored: its words would repeat"


cdef class ChaCha20(BitGenerator):
    """ChaCha20() is keyed by the operating system; ChaCha20(seed=7) is repeatable, for experiments.

    Its key is erased as it goes, and a child process takes a new key before its first word. Raises RuntimeError where
    the operating system gives no entropy. A seeded one repeats itself after a fork, as numpy's generators do.
    """

    # On the heap: Python objects are not aligned as the buffer requires.
    cdef Keystream* _stream

    def __cinit__(self, *args, **kwargs):
        self._stream = new Keystream()
        self._stream.seeded = True  # without a key, its words are predictable

    def __init__(self, seed=None):
        check_seed(seed)
        if self._bitgen.next_uint64 is not NULL:
            raise TypeError("ChaCha20 (with a key) must not be initialised again: others may draw from it")
        # Without a key there is no lock and no capsule either, so nothing can be drawn.
        if seed is None and not keystream_from_os(self._stream[0]):
            raise RuntimeError(NO_ENTROPY)
        # numpy's constructor makes the lock and the capsule; the sequence it makes of 0 is dropped for an OS key.
        BitGenerator.__init__(self, 0 if seed is None else seed)
        cdef bytes key
        if seed is None:
            self._seed_seq = None
        else:
            key = self._seed_seq.generate_state(8, "uint32").astype("<u4").tobytes()
            keystream_from_key(self._stream[0], <const uint8_t*>PyBytes_AS_STRING(key))
        self._bitgen.state = <void*>self._stream
        self._bitgen.next_uint64 = &keystream_next64
        self._bitgen.next_uint32 = &keystream_next32
        self._bitgen.next_double = &keystream_next_double
        self._bitgen.next_raw = &keystream_next64

    def __dealloc__(self):
        if self._stream is not NULL:
            keystream_wipe(self._stream[0])
            del self._stream

    @property
    def seeded(self):
        """Whether the words can be repeated: such a generator is not for a release."""
        return bool(self._stream.seeded)

    def ready(self):
        """After a fork, take a new key; raises RuntimeError if the operating system has no entropy."""
        with self.lock:
            if not keystream_ready(self._stream[0]):
                raise RuntimeError(NO_ENTROPY)

    def bytes(self, Py_ssize_t count):
        """`count` random bytes: those of the next ceil(count / 8) words."""
        if count < 0:
            raise ValueError(f"count ({count}) must be non-negative")
        out = PyBytes_FromStringAndSize(NULL, count)
        self._fill(<uint8_t*>PyBytes_AS_STRING(out), count)
        return out

    def fill(self, uint8_t[::1] out not None):
        """Overwrites a writable buffer of bytes."""
        if out.shape[0] > 0:
            self._fill(&out[0], out.shape[0])

    cdef _fill(self, uint8_t* out, size_t count):
        self.ready()
        with self.lock, nogil:
            keystream_fill(self._stream[0], out, count)

    @property
    def state(self):
        """The state, as of numpy's generators; without secrets if keyed by the operating system."""
        if not self._stream.seeded:
            return {"bit_generator": "ChaCha20", "seeded": False}
        with self.lock:
            return {
                "bit_generator": "ChaCha20",
                "seeded": True,
                "key": (<char*>self._stream.key)[:32],
                "buffer": (<char*>self._stream.buffer)[:4096],
                "position": self._stream.position,
                "half": self._stream.half if self._stream.has_half else None,
            }

    @state.setter
    def state(self, value):
        if not self._stream.seeded or not value.get("seeded", False):
            raise TypeError(NOT_COPIED)
        cdef bytes key = value["key"]
        cdef bytes buffer = value["buffer"]
        position, half = value["position"], value["half"]
        if len(key) != 32 or len(buffer) != 4096 or position % 8 or not 32 <= position <= 4096:
            raise ValueError("state (given) must be one that a seeded ChaCha20 gave")
        with self.lock:
            memcpy(self._stream.key, PyBytes_AS_STRING(key), 32)
            memcpy(self._stream.buffer, PyBytes_AS_STRING(buffer), 4096)
            self._stream.position = position
            self._stream.has_half = half is not None
            self._stream.half = 0 if half is None else half

    def __getstate__(self):
        if not self._stream.seeded:
            raise TypeError(NOT_COPIED)
        return self.state, self._seed_seq

    def __setstate__(self, state):
        self.state, self._seed_seq = state

    def __reduce__(self):
        return _blank, (), self.__getstate__()


def _blank():
    return ChaCha20(seed=0)


def _blocks(key, nonce, uint32_t counter, size_t blocks, *, portable=False):
    """The raw block function, for the vectors of RFC 8439."""
    cdef uint32_t key_words[8]
    cdef uint32_t nonce_words[3]
    for i in range(8):
        key_words[i] = int.from_bytes(key[4 * i : 4 * i + 4], "little")
    for i in range(3):
        nonce_words[i] = int.from_bytes(nonce[4 * i : 4 * i + 4], "little")
    out = PyBytes_FromStringAndSize(NULL, 64 * blocks)
    if portable:
        c_blocks_portable(key_words, nonce_words, counter, blocks, <uint8_t*>PyBytes_AS_STRING(out))
    else:
        c_blocks(key_words, nonce_words, counter, blocks, <uint8_t*>PyBytes_AS_STRING(out))
    return out


def _fail_entropy(cbool fail):
    """For the tests: makes the operating system's entropy fail. It can do nothing else."""
    fail_entropy(fail)
