"""Sets of cells, as conditions name them, in words and in plain values."""

from congenial.schema import Where


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
