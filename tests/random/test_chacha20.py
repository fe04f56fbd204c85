"""The generator: RFC 8439, its words with and without the extension, forks, threads, entropy, secrets."""

from __future__ import annotations

import copy
import ctypes
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import threading

import numpy as np
import pytest

from privmw import random
from privmw.random import chacha20_python

compiled = pytest.importorskip("privmw.random._chacha20")

KEY = bytes(range(32))
BLOCK_FUNCTIONS = {
    "compiled": compiled._blocks,
    "portable": lambda *args: compiled._blocks(*args, portable=True),
    "python": chacha20_python.blocks,
}
GENERATORS = {"compiled": compiled.ChaCha20, "python": chacha20_python.ChaCha20}


@pytest.fixture(params=BLOCK_FUNCTIONS)
def blocks(request):
    return BLOCK_FUNCTIONS[request.param]


@pytest.fixture(params=GENERATORS)
def generator(request):
    return GENERATORS[request.param]


def test_block_function_gives_the_vector_of_rfc_8439_section_2_3_2(blocks):
    expected = """
        10 f1 e7 e4 d1 3b 59 15 50 0f dd 1f a3 20 71 c4 c7 d1 f4 c7 33 c0 68 03 04 22 aa 9a c3 d4 6c 4e
        d2 82 64 46 07 9f aa 09 14 c2 d7 05 d9 8b 02 a2 b5 12 9c d1 de 16 4e b9 cb d0 83 e8 a2 50 3c 4e"""
    nonce = bytes.fromhex("000000090000004a00000000")
    assert blocks(KEY, nonce, 1, 1) == bytes.fromhex(expected)


def test_block_function_encrypts_the_text_of_rfc_8439_section_2_4_2(blocks):
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
        b"sunscreen would be it."
    )
    stream = blocks(KEY, bytes.fromhex("000000000000004a00000000"), 1, 2)
    cipher = bytes(a ^ b for a, b in zip(text, stream, strict=False))
    assert cipher[:16] == bytes.fromhex("6e2e359a2568f98041ba0728dd0d6981")
    assert cipher[-16:] == bytes.fromhex("0bbf74a35be6b40b8eedf2785e42874d")


def test_block_function_gives_the_appendix_vector_of_the_zero_key(blocks):
    expected = """
        76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7
        da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"""
    assert blocks(bytes(32), bytes(12), 0, 1) == bytes.fromhex(expected)


@pytest.mark.parametrize("count", [1, 3, 4, 7, 8, 9, 21, 64])
def test_every_way_gives_the_same_blocks(count):
    nonce = bytes(range(12))
    results = {way(KEY, nonce, (1 << 32) - 5, count) for way in BLOCK_FUNCTIONS.values()}
    assert len(results) == 1
    assert results == {
        b"".join(compiled._blocks(KEY, nonce, ((1 << 32) - 5 + i) % (1 << 32), 1) for i in range(count))
    }


def test_seeded_words_are_those_of_the_key_stream_with_the_key_erased():
    key = np.random.SeedSequence(7).generate_state(8, np.uint32).astype("<u4").tobytes()
    expected = b""
    for _ in range(3):
        block = compiled._blocks(key, bytes(12), 0, 64)
        key, expected = block[:32], expected + block[32:]
    assert compiled.ChaCha20(seed=7).random_raw(3 * 508).astype("<u8").tobytes() == expected


def test_a_seed_gives_the_same_words_with_and_without_the_extension():
    for seed in (0, 1, 2**200):
        words = [make(seed=seed).random_raw(1500) for make in GENERATORS.values()]
        np.testing.assert_array_equal(*words)
        assert compiled.ChaCha20(seed=seed).bytes(12001) == chacha20_python.ChaCha20(seed=seed).bytes(12001)


def test_words_bytes_and_fill_walk_one_stream():
    generator = compiled.ChaCha20(seed=1)
    whole = compiled.ChaCha20(seed=1).bytes(20000)
    buffer = bytearray(4100)
    parts = [generator.bytes(3), generator.random_raw(1).tobytes()]
    generator.fill(buffer)
    assert parts[0] == whole[:3]
    assert parts[1] == whole[8:16]
    assert bytes(buffer) == whole[16 : 16 + 4100]
    assert generator.random_raw(1).tobytes() == whole[16 + 4104 : 16 + 4112]


