"""Many areas at once: a certificate for each structure is what every area's own values would give, and never less."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import flint
import numpy as np
import pytest
from numpy.typing import NDArray

import congenial as cg
from brute import BITS, Brute, Dice, Limits, Plain, Weights, cell_classes, is_at_most, row_of
from congenial.arrays import Ints
from congenial.conditions import areas_and_bounds as areas_module
from congenial.conditions import constraints as constraints_module
from congenial.conditions.areas_and_bounds import AreaBounds, AreaGroup, Areas, quick_bounds
from congenial.conditions.base import Condition
from congenial.conditions.compile import compile_conditions
from congenial.errors import PrivacyError
from congenial.examples import P12_VOTING_AGES, p12_schema
from congenial.privacy import certificate_inputs as areas_alike
from congenial.privacy.certificate import Certificate
from congenial.privacy.certificate_inputs import Case
from congenial.privacy.certify import certificate_of
from congenial.privacy.closest_neighbours_and_unprotected import closest_pair
from congenial.privacy.compose_and_price_areas import PricedAreas, Pricing, over_areas
from congenial.randomness import replay_rng
from drawn import drawn
from loss_systems import RELATIONS

Limit = tuple[int | None, int | None]


@dataclass(frozen=True)
class Many:
    """Areas in the plainest terms: rows with limits, or with each area's own value; a table for each area."""

    rows: tuple[tuple[Weights, Limit | None], ...]
    limits: tuple[Limit, ...]
    classes: tuple[tuple[Weights, ...], ...]
    precisions: tuple[Fraction, ...]
    tables: tuple[tuple[int, ...], ...]
    noise: str = "double_geometric"

    @property
    def areas(self) -> Areas:
        schema = cg.Schema({"cell": [f"c{i}" for i in range(len(self.limits))]})
        made: list[Condition] = []
        for weights, ends in self.rows:
            named = {f"c{i}": w for i, w in enumerate(weights) if w}
            low, high = ends or (None, None)
            made.append(cg.linear(named) if ends is None else cg.linear(named, at_least=low, at_most=high))
        for i, (low, high) in enumerate(self.limits):
            made.append(cg.bounds(low, high, where={"cell": f"c{i}"}))
        own = {f"area {number}": np.array(table) for number, table in enumerate(self.tables)}
        return Areas.disclosed(schema, made, own, name="county")

    def pricing(self, neighbours: str) -> Pricing:
        classes = tuple(tuple(row_of(weights) for weights in rows) for rows in self.classes)
        return Pricing(self.areas, classes, self.noise, neighbours)

    def plain(self, table: tuple[int, ...]) -> Plain:
        """Return one area's system by value; its cells hold at most what the limits or the rows allow."""
        rows: list[Limits] = []
        for weights, ends in self.rows:
            value = sum(w * x for w, x in zip(weights, table, strict=True))
            rows.append((weights, *((value, value) if ends is None else ends)))
        box = []
        for cell, (low, high) in enumerate(self.limits):
            tops = [top for w, _, top in rows if min(w) >= 0 and w[cell] and top is not None]
            box.append((low or 0, min([*tops, *([] if high is None else [high])])))
        return Plain(tuple(box), tuple(rows), self.classes, self.precisions, self.noise)


def random_areas(dice: Dice, noise: str = "double_geometric") -> Many:
    """Return 25 to 60 areas of one random system: few records, so that cells are pinned in some and not in others."""
    n = dice.integer(3, 4)
    highs = [dice.choice([None, None, 1, 2]) for _ in range(n)]
    has_total = dice.chance(2, 3)
    if not has_total:
        highs = [dice.integer(1, 2) for _ in range(n)]
    sizes = [dice.integer(0, 2) for _ in range(3)]
    tables = []
    for _ in range(dice.integer(25, 60)):
        most = dice.choice(sizes)
        tables.append(tuple(dice.integer(0, most if high is None else min(high, most)) for high in highs))
    rows: list[tuple[Weights, Limit | None]] = [((1,) * n, None)] if has_total else []
    for _ in range(dice.integer(0, 2)):
        rows.append((dice.weights(n, [0, 1, 1] if dice.chance(3, 4) else [0, 1, 2, -1]), None))
    if dice.chance(1, 3):
        weights = dice.weights(n, [0, 1, 1])
        values = [sum(w * x for w, x in zip(weights, table, strict=True)) for table in tables]
        rows.append((weights, (min(values), max(values) + dice.integer(0, 1))))
    ones = cell_classes(n)
    cut = dice.integer(1, n - 1)
    classes = [ones[:cut], ones[cut:], *([(dice.weights(n, [0, 1, 1]),)] if dice.chance(1, 2) else [])]
    precisions = tuple(dice.between("1/10", "3") for _ in classes)
    limits = tuple((0, high) for high in highs)
    unique = {weights: (weights, ends) for weights, ends in rows}
    return Many(tuple(unique.values()), limits, tuple(map(tuple, classes)), precisions, tuple(tables), noise)


