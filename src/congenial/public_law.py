"""The public law: everything about a release's distribution except the confidential tables it is centred at."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import Row
from congenial.noise import FAMILIES
from congenial.sampling.target import Measured, Target
from congenial.schema import Schema

Area = str | None
"""An area's label; None in a release of one table."""


@dataclass(frozen=True)
class MeasuredQuery:
    """A measured query: its rows all have noise of one precision; precision 0 is not measured."""

    text: str
    precision: Fraction
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class PublicLaw:
    """Schema, measured queries with their precisions, and the conditions of every table. Public.

    Attributes
    ----------
    area_name : str or None
        What an area is called, such as county; None for one table.
    tables : tuple of (area, Constraints)
        What each released table obeys.
    """

    schema: Schema
    noise: str
    queries: tuple[MeasuredQuery, ...]
    area_name: str | None
    tables: tuple[tuple[Area, Constraints], ...]

    @property
    def areas(self) -> tuple[Area, ...]:
        """The areas in their declared order; (None,) for one table."""
        return tuple(area for area, _ in self.tables)

    @cached_property
    def constraints(self) -> Mapping[Area, Constraints]:
        """What the table of each area obeys."""
        return dict(self.tables)

    @cached_property
    def measured(self) -> tuple[Measured, ...]:
        """Every measured row with its noise."""
        make = FAMILIES[self.noise]
        return tuple(
            Measured(row, make(query.precision)) for query in self.queries if query.precision for row in query.rows
        )

    def target(self, area: Area, centre: ArrayLike) -> Target:
        """Return the law of one area's table around a centre: the confidential table, or any other in S*."""
        return Target(self.constraints[area], self.measured, np.asarray(centre, np.int64).reshape(-1))
