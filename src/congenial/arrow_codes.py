"""Codes of units between Arrow's columns of text and arrays of a fixed width: no object for each of millions."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Codes = NDArray[Any]
"""Codes of units: text, as numpy holds it; bytes where all of it is ASCII, which takes a quarter of the room."""

_ASCII = 128
_TOGETHER = 1 << 16  # texts that are objects at a time
_LETTERS = 1 << 24  # letters that are looked at together


def codes_of(column: "pa.Array") -> Codes | None:
    """Return the texts of a column without missing values; None where one holds a zero byte, which arrays would drop.

    Examples
    --------
    >>> import pyarrow as pa
    >>> codes_of(pa.array(["44001", "4"])), codes_of(pa.array(["é", "ab"]))
    (array([b'44001', b'4'], dtype='|S5'), array(['é', 'ab'], dtype='<U2'))
    """
    import pyarrow as pa

    plain = column.cast(pa.large_string())
    _, offsets, content = plain.buffers()
    ends = np.frombuffer(offsets, np.int64)[plain.offset : plain.offset + len(plain) + 1]
    lengths = np.diff(ends)
    text = np.frombuffer(b"" if content is None else content, np.uint8)[ends[0] : ends[-1]]
    if not text.all():
        return None
    width = max(1, int(lengths.max(initial=1)))
    if bool((lengths == width).all()):
        room = text.reshape(-1, width)
    else:
        room = np.zeros((len(lengths), width), np.uint8)
        room[np.arange(width) < lengths[:, None]] = text
    found = np.ascontiguousarray(room).view(f"S{width}").reshape(-1)
    return found if int(text.max(initial=0)) < _ASCII else np.char.decode(found, "utf-8")


def column_of(codes: Codes) -> "pa.Array":
    """Return codes as a column of text.

    Examples
    --------
    >>> column_of(np.array(["a", "bc"])).to_pylist()
    ['a', 'bc']
    """
    import pyarrow as pa

    plain = codes if codes.dtype.kind == "S" else np.char.encode(codes, "utf-8")
    lengths = np.char.str_len(plain)
    width = max(1, plain.dtype.itemsize)
    room = np.ascontiguousarray(plain).view(np.uint8).reshape(len(plain), width)
    text = room if bool((lengths == width).all()) else room[np.arange(width) < lengths[:, None]]
    return text_column(lengths, pa.py_buffer(np.ascontiguousarray(text)))


def letters_beside_ascii(codes: Codes) -> str:
    """Return the letters of codes that are not printable ASCII, each once.

    Examples
    --------
    >>> letters_beside_ascii(np.array([b"44", b"15"])), letters_beside_ascii(np.array(["Ae", "Aé", "É"]))
    ('', 'Éé')
    """
    plain = np.ascontiguousarray(codes, codes.dtype.newbyteorder("="))
    numbers: NDArray[Any] = plain.view(np.uint8 if plain.dtype.kind == "S" else np.uint32)
    found: set[int] = set()
    for first in range(0, len(numbers), _LETTERS):
        some = numbers[first : first + _LETTERS]
        is_usual = (some >= ord(" ")) & (some <= ord("~")) | (some == 0)  # zeros fill the width
        if not bool(is_usual.all()):
            found.update(np.unique(some[~is_usual]).tolist())
    if int(np.count_nonzero(numbers)) < int(np.char.str_len(codes).sum()):
        found.add(0)  # one that is part of a code
    return "".join(map(chr, sorted(found)))


def text_column(lengths: NDArray[Any], content: "pa.Buffer", there: "pa.Buffer | None" = None) -> "pa.Array":
    """Return a column of texts from their lengths and bytes; `there` has the bits of those that are not missing."""
    import pyarrow as pa

    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    if ends[-1] >= 1 << 31:  # more than the ordinary type holds: Arrow says so
        made = pa.Array.from_buffers(pa.large_string(), len(lengths), [there, pa.py_buffer(ends), content])
        return made.cast(pa.string())
    return pa.Array.from_buffers(pa.string(), len(lengths), [there, pa.py_buffer(ends.astype(np.int32)), content])


def texts_of(codes: Codes) -> list[str]:
    """Return codes as texts, an object each: for a few.

    Examples
    --------
    >>> texts_of(np.array([b"44", b"15"]))
    ['44', '15']
    """
    found: list[str] = codes.astype(str).tolist()
    return found


class CodeTexts(Sequence[str]):
    """Codes as texts that are made as they are asked for: no object for each of millions.

    Examples
    --------
    >>> known = CodeTexts(np.array([b"44", b"15"]))
    >>> len(known), known[1], known[-1], list(known)
    (2, '15', '15', ['44', '15'])
    """

    def __init__(self, codes: Codes) -> None:
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> "CodeTexts": ...

    def __getitem__(self, place: "int | slice") -> "str | CodeTexts":
        if isinstance(place, slice):
            return CodeTexts(self.codes[place])
        return str(self.codes[[place]].astype(str)[0])

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self.codes), _TOGETHER):
            yield from texts_of(self.codes[first : first + _TOGETHER])
