"""The public law: everything about a release's distribution except the confidential tables it is centred at."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from congenial.conditions.areas import Area, Areas
from congenial.conditions.kinds.query import Query
from congenial.conditions.rows import Row
from congenial.errors import ConditionError, NoiseError, did_you_mean
from congenial.noise import FAMILIES, Noise, make_noise
from congenial.sampling.target import Measured, Target
from congenial.schema import Schema


@dataclass(frozen=True)
class MeasuredQuery:
    """Measured rows that all have noise of one precision; precision 0 is not measured.

    Attributes
    ----------
    floor : Fraction
        Of single cells, what the weight of a cell's lower limit is multiplied by; 1 is the noise's own law.
    """

    text: str
    precision: Fraction
    rows: tuple[Row, ...]
    floor: Fraction = Fraction(1)

    @property
    def weighted(self) -> str:
        """What is said of its floor beside its precision."""
        return "" if self.floor == 1 else f", zeros weighted {float(self.floor):.4g}"


@dataclass(frozen=True)
class PublicLaw:
    """Schema, noise, measured queries with their precisions, and what the table of every area obeys. Public.

    Attributes
    ----------
    noise : str
        The family of the noise.
    areas : Areas
        The constraints of every area; of one table under the label None.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> mechanism.calibrate(mechanism.disclose(p12_table()))
    law of one table on Schema(sex: 2, age: 23; 46 cells): every cell at precision 1/2, double_geometric noise
    """

    schema: Schema
    noise: str
    queries: tuple[MeasuredQuery, ...]
    areas: Areas

    @property
    def family(self) -> type[Noise]:
        """The family of the noise."""
        return FAMILIES[self.noise]

    @property
    def precisions(self) -> tuple[Fraction, ...]:
        """The precision of each measured query."""
        return tuple(query.precision for query in self.queries)

    @property
    def floors(self) -> tuple[Fraction, ...]:
        """The floor of each measured query."""
        return tuple(query.floor for query in self.queries)

    @property
    def classes(self) -> tuple[tuple[Row, ...], ...]:
        """The measured rows of each query; they share a precision."""
        return tuple(query.rows for query in self.queries)

    @cached_property
    def measured(self) -> tuple[Measured, ...]:
        """Every measured row with its noise."""
        return tuple(
            Measured(row, self.family(query.precision), query.floor)
            for query in self.queries
            if query.precision
            for row in query.rows
        )

    def target(self, area: Area, centre: ArrayLike) -> Target:
        """Return the law of one area's table around a centre: the confidential table, or any other in S*."""
        if area not in self.areas:
            raise ConditionError(
                f"{area!r} is not an area of this law; {did_you_mean(str(area), map(str, self.areas))}"
            )
        return Target(self.areas[area], self.measured, np.asarray(centre, np.int64).reshape(-1))

    def __repr__(self) -> str:
        measured = ", ".join(f"{query.text} at precision {query.precision}{query.weighted}" for query in self.queries)
        return f"law of {self.areas} on {self.schema}: {measured}, {self.noise} noise"


def measured_rows(schema: Schema, queries: Sequence[Query], noise: object) -> tuple[tuple[Row, ...], ...]:
    """Check the measured queries and return their rows; rows of one query share a precision."""
    if not isinstance(noise, str) or noise not in FAMILIES:
        raise NoiseError(f"noise {noise!r} is not known; {did_you_mean(str(noise), FAMILIES)}")
    if not queries:
        raise ConditionError('measure at least one query, for example measure=[cells(precision="1/2")]')
    seen: dict[tuple[tuple[int, ...], tuple[int, ...]], Query] = {}
    out = []
    for query in queries:
        if not isinstance(query, Query):
            raise ConditionError(f"measure takes cells, total, margin or linear, not a {type(query).__name__}")
        if query.is_stated:
            raise ConditionError(
                f"{query.text} has a stated value, so it is exact, not measured; move it to invariants=[...]"
            )
        if query.precision:
            make_noise(noise, query.precision)  # raises when the noise does not go that far
        rows = tuple(query.rows(schema))
        for row in rows:
            other = seen.setdefault((row.cells, row.coefficients), query)
            if other is not query:
                raise ConditionError(
                    f"{row.name} is measured twice, by {other.how} and by {query.how};"
                    " measure it once, at the precision it should have in all"
                )
        out.append(rows)
    return tuple(out)