def all_together(pricing: Pricing, precisions: tuple[Fraction, ...]) -> Certificate | None:
    try:
        return pricing.certificate(precisions, try_all_pairs=False)
    except PrivacyError as refused:
        if "no change of one record is possible in any area" not in str(refused):
            raise
        return None


def by_value(pricing: Pricing) -> list[Case]:
    return [Case(own, pricing.classes, pricing.noise, pricing.neighbours) for own in pricing.areas.values()]


def bounds_of(one: Certificate | None) -> tuple[object, ...] | None:
    if one is None:
        return None
    return one.k, one.loss, one.rho, one.orders, one.rho_at_all_orders, one.loss_without_invariants, one.reasons


def check_never_below(many: Many, neighbours: str) -> int:
    """Check the certificate of all areas against each by brute force; return how many tables one record can change."""
    pricing = many.pricing(neighbours)
    assert len(pricing.areas) > areas_alike.FEW_AREAS
    found = all_together(pricing, many.precisions)
    n_moved = 0
    for table in sorted(set(many.tables)):
        brute = Brute.of(many.plain(table))
        pairs = brute.pairs(neighbours, 1)
        if not len(pairs):
            continue
        n_moved += 1
        assert found is not None, table
        assert found.loss is not None
        with flint.ctx.workprec(BITS):
            assert is_at_most(brute.worst(pairs), found.loss), table
    for case in by_value(pricing):
        if case.neighbourhood.k == 1:
            alone = certificate_of(case, many.precisions, 1)
            assert found is not None
            assert found.loss is not None
            assert alone.loss is not None
            assert alone.loss <= found.loss
            assert (alone.rho or 0) <= (found.rho or 0)
    return n_moved


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("seed", range(12))
def test_the_certificate_of_structures_is_never_below_that_of_an_area(seed: int, relation: str) -> None:
    many = random_areas(Dice(replay_rng(f"never below {seed}")))
    check_never_below(many, relation)


def test_the_random_areas_are_of_many_structures() -> None:
    """Lest the tests here speak of areas in which nothing can change, or of one structure."""
    made = [random_areas(Dice(replay_rng(f"never below {seed}"))) for seed in range(12)]
    for relation, least in (("bounded", 8), ("unbounded", 2)):
        cases = [[one.case for one in many.pricing(relation).structures] for many in made]
        assert sum(any(case.neighbourhood.k == 1 for case in own) for own in cases) >= least
        assert sum(len(own) > 1 for own in cases) >= 8


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("seed", range(drawn(10)))
def test_structures_cost_what_every_area_by_value_costs(seed: int, relation: str) -> None:
    many = random_areas(Dice(replay_rng(f"by value {seed}")))
    pricing = many.pricing(relation)
    places = np.concatenate([structure.places for structure in pricing.structures])
    assert sorted(places.tolist()) == list(range(len(many.tables)))
    parts = [PricedAreas(case, many.precisions) for case in by_value(pricing)]
    try:
        alone = over_areas(parts, try_all_pairs=False)
    except PrivacyError as refused:
        if "no change of one record is possible in any area" not in str(refused):
            raise
        alone = None
    assert bounds_of(all_together(pricing, many.precisions)) == bounds_of(alone)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("seed", range(10))
