"""Sets of cells, as conditions name them, in words and in plain values."""

from collections.abc import Sequence

import numpy as np

from congenial.schema import Schema, Where


def where_text(where: Where) -> str:
    """Return a set of cells in words, long lists shortened.

    Examples
    --------
    >>> where_text({"sex": "female", "age": ["0-17", "18+"]})
    'sex=female, age in {0-17, 18+}'
    """
    parts = []
    for name, wanted in where.items():
        labels = [wanted] if isinstance(wanted, str) else list(wanted)
        if len(labels) == 1:
            parts.append(f"{name}={labels[0]}")
        else:
            shown = ", ".join(labels) if len(labels) <= 4 else f"{labels[0]}, {labels[1]}, ... {labels[-1]}"
            parts.append(f"{name} in {{{shown}}}")
    return ", ".join(parts)


def total_text(where: Where | None) -> str:
    """Return the sum over a set of cells in words."""
    return "total" if where is None else f"total of {where_text(where)}"


def cell_names(schema: Schema, cells: Sequence[int]) -> list[str]:
    """Return the labels of many cells in words: one at a time takes longer than all the rest of compiling.

    Examples
    --------
    >>> cell_names(Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]}), [1, 2])
    ['sex=female, age=18+', 'sex=male, age=0-17']
    """
    index = np.unravel_index(np.asarray(cells, np.intp), schema.shape)
    parts = [
        [f"{dimension.name}={dimension.labels[place]}" for place in places.tolist()]
        for dimension, places in zip(schema.dimensions, index, strict=True)
    ]
    return [", ".join(labels) for labels in zip(*parts, strict=True)]
