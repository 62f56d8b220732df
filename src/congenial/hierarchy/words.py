"""The random words of a tree: each unit's follow from a secret key and from all that its draw depends on."""

import hashlib
from collections.abc import Sequence

import numpy as np

from congenial.arrays import Ints
from congenial.hierarchy.tree import Codes
from congenial.randomness import KeyedWords, RandomStream, SecretBytes, UnitStreams

_BLOCK = 16


class ChainWords:
    """Words for every unit of a tree. Confidential.

    A family's words are those of its parent: a keyed hash of what is being released (`context`, such as the release's
    name and the digest of its plan), the level, the parent's code, its released table and its children's confidential
    tables. The same inputs give the same draw, in any order and on any machine; other inputs never meet the same noise.

    Examples
    --------
    >>> from congenial.randomness import replay_rng
    >>> words = ChainWords.simulated(replay_rng(7))
    >>> words
    ChainWords(secret)
    """

    def __init__(self, key: bytes, context: Sequence[str] = ()) -> None:
        self._key = SecretBytes(key)
        self._context = [part.encode() for part in context]

    @classmethod
    def simulated(cls, rng: RandomStream) -> "ChainWords":
        """Return words whose key is taken from a stream: for a draw that is not a release."""
        return cls(rng.words(4).tobytes(), ["simulation"])

    def top(self, level: str, codes: Codes, counts: Ints) -> UnitStreams:
        """Return the words of the units at the top, which are drawn from their own counts."""
        tables = (line.tobytes() for line in counts.astype("<i8"))
        starts = [self._start(level, str(code), table) for code, table in zip(codes, tables, strict=True)]
        return UnitStreams(self._keyed(b"top"), starts)

    def families(self, level: str, codes: Codes, released: Ints, starts: Ints, children: Ints) -> KeyedWords:
        """Return the words of the families of a level: `starts` says where each one's children begin."""
        tables, below = released.astype("<i8", copy=False), np.ascontiguousarray(children.astype("<i8", copy=False))
        data, width = below.data.cast("B"), 8 * below.shape[1]
        ends = (starts * width).tolist()
        blocks = b"".join(
            self._start(level, str(code), table.tobytes(), data[ends[place] : ends[place + 1]])
            for place, (code, table) in enumerate(zip(codes, tables, strict=True))
        )
        return KeyedWords(self._keyed(b"family"), np.frombuffer(blocks, ">u8").astype(np.uint64).reshape(-1, 2))

    def _keyed(self, purpose: bytes) -> bytes:
        return hashlib.blake2b(purpose, key=self._key, digest_size=32, person=b"tree words").digest()

    def _start(self, level: str, code: str, *tables: bytes | memoryview) -> bytes:
        made = hashlib.blake2b(key=self._key, digest_size=_BLOCK, person=b"tree unit")
        for part in (*self._context, level.encode(), code.encode(), *tables):
            made.update(len(part).to_bytes(8, "little"))
            made.update(part)
        return made.digest()

    def __getstate__(self) -> object:
        raise TypeError("the random words of a release cannot be copied or sent to another process")

    def __repr__(self) -> str:
        return "ChainWords(secret)"