def test_gaussian_structures_never_cost_less_than_an_area_by_value(seed: int, relation: str) -> None:
    """The widest cells of any area are taken together, so the bound by the range may be larger than each area's."""
    many = random_areas(Dice(replay_rng(f"gaussian {seed}")), "discrete_gaussian")
    pricing = many.pricing(relation)
    found = all_together(pricing, many.precisions)
    for case in by_value(pricing):
        if case.neighbourhood.k == 1:
            assert found is not None
            alone = certificate_of(case, many.precisions, 1, try_all_pairs=False)
            assert (alone.rho or 0) <= (found.rho or 0)
            assert (alone.rho_at_all_orders or 0) <= (found.rho_at_all_orders or 0)


# ---- the quick rule for the fewest records ----


def line(n: int, rows: list[tuple[Weights, Limit | None]], limits: list[Limit], tables: list[tuple[int, ...]]) -> Many:
    return Many(tuple(rows), tuple(limits), (cell_classes(n),), (Fraction(1),), tuple(tables))


CHOSEN: dict[str, Many] = {
    "a zero in no row": line(3, [((0, 1, 1), None)], [(0, 0), (0, None), (0, None)], [(0, 1, 2), (0, 0, 0)]),
    "a full pair": line(
        4,
        [((1, 1, 0, 0), None), ((0, 0, 1, 2), None)],
        [(0, 1), (0, 1), (0, None), (0, None)],
        [(1, 1, 1, 2), (1, 0, 1, 2), (0, 0, 1, 0), (0, 0, 0, 0)],
    ),
    "totals": line(4, [((1, 1, 1, 1), None), ((0, 0, 1, 1), None)], [(0, None)] * 4, [(1, 2, 0, 1), (0, 0, 0, 0)]),
    "crossing": line(
        4, [((1, 1, 0, 0), None), ((1, 0, 1, 0), None), ((0, 0, 1, 1), None)], [(0, None)] * 4, [(2, 1, 3, 1)] * 2
    ),
    "free cells": line(3, [((1, 1, 0), None)], [(0, None), (0, None), (None, None)], [(2, 1, 3), (0, 0, 4)]),
    "free cells with a limit": line(3, [((1, 1, 0), None)], [(0, None), (0, None), (0, 5)], [(2, 1, 3), (0, 0, 5)]),
    "lower limits": line(3, [((1, 1, 1), None)], [(2, None)] * 3, [(2, 2, 2), (2, 3, 2)]),
    "weights": line(3, [((1, 1, 2), None)], [(0, None)] * 3, [(0, 0, 1), (0, 1, 0), (0, 0, 0)]),
}


def open_areas(dice: Dice) -> Many:
    """Return areas whose cells may have no limits at all."""
    n = dice.integer(2, 5)
    tables = [tuple(dice.integer(0, dice.choice([0, 1, 3])) for _ in range(n)) for _ in range(6)]
    most = [max(column) for column in zip(*tables, strict=True)]
    limits: list[Limit] = [
        (dice.choice([0, 0, 0, 0, None]), dice.choice([None, None, None, most[cell], most[cell] + 1]))
        for cell in range(n)
    ]
    rows: dict[Weights, Limit | None] = {}
    for _ in range(dice.integer(0, 3)):
        weights = dice.weights(n, [0, 1, 1] if dice.chance(4, 5) else [0, 1, 2, -1])
        values = [sum(w * x for w, x in zip(weights, table, strict=True)) for table in tables]
        rows[weights] = (min(values), max(values)) if dice.chance(1, 5) else None
    return line(n, list(rows.items()), limits, tables)


def check_quick_rule(many: Many) -> Iterator[tuple[str, int]]:
    """Compare the quick rule with integer programs; go through the relations and answers that it gives."""
    for group in many.areas.groups:
        pinned = quick_bounds(group).pinned
        for relation in RELATIONS:
            for number, code in enumerate(areas_alike._quick_closest(group, pinned, relation).tolist()):
                if code == areas_alike._UNKNOWN:
                    continue
                exact = closest_pair(group.constraints(number), relation)
                assert code == areas_alike._code(exact), (relation, group.constraints(number))
                yield relation, code


@pytest.mark.parametrize("name", CHOSEN)
def test_the_quick_rule_agrees_with_integer_programs(name: str) -> None:
    list(check_quick_rule(CHOSEN[name]))


