"""Answers and draws as a pandas, polars or Arrow table."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw

from congenial.errors import InferenceError, did_you_mean

BACKENDS: dict[str, Any] = {
    "pandas": nw.Implementation.PANDAS,
    "polars": nw.Implementation.POLARS,
    "pyarrow": nw.Implementation.PYARROW,
}


def frame(columns: Mapping[str, Sequence[Any]], backend: str = "pandas") -> Any:
    """Return columns as a frame of the library that is asked for; it must be installed.

    Examples
    --------
    >>> frame({"query": ["all"], "mean": [256.0]}, "pyarrow").num_rows
    1
    """
    if backend not in BACKENDS:
        raise InferenceError(f"{backend!r} makes no frames here; {did_you_mean(str(backend), BACKENDS)}")
    try:
        made = nw.from_dict({name: list(values) for name, values in columns.items()}, backend=BACKENDS[backend])
        return made.to_native()
    except ImportError:
        raise InferenceError(f"{backend} is not installed; pip install {backend}") from None
