"""The only module that makes random bits.

A stream is the keystream of AES-256 in counter mode. `secure_rng` keys it from the operating system, afresh
in every process and for every stream; a forked child that went on with its parent's key would repeat its
parent's noise, so a stream notices the fork and keys itself anew. `replay_rng` keys it from a public seed:
the same seed gives the same bits on every machine, for simulation only. `UnitStreams` are the words of a release: each
unit's follow from the release's secret key and from what the unit is, so that a release which was stopped can be gone
on with, in any order and on any machine.
"""

import hashlib
import os
import threading
from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

_BLOCK_WORDS = 1 << 13  # one refill: 64 kB of keystream, about 15 microseconds

_forks = 0  # how many forks that Python knows of lie between the first process and this one


def _count_fork() -> None:
    global _forks  # noqa: PLW0603
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


def _process() -> tuple[int, int]:
    """Return what differs between a process and its children.

    Process numbers can repeat, so forks are counted; C code can fork without Python's hook, so the number is asked for
    at each use. Asking takes about 250 ns, beside 1,100 ns for a single word and 15,000 ns for a refill.
    """
    return os.getpid(), _forks


class SecretBytes(bytes):
    """Bytes of a key: a traceback that lists variables, or a log, does not show them."""

    def __repr__(self) -> str:
        return f"SecretBytes({len(self)} bytes)"

    __str__ = __repr__


