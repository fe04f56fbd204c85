"""Streams: which are for a release, and that the two kinds are never one."""

from __future__ import annotations

import numpy as np
import pytest

from privmw import random


def test_without_a_seed_the_operating_system_is_the_source():
    stream = random.privacy_stream()
    assert not stream.seeded
    assert stream.statement == "ChaCha20, keyed by the operating system"
    assert random.privacy_stream(random.ChaCha20()).seeded is False
    assert random.privacy_stream(stream) is stream


@pytest.mark.parametrize(
    "make",
    [
        lambda: 7,
        lambda: np.int64(7),
        lambda: random.ChaCha20(seed=7),
        lambda: np.random.default_rng(7),
        np.random.default_rng,
        lambda: np.random.PCG64(7),
    ],
)
def test_a_seeded_or_foreign_generator_is_not_for_release(make):
    stream = random.privacy_stream(make())
    assert stream.seeded
    assert stream.statement == "seeded: not for release"
    assert "not for release" in repr(stream)


def test_the_mark_is_what_the_generator_is_and_not_what_someone_says():
    assert random.Stream(np.random.PCG64(1)).seeded
    with pytest.raises(TypeError):
        random.Stream(np.random.PCG64(1), seeded=False)
    with pytest.raises(AttributeError):
        random.privacy_stream(1).seeded = False

    class Disguised(random.ChaCha20):
        seeded = False

    assert random.privacy_stream(Disguised(seed=1)).seeded


@pytest.mark.skipif(not random.compiled, reason="numpy generators need the extension's BitGenerator")
def test_a_numpy_generator_on_the_operating_system_is_for_release():
    assert not random.privacy_stream(np.random.Generator(random.ChaCha20())).seeded


def test_a_seed_repeats_the_privacy_stream():
    words = [random.privacy_stream(3).bit_generator.random_raw(5) for _ in range(2)]
    np.testing.assert_array_equal(*words)


def test_the_sampling_stream_is_another_one():
    repeated = [random.sampling_stream(3).bit_generator.random_raw(5).tolist() for _ in range(2)]
    assert repeated[0] == repeated[1]
    assert not set(repeated[0]) & set(random.privacy_stream(3).bit_generator.random_raw(1000).tolist())
    assert random.sampling_stream().random() != random.sampling_stream().random()


@pytest.mark.parametrize("rng", ["seed", 1.5, True, np.random.RandomState(1)])
def test_what_is_no_generator_is_refused(rng):
    with pytest.raises(TypeError, match="must be None, an integer seed"):
        random.privacy_stream(rng)


def test_bad_seeds_are_refused():
    with pytest.raises(ValueError, match=r"seed \(-1\) must be a non-negative integer"):
        random.privacy_stream(-1)
    with pytest.raises(ValueError, match=r"seed \(-1\) must be a non-negative integer"):
        random.sampling_stream(-1)


def test_a_seed_sequence_given_for_sampling_is_not_the_one_that_keys_a_privacy_stream():
    given = np.random.SeedSequence(7)
    assert random.sampling_stream(given).integers(2**63) == random.sampling_stream(7).integers(2**63)
    plain = np.random.Generator(np.random.PCG64(np.random.SeedSequence(7)))
    assert random.sampling_stream(given).integers(2**63) != plain.integers(2**63)
