"""Codes of units between Arrow's columns of text and arrays of a fixed width: no object for each of millions."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Codes = NDArray[Any]
"""Codes of units: text, as numpy holds it; bytes where all of it is ASCII, which takes a quarter of the room."""

_ASCII = 128


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
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(text))]
    return pa.Array.from_buffers(pa.large_string(), len(plain), buffers).cast(pa.string())


def texts_of(codes: Codes) -> list[str]:
    """Return codes as texts, an object each: for a few.

    Examples
    --------
    >>> texts_of(np.array([b"44", b"15"]))
    ['44', '15']
    """
    found: list[str] = codes.astype(str).tolist()
    return found