class RandomStream:
    """Independent uniform 64-bit words.

    Parameters
    ----------
    seed : int or str, optional
        A public seed makes the stream repeatable, and `is_replay` true: such bits are never used for a release.

    Examples
    --------
    >>> replay_rng(7).words(2)
    array([7358268522475857705, 6789822918390166584], dtype=uint64)
    """

    def __init__(self, seed: int | str | None = None) -> None:
        self._seed = seed
        self._process: tuple[int, int]
        self._start()

    def _notice_fork(self) -> None:
        """In a forked child: a lock of its own, and, unless the stream is a replay, a key of its own."""
        if self._process != _process():
            if self._seed is None:
                self._start()
            self._lock = threading.Lock()
            self._process = _process()

    @property
    def is_replay(self) -> bool:
        """Whether the bits come from a public seed: simulation only."""
        return self._seed is not None

    def _start(self) -> None:
        if self._seed is None:
            key: bytes = secret_bytes(32)
        else:
            key = hashlib.sha256(f"congenial replay {self._seed}".encode()).digest()
        self._cipher: CipherContext = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._buffer = np.empty(0, np.uint64)
        self._lock = threading.Lock()
        self._process = _process()

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return the next `n` words of the stream, an array of its own. Threads may share a stream."""
        if n < 0:
            raise ValueError(f"the number of words must not be negative, and it is {n}")
        self._notice_fork()
        with self._lock:
            held = self._buffer
            if n > held.size:
                fresh = self._keystream(max(n - held.size, _BLOCK_WORDS))
                held = np.concatenate([held, fresh]) if held.size else fresh
            # Two parts of one array that do not overlap: nobody else sees the words handed out.
            self._buffer = held[n:]
            return held[:n]

    def word_rows(self, n_rows: int, n: int) -> NDArray[np.uint64]:
        """Return the next `n` words for each of some tables (table, word)."""
        return self.words(n_rows * n).reshape(n_rows, n)

    def stream(self, number: int) -> "RandomStream":  # noqa: ARG002
        """Return where a table's further words come from: for all of them, from here."""
        return self

    has_stream_per_table = False  # tables that are drawn one after another take their words one after another

    def subset(self, places: Sequence[int] | NDArray[np.int64]) -> "RandomStream":  # noqa: ARG002
        """Return what draws some of the tables."""
        return self

    def keyed(self, n_units: int) -> "KeyedWords":
        """Return words of their own for so many units, from a key that is taken from the stream."""
        key = self.words(4).tobytes()
        return KeyedWords(key, self.words(2 * n_units).reshape(n_units, 2))

    def of_level(self, level: str, codes: NDArray[Any], counts: NDArray[np.int64]) -> "RandomStream":  # noqa: ARG002
        """Return the words of the units of a level: these, one level after another."""
        return self

    def _keystream(self, n: int) -> NDArray[np.uint64]:
        # Zeros encrypted in place; update_into wants room for a block less one byte beyond the text.
        out = np.zeros(n + 2, "<u8")
        room = out.data.cast("B")
        self._cipher.update_into(room[: 8 * n], room)
        return out[:n].astype(np.uint64, copy=False)

    def uniforms(self, n: int) -> NDArray[np.float64]:
        """Return `n` floats on the grid of midpoints ``(k + 1/2) / 2**52``: never 0, never 1. For study only."""
        return ((self.words(n) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52

    def below(self, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return an exactly uniform integer in ``0 .. bound-1`` for each bound (each at least 1)."""
        limits = np.asarray(bounds).astype(np.uint64)
        out = np.empty(limits.shape, np.int64)
        open_ = np.arange(limits.size)
        flat, flat_limits = out.reshape(-1), limits.reshape(-1)
        while open_.size:
            limit = flat_limits[open_]
            word = self.words(open_.size)
            # Words at or above the largest multiple of the limit would favour small remainders: draw again.
            spare = (np.uint64(0) - limit) % limit
            accepted = word >= spare
            flat[open_[accepted]] = (word[accepted] % limit[accepted]).astype(np.int64)
            open_ = open_[~accepted]
        return out

    def __getstate__(self) -> object:
        # A copied stream would repeat its bits in two places, so neither pickle nor copy may make one.
        raise TypeError("a random stream cannot be copied or sent to another process; make a new one there")

    def __repr__(self) -> str:
        kind = f"replay of seed {self._seed!r}, simulation only" if self.is_replay else "operating system entropy"
        return f"RandomStream({kind})"


class _UnitStream(RandomStream):
    """The words of one unit, from some word on."""

    def __init__(self, key: bytes, start: bytes, n_taken: int) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(start)).encryptor()
        self._buffer = np.empty(0, np.uint64)
        self._lock = threading.Lock()
        self._seed, self._process = None, _process()
        self.words(n_taken)

    def _notice_fork(self) -> None:
        """A child goes on with the same words: they are those of the unit, wherever it is drawn."""

    def __repr__(self) -> str:
        return "RandomStream(one unit of a release)"


class UnitStarts(Sequence[bytes]):
    """The first block of each unit's words, where there may be millions: made when some are asked for. Confidential."""

    @abstractmethod
    def subset(self, places: Sequence[int] | NDArray[np.int64]) -> list[bytes]:
        """Return those of some units."""

    def __getitem__(self, place: Any) -> Any:
        return self.subset([place])[0]


class UnitStreams:
    """The random words of many units under one secret key, each unit's a stream of its own. Confidential.

    A stream is AES-256 in counter mode from a first block that belongs to the unit. The first words of many units are
    made in one go.

    Parameters
    ----------
    key : bytes
        32 secret bytes.
    starts : sequence of bytes
        The first block of each unit, 16 bytes: a keyed hash of all that the unit is, so that no two are alike.
    """

    is_replay = False
    has_stream_per_table = True

    def __init__(self, key: bytes, starts: Sequence[bytes]) -> None:
        self._key = key
        self._starts = starts
        self._n_taken = 0

    def of_level(self, level: str, codes: NDArray[Any], counts: NDArray[np.int64]) -> "UnitStreams":  # noqa: ARG002
        """Return the words of a release of one level: these."""
        return self

    def subset(self, places: Sequence[int] | NDArray[np.int64]) -> "UnitStreams":
        """Return the streams of some of the units."""
        known = self._starts
        chosen = known.subset(places) if isinstance(known, UnitStarts) else [known[place] for place in places]
        return UnitStreams(self._key, chosen)

    def word_rows(self, n_rows: int, n: int) -> NDArray[np.uint64]:
        """Return the first `n` words of each unit (unit, word)."""
        if n_rows != len(self._starts) or self._n_taken:
            raise ValueError(f"first words are taken once, for all {len(self._starts)} units")
        self._n_taken = n
        first = np.frombuffer(b"".join(self._starts), ">u8").astype(np.uint64).reshape(n_rows, 2)
        words = _keystreams(_counter_cipher(self._key), first[:, 0], first[:, 1], n + n % 2)
        return words[:, :n].astype(np.uint64, order="C")  # a copy, like the words of any stream: one kind for kernels

    def keyed(self, n_units: int) -> "KeyedWords":
        """Return the same words, found by place."""
        if n_units != len(self._starts) or self._n_taken:
            raise ValueError(f"words are taken once, for all {len(self._starts)} units")
        blocks = b"".join(self._starts)
        return KeyedWords(self._key, np.frombuffer(blocks, ">u8").astype(np.uint64).reshape(-1, 2))

    def stream(self, number: int) -> RandomStream:
        """Return the stream of a unit, from where `word_rows` has ended."""
        return _UnitStream(self._key, self._starts[number], self._n_taken)

    def __getstate__(self) -> object:
        raise TypeError("the random words of a release cannot be copied or sent to another process")

    def __repr__(self) -> str:
        return f"UnitStreams({len(self._starts)} units of a release)"


def _counter_cipher(key: bytes) -> Cipher[modes.ECB]:
    return Cipher(algorithms.AES(key), modes.ECB())  # noqa: S305  of counters: that is counter mode


def _keystreams(
    cipher: Cipher[modes.ECB], high: NDArray[np.uint64], low: NDArray[np.uint64], n: int
) -> NDArray[np.uint64]:
    """Return `n` words, an even number, from each of some first blocks on (block, word)."""
    counters = np.empty((len(low), n // 2, 2), ">u8")
    counters[:, :, 1] = lows = low[:, None] + np.arange(n // 2, dtype=np.uint64)
    counters[:, :, 0] = high[:, None] + (lows < low[:, None])  # a counter of 128 bits: what overflows is carried over
    out = np.empty(counters.size + 2, "<u8")  # update_into wants room for a block less one byte beyond the text
    cipher.encryptor().update_into(counters.data.cast("B"), out.data.cast("B"))
    return out[: counters.size].reshape(len(low), n).astype(np.uint64, copy=False)


class KeyedWords:
    """The random words of any number of units under one secret key, found by place. Confidential.

    A unit's words are the keystream of AES-256 in counter mode from a first block of its own. Any stretch of them can
    be had, as often as wanted: units can be drawn in any order and in parts.

    Parameters
    ----------
    key : bytes
        32 secret bytes.
    starts : array (unit, 2) of uint64
        The first block of each unit, high half first: a keyed hash of all that the unit is.

    Examples
    --------
    >>> words = KeyedWords(bytes(32), np.zeros((2, 2), np.uint64))
    >>> bool(np.array_equal(words.stretch([1], [1], 4)[0], words.stretch([0], [0], 6)[0, 2:]))
    True
    """

    def __init__(self, key: bytes, starts: NDArray[np.uint64]) -> None:
        self._key = SecretBytes(key)
        self._cipher = _counter_cipher(key)
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts)

    def part(self, number: int) -> "KeyedWords":
        """Return words for one part of every unit's draw: those of no two parts meet within 2**96 blocks."""
        starts = self._starts.copy()
        starts[:, 0] += np.uint64(number << 32)
        return KeyedWords(self._key, starts)

    def stream(self, place: int) -> RandomStream:
        """Return one unit's words as a stream, from the first on."""
        return _UnitStream(self._key, self._starts[place].astype(">u8").tobytes(), 0)

    def stretch(
        self, places: Sequence[int] | NDArray[np.int64], blocks: Sequence[int] | NDArray[np.int64], n: int
    ) -> NDArray[np.uint64]:
        """Return `n` words, an even number, of some units (unit, word), each from its own block of two words on."""
        first = self._starts[np.asarray(places)]
        low = first[:, 1] + np.asarray(blocks).astype(np.uint64)
        high = first[:, 0] + (low < first[:, 1])
        return _keystreams(self._cipher, high, low, n)

    def further(self, place: int, index: int, n: int) -> list[int]:
        """Return words that belong to one word of a unit: where its 64 bits leave a decision open."""
        if n == 0:
            return []
        start = int(self._starts[place, 0]) << 64 | int(self._starts[place, 1])
        block = (start + (1 << 126) + (index << 20)) % (1 << 128)
        ends = np.array([[block >> 64], [block & (2**64 - 1)]], np.uint64)
        return [int(word) for word in _keystreams(self._cipher, ends[0], ends[1], n + n % 2)[0, :n]]

    def __getstate__(self) -> object:
        raise TypeError("the random words of a release cannot be copied or sent to another process")

    def __repr__(self) -> str:
        return f"KeyedWords({len(self)} units)"


Streams = RandomStream | UnitStreams
"""What draws many tables: one stream for all of them, or one for each."""


class LevelStreams(Protocol):
    """What the units of every level are drawn from: each level has streams of its own. Confidential."""

    def of_level(self, level: str, codes: NDArray[Any], counts: NDArray[np.int64]) -> Streams:
        """Return the words of the units of a level (unit,), given their codes and confidential tables (unit, cell)."""


def secret_bytes(n: int) -> SecretBytes:
    """Return bytes of the operating system for a key."""
    return SecretBytes(os.urandom(n))


def secure_rng() -> RandomStream:
    """Return a new stream keyed by the operating system: the only kind that may draw a release."""
    return RandomStream()


def replay_rng(seed: int | str) -> RandomStream:
    """Return the stream of a public seed, for simulation; what is drawn from it is not private."""
    if isinstance(seed, bool) or not isinstance(seed, int | str):
        raise TypeError(f"seed must be an integer or text, not a {type(seed).__name__}")
    return RandomStream(seed)


# The random words of a tree: each unit's follow from a secret key and from all that its draw depends on.

_BLOCK = 16


def with_length(part: bytes) -> bytes:
    """Return bytes with their number before them, so that no two sequences of parts are hashed alike."""
    return len(part).to_bytes(8, "little") + part


class TreeStreams:
    """Words for every unit of a tree. Confidential.

    A family's words are those of its parent: a keyed hash of what is being released (`context`, such as the release's
    name and the digest of its plan), the level, the parent's code, its released table and its children's confidential
    tables. The same inputs give the same draw, in any order and on any machine; other inputs never meet the same noise.

    Examples
    --------
    >>> words = TreeStreams.simulated(replay_rng(7))
    >>> words
    TreeStreams(secret)
    """

    def __init__(self, key: bytes, context: Sequence[str] = ()) -> None:
        self._key = SecretBytes(key)
        self._context = [part.encode() for part in context]

    @classmethod
    def simulated(cls, rng: RandomStream) -> "TreeStreams":
        """Return words whose key is taken from a stream: for a draw that is not a release."""
        return cls(rng.words(4).tobytes(), ["simulation"])

    def of_level(self, level: str, codes: NDArray[Any], counts: NDArray[np.int64]) -> UnitStreams:
        """Return the words of the units of the first level, which are drawn from their own counts."""
        lines = [line.tobytes() for line in counts.astype("<i8")]
        return UnitStreams(self._keyed(b"top"), self._starts(level, codes, lines, [b""] * len(lines)))

    def families(
        self,
        level: str,
        codes: NDArray[Any],
        released: NDArray[np.int64],
        starts: NDArray[np.int64],
        children: NDArray[np.int64],
    ) -> KeyedWords:
        """Return the words of the families of a level: `starts` says where each one's children begin."""
        below = np.ascontiguousarray(children.astype("<i8", copy=False))
        data, ends = below.data.cast("B"), (starts * below.strides[0]).tolist()
        parts = [data[first:end] for first, end in pairwise(ends)]
        lines = [line.tobytes() for line in released.astype("<i8", copy=False)]
        blocks = b"".join(self._starts(level, codes, lines, parts))
        return KeyedWords(self._keyed(b"family"), np.frombuffer(blocks, ">u8").astype(np.uint64).reshape(-1, 2))

    def _keyed(self, purpose: bytes) -> bytes:
        return hashlib.blake2b(purpose, key=self._key, digest_size=32, person=b"tree words").digest()

    def _starts(
        self, level: str, codes: NDArray[Any], tables: Sequence[bytes], children: Sequence[bytes | memoryview]
    ) -> list[bytes]:
        """Return a keyed hash for each unit: of the context and the level, its code, its table and its children.

        Every part but the last has its length before it, so that no two inputs are hashed alike.
        """
        shared = hashlib.blake2b(key=self._key, digest_size=_BLOCK, person=b"tree unit")
        for part in (len(self._context).to_bytes(8, "little"), *map(with_length, (*self._context, level.encode()))):
            shared.update(part)
        starts = []
        for code, table, below in zip(codes.tolist(), tables, children, strict=True):
            state = shared.copy()
            state.update(with_length(code if isinstance(code, bytes) else code.encode()) + with_length(table))
            state.update(below)
            starts.append(state.digest())
        return starts

    def __getstate__(self) -> object:
        raise TypeError("the random words of a release cannot be copied or sent to another process")

    def __repr__(self) -> str:
        return "TreeStreams(secret)"
