"""What units with several rows cost, and areas in which records are tied: never less than the truth."""

from fractions import Fraction
from itertools import product
from math import log

import numpy as np
import pytest

import congenial as cg
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import Condition
from congenial.errors import PrivacyError
from congenial.law import PublicLaw
from congenial.plan import Plan
from congenial.privacy.certify import certificate_of as certificate_of_case

SCHEMA = cg.Schema({"g": ["a", "b"]})


def law(
    conditions: list[Condition], *tables: list[int], schema: cg.Schema = SCHEMA, precision: str = "1/2"
) -> PublicLaw:
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision=precision)], invariants=conditions)
    made = [mechanism.disclose(cg.Table(schema, np.array(table).reshape(schema.shape))) for table in tables]
    if len(made) == 1:
        return mechanism.calibrate(made[0])
    return mechanism.calibrate(Areas.collected("area", {str(number): own for number, own in enumerate(made)}))


def certificate_of(published: PublicLaw, neighbours: str, rows: int = 1) -> cg.Certificate:
    return Plan.of(published, neighbours, rows).certificate


@pytest.mark.parametrize("neighbours", ["bounded", "unbounded"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_unit_s_rows_with_a_published_total_are_covered(neighbours: str, rows: int) -> None:
    """By brute force: every two tables of the total that differ in up to so many changed rows."""
    published = law([cg.total()], [4, 5])
    certified = certificate_of(published, neighbours, rows).loss
    assert certified is not None
    laws = {}
    for first in range(10):
        listed = cg.Law(published, [first, 9 - first]).enumerated
        laws[first] = [float(p) for p in listed.probabilities]
    worst = max(
        log(p / q)
        for one, other in product(laws, repeat=2)
        if 0 < abs(one - other) <= rows
        for p, q in zip(laws[one], laws[other], strict=True)
    )
    assert worst <= float(certified) + 1e-12
    assert float(certified) < 1.5 * worst  # and not wasteful


def test_unbounded_units_without_a_total_are_covered() -> None:
    published = law([], [4, 5])
    one, three = (certificate_of(published, "unbounded", rows).loss for rows in (1, 3))
    assert one is not None
    assert three is not None
    assert three >= Fraction(3, 2)  # three rows of precision 1/2
    assert three > one


def test_bounded_units_need_the_total() -> None:
    """A changed unit may have fewer rows: no table of the same size is its neighbour, a total would be free."""
    with pytest.raises(PrivacyError, match="publish the total exactly"):
        certificate_of(law([], [4, 5]), "bounded", 3)
    with pytest.raises(PrivacyError, match="several areas"):
        certificate_of(law([cg.total()], [4, 5], [1, 2]), "bounded", 2)


def test_an_area_more_never_costs_less() -> None:
    """An area in which only two records can change together is priced at two."""
    schema = cg.Schema({"sex": ["f", "m"], "h": ["A", "B", "C", "D"]})
    conditions: list[Condition] = [cg.margin("sex"), cg.margin("h")]
    tied, roomy = [2, 1, 0, 3, 1, 2, 2, 1], [9, 9, 9, 9, 9, 9, 9, 9]
    alone = certificate_of(law(conditions, tied, schema=schema), "bounded")
    assert alone.k == 2
    single = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=conditions)
    free = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
    plans = [
        single.plan(single.disclose(cg.Table(schema, np.array(tied).reshape(2, 4)))),
        free.plan(free.disclose(cg.Table(schema, np.array(roomy).reshape(2, 4)))),
    ]
    together = cg.compose(plans, over="areas").certificate
    assert together.loss is not None
    assert alone.loss is not None
    by_theorem = certificate_of_case(plans[0].structures[0].case, [Fraction(1, 2)], try_all_pairs=False).loss
    assert by_theorem is not None
    assert together.loss >= by_theorem * Fraction(99, 100)
    assert any("priced" in reason for reason in together.reasons)
