"""What exact numbers give away, in sentences: counted over areas, with cells by name where there are few."""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from congenial.conditions.where import cell_names
from congenial.privacy.review import Counted, Review

FOLLOWS = "Exact too, because it follows"
"""How the line begins that lists sums which follow from the stated ones."""

_FEW = 20  # cells that are listed one by one
_SHOWN = 8
_TOP = "at the top"  # of a tree with one unit there, which has no name
_MOST_LINES = 5  # of one kind


def sentences(review: Review, unit: str = "record") -> list[str]:
    """Return everything that was found, the most areas first.

    Parameters
    ----------
    unit : str
        What a protected unit is called.

    Examples
    --------
    >>> from congenial.conditions.areas import Areas
    >>> from congenial.conditions.queries import total
    >>> from congenial.privacy.review import review
    >>> from congenial.schema import Schema
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> conditions = [total(), total({"age": "18+"})]
    >>> tables = {f"block {n}": [n % 4, 2, 0, n % 3] for n in range(96)}
    >>> for line in sentences(review(Areas.disclosed(schema, conditions, tables, name="block"), conditions)):
    ...     print(line)
    In 24 of 96 areas (25 %) age=0-17 is 0: its 2 cells are exact
    In 24 of 96 areas (25 %) age=0-17 is 1: what is exact there is about one record
    Exact too, because it follows: age=0-17
    """
    counted = review.counted
    if counted.area is None or counted.n_exact <= _FEW:
        lines = [_listed("The invariants give away", _named(review), counted.n_exact)] if counted.n_exact else []
        lines += _ones(counted, unit)
    else:
        lines = [*_zeros(counted), *_all_exact(counted), *_ones(counted, unit), *_unexplained(review)]
    follows = [known.text for known in counted.sums if not known.is_stated and known.n_known == counted.n_areas]
    if follows:
        lines.append(_listed(FOLLOWS, follows, len(follows)))
    if counted.n_open:
        lines.append(f"{_in_areas(counted, counted.n_open)} further cells may be exact: no search settled it")
    return lines


def level_sentences(reviews: Sequence[Review], unit: str = "record") -> list[str]:
    """Return what was found at each level of a tree, after the name of the level; of one review, its sentences."""
    if len(reviews) == 1:
        return sentences(reviews[0], unit)
    return [f"{review.counted.area or _TOP}: {line}" for review in reviews for line in sentences(review, unit)]


def _named(review: Review) -> Iterator[str]:
    for area, cell, value in review.cells():
        where = "" if area is None else f"{review.counted.area} {area}: "
        yield f"{where}{review.schema.cell_name(cell)} = {value:,}"


def _zeros(counted: Counted) -> list[str]:
    found = sorted((one for one in counted.sums if one.n_zero and one.n_cells > 1), key=lambda one: -one.n_zero)
    lines = [
        f"{_in_areas(counted, one.n_zero)} {one.text} is 0: its {one.n_cells:,} cells are exact"
        for one in found[:_MOST_LINES]
    ]
    return lines + _more(len(found), "sums are 0 in some areas")


def _ones(counted: Counted, unit: str) -> list[str]:
    found = sorted((one for one in counted.sums if one.n_one), key=lambda one: -one.n_one)
    if counted.area is None:
        return [f"{one.text} is 1: what is exact is about one {unit}" for one in found[:_MOST_LINES]]
    lines = [
        f"{_in_areas(counted, one.n_one)} {one.text} is 1: what is exact there is about one {unit}"
        for one in found[:_MOST_LINES]
    ]
    return lines + _more(len(found), "sums are 1 in some areas")


def _all_exact(counted: Counted) -> list[str]:
    if not counted.n_all_exact:
        return []
    return [f"{_in_areas(counted, counted.n_all_exact)} every cell is exact"]


def _unexplained(review: Review) -> list[str]:
    """Say which cells are exact though no sum of several cells with them is 0."""
    n_exact, n_not_zero = np.zeros((2, review.schema.n_cells), np.int64)
    for one in review.kinds:
        left = one.is_news & ~one.is_explained
        n_exact += one.n_areas @ left
        n_not_zero += one.n_areas @ (left & (one.found.values != 0))
    ranked = [cell for cell in np.lexsort((-n_exact, -n_not_zero)).tolist() if n_exact[cell]]
    names = cell_names(review.schema, ranked[:_MOST_LINES])
    lines = [
        f"{_in_areas(review.counted, int(n_exact[cell]))} the cell {name} is exact, though no sum with it is 0; in"
        f" {int(n_not_zero[cell]):,} of them it is not 0"
        for cell, name in zip(ranked, names, strict=False)
    ]
    return lines + _more(len(ranked), "cells are exact in some areas though no sum with them is 0")


def _more(n_found: int, what: str) -> list[str]:
    return [f"{n_found - _MOST_LINES:,} more {what}"] if n_found > _MOST_LINES else []


def _in_areas(counted: Counted, n: int) -> str:
    share = 100 * n / counted.n_areas
    text = f"{share:.0f} %" if share >= 1 else "under 1 %"
    return f"In {n:,} of {counted.n_areas:,} areas ({text})"


def _listed(head: str, found: Iterator[str] | Sequence[str], n_found: int) -> str:
    more = f" and {n_found - _SHOWN:,} more" if n_found > _SHOWN else ""
    return f"{head}: {'; '.join(islice(found, _SHOWN))}{more}"
