"""What exactness costs: the same budget with an invariant left out, and what noise and errors that gives. Public."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import cast

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.expected_error import quick_errors
from congenial.conditions.areas import Area, Areas
from congenial.errors import CongenialError
from congenial.mechanism import Mechanism
from congenial.plan import Plan
from congenial.public_law import PublicLaw
from congenial.spec.spec import Spec
from congenial.table import Table

_MOST_ONE_BY_ONE = 10  # invariants that are left out one by one


@dataclass(frozen=True)
class Alternative:
    """A release that leaves something out, planned when its price is asked for.

    Attributes
    ----------
    text : str
        What is left out, in words.
    areas : Areas
        What is disclosed without it: some of the values that are disclosed with it, and nothing else of the data.
    """

    text: str
    mechanism: Mechanism
    areas: Areas

    def price(self, area: Area, centre: Ints) -> "Price | None":
        """Return what this release would have; None where it cannot be certified or is not planned quickly."""
        try:
            return price_of(self.text, self.mechanism.plan(self.areas), area, centre)
        except CongenialError:
            return None


@dataclass(frozen=True)
class Price:
    """What a release has for its budget.

    Attributes
    ----------
    noise : float
        Standard deviation of the noise on a cell, before anything is made exact.
    error : float or None
        Root mean squared error of a released cell around a public table; None where that is not quick to compute.
    cost : str
        What is certified, in words.
    """

    text: str
    noise: float
    error: float | None
    cost: str


def price_of(text: str, plan: Plan, area: Area, centre: Ints) -> Price:
    """Return what a plan has for its budget, in one area around a public table."""
    return Price(text, noise_on_a_cell(plan.law), error_of_a_cell(plan.law, area, centre), plan.spent.text)


def noise_on_a_cell(law: PublicLaw) -> float:
    """Return the standard deviation of the noise on a cell, or on what is measured where no cells are."""
    measured = [query for query in law.queries if query.precision]
    alone = [query for query in measured if all(len(row.cells) == 1 for row in query.rows)] or measured
    variances = [(float(law.family(query.precision).variance), len(query.rows)) for query in alone]
    return sqrt(sum(variance * n for variance, n in variances) / sum(n for _, n in variances))


def error_of_a_cell(law: PublicLaw, area: Area, centre: Ints) -> float | None:
    """Return the root mean squared error of a released cell around a public table; None where draws would be needed."""
    errors = quick_errors(law, area, centre)
    return None if errors is None else float(np.sqrt((errors**2).mean()))


def alternatives(spec: Spec, tables: Mapping[Area, Table]) -> tuple[Alternative, ...]:
    """Return the releases that leave out one invariant each, and the one that leaves out all of them.

    Parameters
    ----------
    tables : mapping from area to Table
        Confidential. Only what fewer invariants disclose is taken from them.
    """
    stated = spec.invariants
    one_by_one = stated if 1 < len(stated) <= _MOST_ONE_BY_ONE else ()
    without = [
        (f"without {one.condition.title}", tuple(other for other in stated if other is not one)) for one in one_by_one
    ]
    if stated:
        without.append(("with nothing exact", ()))
    found = []
    for text, invariants in without:
        mechanism = replace(spec, invariants=invariants).mechanism
        found.append(Alternative(text, mechanism, disclosed_areas(spec, mechanism, tables)))
    return tuple(found)


def disclosed_areas(spec: Spec, mechanism: Mechanism, tables: Mapping[Area, Table]) -> Areas:
    """Return what a mechanism discloses of confidential tables."""
    if spec.by is None:
        return Areas.one(mechanism.disclose(tables[None]))
    named = cast("Mapping[str, Table]", tables)  # areas have labels
    return mechanism.disclose(named, area=spec.by.name)
