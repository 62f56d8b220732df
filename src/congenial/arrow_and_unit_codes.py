"""Conversions between Arrow columns and numpy arrays; codes of units are fixed-width arrays, not Python objects."""

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


def arrow_to_codes(column: "pa.Array") -> Codes | None:
    """Return the texts of a column without missing values; None where one holds a zero byte, which arrays would drop.

    Examples
    --------
    >>> import pyarrow as pa
    >>> arrow_to_codes(pa.array(["44001", "4"])), arrow_to_codes(pa.array(["é", "ab"]))
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
    codes = np.ascontiguousarray(room).view(f"S{width}").reshape(-1)
    return codes if int(text.max(initial=0)) < _ASCII else np.char.decode(codes, "utf-8")


def codes_to_arrow(codes: Codes) -> "pa.Array":
    """Return codes as a column of text.

    Examples
    --------
    >>> codes_to_arrow(np.array(["a", "bc"])).to_pylist()
    ['a', 'bc']
    """
    import pyarrow as pa

    plain = codes if codes.dtype.kind == "S" else np.char.encode(codes, "utf-8")
    lengths = np.char.str_len(plain)
    width = max(1, plain.dtype.itemsize)
    room = np.ascontiguousarray(plain).view(np.uint8).reshape(len(plain), width)
    text = room if bool((lengths == width).all()) else room[np.arange(width) < lengths[:, None]]
    return text_column(lengths, pa.py_buffer(np.ascontiguousarray(text)))


def letters_beyond_ascii(codes: Codes) -> str:
    """Return the letters of codes that are not printable ASCII, each once.

    Examples
    --------
    >>> letters_beyond_ascii(np.array([b"44", b"15"])), letters_beyond_ascii(np.array(["Ae", "Aé", "É"]))
    ('', 'Éé')
    """
    plain = np.ascontiguousarray(codes, codes.dtype.newbyteorder("="))
    numbers: NDArray[Any] = plain.view(np.uint8 if plain.dtype.kind == "S" else np.uint32)
    letters: set[int] = set()
    for first in range(0, len(numbers), _LETTERS):
        part = numbers[first : first + _LETTERS]
        is_usual = (part >= ord(" ")) & (part <= ord("~")) | (part == 0)  # zeros fill the width
        if not bool(is_usual.all()):
            letters.update(np.unique(part[~is_usual]).tolist())
    if int(np.count_nonzero(numbers)) < int(np.char.str_len(codes).sum()):
        letters.add(0)  # one that is part of a code
    return "".join(map(chr, sorted(letters)))


def text_column(lengths: NDArray[Any], content: "pa.Buffer", there: "pa.Buffer | None" = None) -> "pa.Array":
    """Return a column of texts from their lengths and bytes; `there` is the validity bitmap."""
    import pyarrow as pa

    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    if ends[-1] >= 1 << 31:  # more than the ordinary type holds: Arrow says so
        column = pa.Array.from_buffers(pa.large_string(), len(lengths), [there, pa.py_buffer(ends), content])
        return column.cast(pa.string())
    return pa.Array.from_buffers(pa.string(), len(lengths), [there, pa.py_buffer(ends.astype(np.int32)), content])


def codes_as_texts(codes: Codes) -> list[str]:
    """Return codes as Python texts: for a few.

    Examples
    --------
    >>> codes_as_texts(np.array([b"44", b"15"]))
    ['44', '15']
    """
    # Texts that are there already stay as they are: an array of them would have room for the longest in every line.
    texts: list[str] = codes.tolist() if codes.dtype.kind == "O" else codes.astype(str).tolist()
    return texts


class CodeTexts(Sequence[str]):
    """A sequence of codes whose texts are created on access: no object for each of millions.

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
            yield from codes_as_texts(self.codes[first : first + _TOGETHER])


# Numbers and texts between arrays and Arrow columns, through their buffers.
#
# `pyarrow.array` and `to_numpy` look for pandas first, and load it where it is installed, in half a second.


def numbers_to_arrow(numbers: NDArray[Any]) -> "pa.Array":
    """Return whole numbers as a column of their own type; masked ones are missing.

    Examples
    --------
    >>> numbers_to_arrow(np.ma.MaskedArray([3, 4], [False, True])).to_pylist()
    [3, None]
    """
    import pyarrow as pa

    is_plain = type(numbers) is np.ndarray  # then numpy.ma, which takes 20 milliseconds to load, stays away
    plain = np.ascontiguousarray(numbers if is_plain else np.ma.getdata(numbers))
    there = None if is_plain or np.ma.getmask(numbers) is np.ma.nomask else ~np.ma.getmaskarray(numbers)
    kind = pa.from_numpy_dtype(plain.dtype)
    return pa.Array.from_buffers(kind, len(plain), [_bits(there), pa.py_buffer(plain)])


def texts_to_arrow(texts: Sequence[str | None]) -> "pa.Array":
    """Return texts as a column; None is missing.

    Examples
    --------
    >>> texts_to_arrow(["é", None, "ab"]).to_pylist()
    ['é', None, 'ab']
    """
    import pyarrow as pa

    if isinstance(texts, CodeTexts):
        return codes_to_arrow(texts.codes)
    there = np.array([text is not None for text in texts], np.bool_) if None in texts else None
    known = [text or "" for text in texts]
    joined = "".join(known)
    letters = known if joined.isascii() else [text.encode() for text in known]
    lengths = np.fromiter(map(len, letters), np.int64, len(letters))
    return text_column(lengths, pa.py_buffer(joined.encode()), _bits(there))


def arrow_to_numbers(column: "pa.Array | pa.ChunkedArray") -> NDArray[Any]:
    """Return the numbers of a column; what is missing in it is masked.

    Examples
    --------
    >>> import pyarrow as pa
    >>> arrow_to_numbers(pa.array([1, 2])).tolist(), arrow_to_numbers(pa.array([1, None])).tolist()
    ([1, 2], [1, None])
    """
    import pyarrow as pa

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    bits, content = column.buffers()
    place = slice(column.offset, column.offset + len(column))
    if content is None:
        numbers = np.zeros(0, column.type.to_pandas_dtype())
    else:
        numbers = np.frombuffer(content, column.type.to_pandas_dtype())[place]
    if not column.null_count:
        return numbers
    return np.ma.MaskedArray(
        numbers, ~np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[place].astype(bool)
    )


def _bits(there: NDArray[np.bool_] | None) -> "pa.Buffer | None":
    import pyarrow as pa

    return None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))
