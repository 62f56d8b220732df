"""Labels that are intervals of numbers, such as ages: which dimensions are ordered, and how wide their levels are."""

import re
from collections.abc import Sequence

_UNDER = re.compile(r"(?:under|below|less than|<)\s*(\d+)", re.IGNORECASE)
_OPEN = re.compile(r"(\d+)\s*(?:\+|and over|and older|or more|and above)", re.IGNORECASE)
_BETWEEN = re.compile(r"(\d+)\s*(?:-|–|to|and)\s*(\d+)", re.IGNORECASE)
_ONE = re.compile(r"\d+")


def interval_of(label: str) -> tuple[int, int | None] | None:
    """Return the first and the last number of an interval; None at its end if it is open, None for no interval.

    Examples
    --------
    >>> [interval_of(label) for label in ("under 5", "65-66", "20", "85+", "female")]
    [(0, 4), (65, 66), (20, 20), (85, None), None]
    """
    text = label.strip()
    if found := _UNDER.fullmatch(text):
        return 0, int(found[1]) - 1
    if found := _BETWEEN.fullmatch(text):
        return int(found[1]), int(found[2])
    if found := _OPEN.fullmatch(text):
        return int(found[1]), None
    return (int(text), int(text)) if _ONE.fullmatch(text) else None


def widths_of_labels(labels: Sequence[str]) -> tuple[int, ...] | None:
    """Return how wide intervals are that follow upon each other without a gap; None where labels are something else.

    An open end counts as wide as the interval before it.

    Examples
    --------
    >>> widths_of_labels(["under 5", "5-9", "10", "11+"])
    (5, 5, 1, 1)
    >>> widths_of_labels(["010", "020", "030"]) is None
    True
    """
    found = [interval_of(label) for label in labels]
    widths: list[int] = []
    for place, interval in enumerate(found):
        if interval is None:
            return None
        first, last = interval
        if last is None:
            if place == 0 or place + 1 < len(found):
                return None
            widths.append(widths[-1])
        elif last < first:
            return None
        else:
            widths.append(last - first + 1)
        if place and (before := found[place - 1]) is not None and before[1] is not None and first != before[1] + 1:
            return None
    return tuple(widths) if len(widths) > 2 else None