def test_numpy_generators_run_on_it():
    generator = np.random.Generator(compiled.ChaCha20(seed=5))
    halves = generator.integers(0, 2**32, size=4, dtype=np.uint32)
    words = compiled.ChaCha20(seed=5).random_raw(2)
    np.testing.assert_array_equal(halves, words.view(np.uint32))
    assert generator.random() == (compiled.ChaCha20(seed=5).random_raw(3)[2] >> np.uint64(11)) * 2.0**-53
    assert abs(np.random.Generator(compiled.ChaCha20()).normal(size=10000).mean()) < 0.07


def test_words_given_out_are_wiped():
    generator = compiled.ChaCha20(seed=3)
    generator.random_raw(10)
    state = generator.state
    assert state["position"] == 32 + 80
    assert state["buffer"][:112] == bytes(112)
    assert any(state["buffer"][112:])


def test_two_generators_of_the_operating_system_differ(generator):
    words = np.concatenate([generator().random_raw(1000) for _ in range(3)])
    assert np.unique(words).size == words.size
    assert not generator().seeded
    assert generator(seed=0).seeded


def test_a_seeded_generator_is_copied_with_its_place():
    generator = compiled.ChaCha20(seed=9)
    np.random.Generator(generator).integers(0, 9, size=1001, dtype=np.uint32)
    twins = [copy.copy(generator), copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    expected = np.random.Generator(generator).integers(0, 2**32, size=3001, dtype=np.uint32)
    for twin in twins:
        np.testing.assert_array_equal(
            np.random.Generator(twin).integers(0, 2**32, size=3001, dtype=np.uint32), expected
        )
    assert [child.seeded for child in generator.spawn(2)] == [True, True]


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_generator_of_the_operating_system_is_not_copied(generator, copier):
    with pytest.raises(TypeError, match="must not be copied"):
        copier(generator())


def test_a_generator_of_the_operating_system_keeps_its_secrets():
    generator = compiled.ChaCha20()
    generator.random_raw(1)
    assert generator.state == {"bit_generator": "ChaCha20", "seeded": False}
    with pytest.raises(TypeError, match="must not be"):
        generator.state = compiled.ChaCha20(seed=1).state
    with pytest.raises(TypeError, match="must not be"):
        compiled.ChaCha20(seed=1).state = generator.state
    with pytest.raises(TypeError):
        generator.spawn(1)
    assert generator.seed_seq is None


@pytest.mark.parametrize("seed", [-1, True])
def test_bad_seeds_are_refused(generator, seed):
    with pytest.raises(ValueError, match=rf"seed \({seed}\) must be a non-negative integer"):
        generator(seed=seed)


def test_bad_counts_and_states_are_refused(generator):
    with pytest.raises(ValueError, match=r"count \(-1\) must be non-negative"):
        generator(seed=0).bytes(-1)
    seeded = compiled.ChaCha20(seed=0)
    with pytest.raises(ValueError, match="state"):
        seeded.state = {**seeded.state, "position": 7}


def test_missing_entropy_is_an_error(monkeypatch):
    compiled._fail_entropy(True)
    try:
        for make in (compiled.ChaCha20, random.privacy_stream):
            with pytest.raises(RuntimeError, match="entropy"):
                make()
        assert compiled.ChaCha20(seed=1).random_raw(1)
    finally:
        compiled._fail_entropy(False)
    compiled.ChaCha20().random_raw(1)

    def fail(_):
        raise OSError("no entropy")

    monkeypatch.setattr(os, "urandom", fail)
    with pytest.raises(RuntimeError, match="entropy"):
        chacha20_python.ChaCha20()


def test_a_generator_has_one_key_for_life():
    generator = compiled.ChaCha20()
    stream = random.privacy_stream(generator)
    with pytest.raises(TypeError, match="must not be initialised again"):
        generator.__init__(seed=7)
    assert not stream.seeded
    twin = chacha20_python.ChaCha20()
    stream = random.privacy_stream(twin)
    twin.__init__(seed=7)
    assert stream.seeded


def test_a_generator_without_a_key_gives_no_word_and_is_not_for_release():
    blank = compiled.ChaCha20.__new__(compiled.ChaCha20)
    compiled._fail_entropy(True)
    try:
        with pytest.raises(RuntimeError, match="entropy"):
            blank.__init__()
    finally:
        compiled._fail_entropy(False)
    assert random.privacy_stream(blank).seeded
    for use in (blank.random_raw, lambda: blank.bytes(8), lambda: np.random.Generator(blank)):
        with pytest.raises((AttributeError, TypeError, ValueError)):
            use()


def test_threads_share_one_stream_without_repeating_a_word(generator):
    shared, found = generator(seed=4), []
    count = 20 if generator is chacha20_python.ChaCha20 else 400

    def work():
        for _ in range(50):
            found.append(shared.random_raw(count))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = compiled.ChaCha20(seed=4).random_raw(4 * 50 * count)
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.sort(expected))


