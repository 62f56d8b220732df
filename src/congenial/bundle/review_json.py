"""What exact numbers give away, counted, as plain values for a manifest; and the file that lists it cell by cell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from congenial.bundle.canonical import read_as
from congenial.bundle.parquet import arrays_to_parquet
from congenial.errors import BundleError
from congenial.privacy.review import Counted, Review
from congenial.privacy.small_sums import SmallSum


def counted_json(counted: Counted) -> dict[str, Any]:
    """Return counts as plain values; no area is named.

    Examples
    --------
    >>> counts = Counted("block", 9, 2, 1, 1, 2, 0, 0, (SmallSum("total", 2, True, 9, 1, 3),))
    >>> counted_of_json(counted_json(counts)) == counts
    True
    """
    return {**asdict(counted), "sums": [asdict(one) for one in counted.sums]}


def counted_of_json(given: Mapping[str, Any]) -> Counted:
    """Read what `counted_json` wrote."""
    values = dict(given)
    area, sums = values.pop("area"), values.pop("sums")
    names = [field.name for field in fields(Counted) if field.name not in {"area", "sums"}]
    if list(values) != names:
        raise BundleError("what the exact numbers give away is not counted as this software counts it")
    own = {name: read_as(int, value) for name, value in values.items()}
    return Counted(
        area=None if area is None else read_as(str, area), sums=tuple(_sum_of_json(one) for one in sums), **own
    )


def _sum_of_json(given: Mapping[str, Any]) -> SmallSum:
    values = dict(given)
    text, is_stated = read_as(str, values.pop("text")), read_as(bool, values.pop("is_stated"))
    return SmallSum(text=text, is_stated=is_stated, **{name: read_as(int, value) for name, value in values.items()})


def exact_cells_to_parquet(reviews: Sequence[Review]) -> bytes:
    """Return exact-cells.parquet: of each area in which a cell is given away, a digit 1 for each such cell.

    Their values are those of the released table.
    """
    rows = [row for one in reviews for row in _rows(one)]
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    named = zip(("level", "area", "cells"), columns, strict=True)
    return arrays_to_parquet({name: np.array(column, object) for name, column in named})


def _rows(review: Review) -> Iterator[tuple[str, str, str]]:
    """Go through areas in their order: level, label, digits."""
    digits: list[str] = [""] * len(review.labels)
    for one in review.kinds:
        texts = ["".join("1" if is_exact else "0" for is_exact in line) for line in one.is_news.tolist()]
        for place, kind in zip(one.places.tolist(), one.which.tolist(), strict=True):
            digits[place] = texts[kind]
    for label, text in zip(review.labels, digits, strict=True):
        if "1" in text:
            yield review.counted.area or "", label or "", text
