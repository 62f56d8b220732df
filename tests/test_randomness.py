"""Random bits: independent in forks, repeatable only by seed, unbiased below a bound."""

import copy
import ctypes
import os
import pickle
from collections.abc import Callable

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

import congenial as cg
from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.randomness import KeyedWords, RandomStream


def test_a_seed_repeats_and_another_does_not() -> None:
    first, again, other = cg.replay_rng(7), cg.replay_rng(7), cg.replay_rng(8)
    words = first.words(1000)
    assert np.array_equal(words, again.words(1000))
    assert not np.array_equal(words, other.words(1000))
    assert first.is_replay
    assert "simulation only" in repr(first)


def test_cutting_the_stream_does_not_change_it() -> None:
    whole = cg.replay_rng("cut").words(50_000)
    stream = cg.replay_rng("cut")
    parts = np.concatenate([stream.words(n) for n in (1, 0, 8191, 8192, 8193, 25_423)])
    assert np.array_equal(whole, parts)


def test_secure_streams_differ() -> None:
    assert not cg.secure_rng().is_replay
    assert not np.array_equal(cg.secure_rng().words(4), cg.secure_rng().words(4))


def raw_fork() -> int:
    """Fork as C code does, without Python's hooks; the lock of the interpreter is kept, so that the child can go on."""
    return int(ctypes.PyDLL(None).fork())


@pytest.mark.parametrize("fork", [os.fork, raw_fork])
def test_a_forked_child_does_not_repeat_its_parent(fork: Callable[[], int]) -> None:
    stream = cg.secure_rng()
    stream.words(1)  # leave words in the buffer
    read, write = os.pipe()
    child = fork()
    if child == 0:  # pragma: no cover
        os.write(write, stream.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    of_child = np.frombuffer(os.read(read, 32), np.uint64)
    os.close(read)
    os.close(write)
    assert not set(stream.words(4).tolist()) & set(of_child.tolist())


def test_a_fork_is_noticed_whatever_the_process_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a new process namespace a child can have its parent's number: forks are counted as well."""
    from congenial import randomness

    stream = cg.secure_rng()
    stream.words(4)
    of_parent = stream._buffer[:4].tolist()  # what the parent draws next
    monkeypatch.setattr(randomness, "_forks", randomness._forks + 1)
    key_free = cg.replay_rng(3)
    assert not set(of_parent) & set(stream.words(4).tolist())
    assert np.array_equal(key_free.words(4), cg.replay_rng(3).words(4))


def test_a_stream_cannot_be_copied() -> None:
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            make(cg.secure_rng())


@pytest.mark.parametrize("seed", [None, 1.5, True, b"x"])
def test_only_integers_and_text_are_seeds(seed: object) -> None:
    with pytest.raises(TypeError, match="seed must be"):
        cg.replay_rng(seed)  # type: ignore[arg-type]


@pytest.mark.statistical
def test_below_is_uniform(request: pytest.FixtureRequest) -> None:
    """Defect: the remainder of a word modulo the bound. At 3 * 2^62 that makes the first third twice as likely."""
    rng, bound = own_rng(request), 3 << 61
    thirds = rng.below(np.full(N_DRAWS, bound)) // (1 << 61)
    assert p_value(thirds, [1 / 3] * 3) > ALPHA
    biased = (rng.words(N_DRAWS) % np.uint64(3 << 62)) // np.uint64(1 << 62)
    assert p_value(biased.astype(np.int64), [1 / 3] * 3) < ALPHA


def test_uniforms_are_inside_the_interval() -> None:
    """The largest word must not round to 1: with 53 bits and a half it would."""
    uniforms = cg.replay_rng(1).uniforms(N_DRAWS)
    assert 0 < uniforms.min() < uniforms.max() < 1

    class Extreme(RandomStream):
        def words(self, n: int) -> NDArray[np.uint64]:
            return np.array([0, 2**64 - 1], np.uint64)

    smallest, largest = Extreme().uniforms(2)
    assert smallest > 0
    assert largest < 1


def test_keyed_words_are_a_keystream_that_any_stretch_can_be_had_of() -> None:
    """Counter mode from the unit's own block, past the end of 64 bits too; a unit's words do not depend on others."""
    key, starts = bytes(range(32)), np.array([[7, 2**64 - 3], [2**64 - 1, 2**64 - 1], [0, 5]], np.uint64)
    words = KeyedWords(key, starts)
    for place, (high, low) in enumerate(starts.tolist()):
        first = (high << 64 | low).to_bytes(16, "big")
        stream = Cipher(algorithms.AES(key), modes.CTR(first)).encryptor()
        truth = np.frombuffer(stream.update(bytes(8 * 40)), "<u8")
        assert np.array_equal(words.stretch([place], [0], 40)[0], truth)
        assert np.array_equal(words.stretch([place], [6], 10)[0], truth[12:22])
    together = words.stretch([2, 0, 1], [1, 0, 3], 8)
    assert np.array_equal(together[2], words.stretch([1], [3], 8)[0])


def test_further_words_are_those_of_one_word() -> None:
    words = KeyedWords(bytes(32), np.zeros((2, 2), np.uint64))
    assert words.further(0, 3, 0) == []
    assert words.further(0, 3, 3)[:2] == words.further(0, 3, 2)
    assert not set(words.further(0, 3, 4)) & set(words.further(0, 4, 4))
    assert not set(words.further(0, 0, 4)) & set(words.stretch([0], [0], 64)[0].tolist())


def test_keyed_words_cannot_be_copied() -> None:
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            make(KeyedWords(bytes(32), np.zeros((1, 2), np.uint64)))