def in_subprocess(script):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tempfile.gettempdir(),  # not the source tree: the installed package is tested
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("module", ["privmw.random._chacha20", "privmw.random.chacha20_python"])
def test_a_child_process_takes_fresh_words(module):
    done = in_subprocess(f"""
        import os
        from {module} import ChaCha20
        shared, seeded = ChaCha20(), ChaCha20(seed=1)
        shared.random_raw(3)
        def read():
            return shared.random_raw(2000), seeded.random_raw(1)[0]
        seen = []
        for _ in range(2):
            out, into = os.pipe()
            if os.fork() == 0:
                words, one = read()
                os.write(into, words.tobytes() + one.tobytes())
                os._exit(0)
            os.close(into)
            with os.fdopen(out, "rb") as pipe:
                seen.append(pipe.read())
            os.wait()
        words, one = read()
        import numpy as np
        children = [np.frombuffer(s, dtype=np.uint64) for s in seen]
        assert all(c.size == 2001 and c[-1] == one for c in children), "a seeded one repeats itself"
        everything = np.concatenate([words, children[0][:-1], children[1][:-1]])
        assert np.unique(everything).size == 6000, "words shared between processes"
    """)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["privmw.random._chacha20", "privmw.random.chacha20_python"])
@pytest.mark.parametrize("fork", ["fork", "_Fork"])
def test_a_child_that_no_handler_saw_takes_fresh_words(module, fork):
    # C's fork runs none of Python's handlers, and _Fork none at all.
    if not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), fork):
        pytest.skip(f"there is no {fork}, or no page that a fork wipes")
    done = in_subprocess(f"""
        import ctypes, os
        from {module} import ChaCha20
        shared = ChaCha20()
        shared.random_raw(1)
        out, into = os.pipe()
        if ctypes.PyDLL(None).{fork}() == 0:
            os.write(into, shared.random_raw(4).tobytes())
            os._exit(0)
        assert os.read(out, 32) != shared.random_raw(4).tobytes(), "words shared between processes"
        os.wait()
    """)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_key_is_not_left_on_the_stack():
    done = in_subprocess("""
        import os
        import numpy as np
        from privmw.random._chacha20 import ChaCha20
        stack = next(line for line in open("/proc/self/maps") if "[stack]" in line).split()[0]
        first, last = (int(end, 16) for end in stack.split("-"))
        memory, found = os.open("/proc/self/mem", os.O_RDONLY), bytearray(last - first)
        draw = ChaCha20(seed=99).random_raw
        draw()
        os.preadv(memory, [found], first)
        key = np.random.SeedSequence(99).generate_state(8, np.uint32).astype("<u4")
        # The block function holds each word of the key four or eight times over.
        assert not any(word.tobytes() * 4 in found for word in key), "the key lies on the stack"
    """)
    assert done.returncode == 0, done.stderr


def test_a_child_without_entropy_gets_an_error_or_ends():
    done = in_subprocess("""
        import os
        from privmw.random._chacha20 import ChaCha20, _fail_entropy
        from privmw.kernels import _native
        shared = ChaCha20()
        _fail_entropy(True)
        child = os.fork()
        if child == 0:
            refused = 0
            for use in (lambda: shared.bytes(8), lambda: _native.coin_exp(shared, 1, 2, 3), shared.ready):
                try:
                    use()
                except RuntimeError as error:
                    refused += "entropy" in str(error)
            os._exit(0 if refused == 3 else 1)
        assert os.waitpid(child, 0)[1] == 0
        if (child := os.fork()) == 0:
            shared.random_raw(1)
            os._exit(0)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        shared.random_raw(1)
    """)
    assert done.returncode == 0, done.stderr
    assert "no entropy" in done.stderr
