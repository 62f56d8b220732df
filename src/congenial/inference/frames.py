"""Answers and draws as a pandas, polars or Arrow table, as arviz has them, and as R's `posterior` reads them."""

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw

from congenial.errors import InferenceError, did_you_mean, import_extra

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


def chain_columns(n_chains: int, n_draws: int) -> dict[str, list[int]]:
    """Return which chain each draw is of, and its place in the chain and in all of them: as R's `posterior` has them.

    Examples
    --------
    >>> chain_columns(2, 2)
    {'.chain': [1, 1, 2, 2], '.iteration': [1, 2, 1, 2], '.draw': [1, 2, 3, 4]}
    """
    return {
        ".chain": [chain for chain in range(1, n_chains + 1) for _ in range(n_draws)],
        ".iteration": list(range(1, n_draws + 1)) * n_chains,
        ".draw": list(range(1, n_chains * n_draws + 1)),
    }


def to_arviz(groups: Mapping[str, Any], names: Mapping[str, Sequence[str]], axes: Mapping[str, Sequence[str]]) -> Any:
    """Return draws (chain, draw, ...) as arviz's own object, with names along their other axes; needs ``arviz``."""
    return import_extra("arviz_base", "analysis").from_dict(groups, coords=dict(names), dims=dict(axes))
