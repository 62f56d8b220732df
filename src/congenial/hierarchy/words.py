"""The random words of a tree: each unit's follow from a secret key and from all that its draw depends on."""

import hashlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from congenial.arrays import Ints
from congenial.arrow_codes import Codes
from congenial.randomness import KeyedWords, RandomStream, SecretBytes, UnitStreams

_BLOCK = 16


def _measured(part: bytes) -> bytes:
    return len(part).to_bytes(8, "little") + part


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
        lines = [line.tobytes() for line in counts.astype("<i8")]
        return UnitStreams(self._keyed(b"top"), self._starts(level, codes, lines, [b""] * len(lines)))

    def families(self, level: str, codes: Codes, released: Ints, starts: Ints, children: Ints) -> KeyedWords:
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
        self, level: str, codes: Codes, tables: Sequence[bytes], children: Sequence[bytes | memoryview]
    ) -> list[bytes]:
        """Return a keyed hash for each unit: of the context and the level, its code, its table and its children.

        Every part but the last has its length before it, so that no two inputs are hashed alike.
        """
        shared = hashlib.blake2b(key=self._key, digest_size=_BLOCK, person=b"tree unit")
        for part in (len(self._context).to_bytes(8, "little"), *map(_measured, (*self._context, level.encode()))):
            shared.update(part)
        found = []
        for code, table, below in zip(codes.tolist(), tables, children, strict=True):
            made = shared.copy()
            made.update(_measured(code if isinstance(code, bytes) else code.encode()) + _measured(table))
            made.update(below)
            found.append(made.digest())
        return found

    def __getstate__(self) -> object:
        raise TypeError("the random words of a release cannot be copied or sent to another process")

    def __repr__(self) -> str:
        return "ChainWords(secret)"