@pytest.mark.parametrize("seed", range(drawn(12)))
def test_the_quick_rule_agrees_with_integer_programs_on_random_areas(seed: int) -> None:
    dice = Dice(replay_rng(f"quick {seed}"))
    for _ in range(4):
        list(check_quick_rule(open_areas(dice)))


def test_the_quick_rule_gives_every_answer() -> None:
    """Lest the tests above hold because it gives none."""
    found = {answer for many in CHOSEN.values() for answer in check_quick_rule(many)}
    ones = {("bounded", areas_alike._ONE), ("unbounded", areas_alike._ONE)}
    twos = {("unbounded", areas_alike._TWO)}
    nobody = {(relation, areas_alike._NOBODY) for relation in RELATIONS}
    assert found == ones | twos | nobody


# ---- mutants ----


@dataclass(frozen=True)
class Forgetful(AreaBounds):
    """The mutant: no cell is pinned in any area."""

    @property
    def pinned_lines(self) -> NDArray[np.bool_]:
        return np.zeros(self.lows.T.shape, bool)


FIRST_PINNED = Many(
    (((1, 1, 1, 1), None), ((1, 1, 0, 0), None)),
    ((0, None),) * 4,
    (cell_classes(4)[:2], cell_classes(4)[2:]),
    (Fraction(3), Fraction(1, 10)),
    ((0, 0, 2, 1), *[(1, 1, 1, 0)] * 24),
)


def test_a_structure_that_forgets_pinned_cells_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The well-measured cells cannot move in the first area, and its case must not stand for the others."""

    def forgetful(group: AreaGroup) -> AreaBounds:
        found = quick_bounds(group)
        return Forgetful(found.line_of_cell, found.lows, found.highs)

    assert check_never_below(FIRST_PINNED, "bounded") == 2
    assert len(FIRST_PINNED.pricing("bounded").structures) == 2
    monkeypatch.setattr(areas_alike, "quick_bounds", forgetful)
    assert len(FIRST_PINNED.pricing("bounded").structures) == 1
    with pytest.raises(AssertionError):
        check_never_below(FIRST_PINNED, "bounded")


@pytest.mark.parametrize("name", ["a zero in no row", "a full pair"])
def test_a_quick_rule_without_upper_limits_would_be_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(areas_alike, "_can_rise", lambda _, __: True)
    with pytest.raises(AssertionError):
        list(check_quick_rule(CHOSEN[name]))


# ---- thousands of areas ----


def test_thousands_of_areas_are_planned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Total and voting age exact in 8,000 areas: a few cases, and one compilation; no area is looked at by itself."""
    n_areas = 8_000
    schema = p12_schema()
    adults = {"age": P12_VOTING_AGES}
    mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=[cg.total(), cg.total(adults)], epsilon="1")
    counts: Ints = replay_rng("8,000 areas").below(np.full(n_areas * schema.n_cells, 40)).reshape(n_areas, -1)
    tables = {f"{n}": cg.Table(schema, own.reshape(schema.shape)) for n, own in enumerate(counts)}
    made: dict[str, int] = {"cases": 0, "compilations": 0, "programs": 0}

    def counted(name: str, call: object) -> object:
        def run(*given: object, **more: object) -> object:
            made[name] += 1
            return call(*given, **more)  # type: ignore[operator]

        return run

    monkeypatch.setattr(Case, "__post_init__", counted("cases", Case.__post_init__))
    compiled = counted("compilations", compile_conditions)
    monkeypatch.setattr(constraints_module, "compile_conditions", compiled)
    monkeypatch.setattr(areas_module, "compile_conditions", compiled)
    monkeypatch.setattr(areas_alike, "closest_pair", counted("programs", closest_pair))
    areas = mechanism.disclose(tables, area="tract")
    plan = mechanism.plan(areas)
    assert plan.certificate.loss is not None
    assert Fraction(999, 1000) < plan.certificate.loss <= 1
    assert sum(part.n_areas for part in plan.parts) == n_areas
    assert len(plan.samplers) == 1
    assert plan.not_protected is not None
    assert made["compilations"] == 1
    assert 1 <= made["cases"] <= 10
    assert made["programs"] == 0
