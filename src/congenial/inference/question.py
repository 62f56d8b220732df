"""The analyst's questions in a small language, one number or one for each level.

::

    all                                           the total
    sex=female & age in {65-66, 67-69}            a count; dimensions not named are free
    sex=female & age >= 65-66                     a range along the labels in their order; age 18-19..22-24
    sex=female & voting                           a group that the spec names
    difference(sex=female, sex=male)              one count less another
    share(age in {65-66, 67-69} | sex=female)     a part of a whole
    ratio(sex=male / sex=female) by age           one ratio for each age
    odds_ratio(sex=male, age >= 65-66)            of the two-by-two table that two sets of cells make
    median(age | sex=female)                      the first age at which half of the women are reached
    age >= 65-66 over areas                       added up over all areas
    difference(area=North, area=South)            of two areas
    "marital status"="never married"              quotes where a name has signs in it
"""

from collections.abc import Iterable, Sequence
from itertools import product

from congenial.conditions.areas import Areas
from congenial.conditions.rows import Row
from congenial.errors import InferenceError
from congenial.inference.query_parser import Asked, Parser, Where
from congenial.inference.query_tokens import QUOTES
from congenial.inference.statistic import COUNT, DIFFERENCE, MEDIAN, ODDS_RATIO, SHARE, Statistic
from congenial.inference.vocabulary import Vocabulary, order_of
from congenial.schema import Schema

__all__ = ["Statistic", "parse_query"]

_LONGEST = 10_000


def parse_query(text: object, schema: Schema, areas: Areas | None = None) -> tuple[Statistic, ...]:
    """Read a query; one statistic, or one for each combination of levels after ``by``.

    Parameters
    ----------
    areas : Areas, optional
        Where there are several tables: queries may then name areas, and add over them.

    Examples
    --------
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> [statistic.text for statistic in parse_query("ratio(sex=male / sex=female) by age", schema)]
    ['ratio(sex=male / sex=female), age=0-17', 'ratio(sex=male / sex=female), age=18+']
    >>> parse_query("sex=female & age >= 18+", schema)[0].above.cells
    (1,)
    """
    if not isinstance(text, str) or not text.strip():
        raise InferenceError('a query is text such as "sex=female & age in {65-66, 67-69}" or "all"')
    if len(text) > _LONGEST:
        raise InferenceError(f"the query has {len(text):,} characters, and the limit is {_LONGEST:,}")
    line = " ".join(text.split()) if not any(quote in text for quote in QUOTES) else text
    words = Vocabulary(schema, areas)
    asked = Parser(line, words).query()
    shape = _Shape(words, asked)
    levels = (words.dimensions[name].labels for name in asked.by)
    return tuple(shape.statistic(dict(zip(asked.by, labels, strict=True))) for labels in product(*levels))


class _Shape:
    """The cells that a query is about: of one table, or of all areas one after the other."""

    def __init__(self, words: Vocabulary, asked: Asked) -> None:
        self.words, self.asked = words, asked
        self.schema, self.areas = words.schema, None
        if asked.is_over_areas and words.areas is not None:
            self.schema = Schema({name: dimension.labels for name, dimension in words.dimensions.items()})
            self.areas = words.areas.labels

    def statistic(self, level: dict[str, str]) -> Statistic:
        """Return the number at one level of the dimensions after ``by``."""
        asked = self.asked
        name = asked.body + "".join(f", {dimension}={label}" for dimension, label in level.items())
        whole = self._cells({dimension: {label} for dimension, label in level.items()})
        picked = [self._cells(where) & whole for where in asked.wheres]
        if asked.kind == COUNT:
            if not level and not picked[0]:
                raise InferenceError(f"{asked.body!r} picks no cell at all: its conditions exclude each other")
            return self._made(name, [_sum(picked[0], name)])
        if asked.kind == DIFFERENCE:
            first, second = picked
            plus = {**dict.fromkeys(first - second, 1), **dict.fromkeys(second - first, -1)}
            cells = tuple(sorted(plus))
            return self._made(name, [Row(name, cells, tuple(plus[cell] for cell in cells))])
        if asked.kind == ODDS_RATIO:
            first, second = picked
            sets = [first & second, whole - first - second, first - second, second - first]
            self._refuse_nothing(sets, level)
            return self._made(name, [_sum(cells, name) for cells in sets])
        if asked.kind == MEDIAN and asked.along is not None:
            self._refuse_nothing(picked, level)
            order = order_of(self.words.dimensions[asked.along])
            counts = [_sum(picked[0] & self._cells({asked.along: {label}}), label) for label in order]
            return self._made(name, [_sum(picked[0], name), *counts], order)
        if asked.kind == SHARE:  # the part of the whole
            picked[0] &= picked[1]
        self._refuse_nothing(picked, level)
        return self._made(name, [_sum(cells, name) for cells in picked])

    def _refuse_nothing(self, sets: Sequence[set[int]], level: dict[str, str]) -> None:
        """Refuse a quotient of which a part has no cells: it is 0, infinite or nothing whatever the table is.

        After ``by`` some levels may well have none.
        """
        if not level and not all(sets):
            how = "two sets that cross" if self.asked.kind == ODDS_RATIO else "cells in common, and some in each part"
            raise InferenceError(f"{self.asked.body!r} compares with nobody: it needs {how}; look at its conditions")

    def _made(self, name: str, rows: list[Row], labels: tuple[str, ...] = ()) -> Statistic:
        above, *rest = rows
        if labels:
            return Statistic(name, self.asked.kind, above, None, tuple(rest), self.areas, labels)
        return Statistic(name, self.asked.kind, above, rest[0] if rest else None, tuple(rest[1:]), self.areas)

    def _cells(self, where: Where) -> set[int]:
        if any(not labels for labels in where.values()):
            return set()
        return {int(cell) for cell in self.schema.cells({name: sorted(labels) for name, labels in where.items()})}


def _sum(cells: Iterable[int], name: str) -> Row:
    return Row.of(name, sorted(cells))
