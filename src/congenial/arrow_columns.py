"""Numbers and texts between arrays and Arrow's columns, buffer by buffer.

`pyarrow.array` and `to_numpy` look for pandas first, and load it where it is installed, in half a second.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrow_codes import CodeTexts, column_of, text_column

if TYPE_CHECKING:
    import pyarrow as pa


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
        return column_of(texts.codes)
    there = np.array([text is not None for text in texts], np.bool_) if None in texts else None
    known = [text or "" for text in texts]
    joined = "".join(known)
    letters = known if joined.isascii() else [text.encode() for text in known]
    lengths = np.fromiter(map(len, letters), np.int64, len(letters))
    return text_column(lengths, pa.py_buffer(joined.encode()), _bits(there))


def numbers_in(column: "pa.Array | pa.ChunkedArray") -> NDArray[Any]:
    """Return the numbers of a column; what is missing in it is masked.

    Examples
    --------
    >>> import pyarrow as pa
    >>> numbers_in(pa.array([1, 2])).tolist(), numbers_in(pa.array([1, None])).tolist()
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
