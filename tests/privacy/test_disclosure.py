"""What exact numbers give away, counted in every area, against a search through every table."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

import congenial as cg
from agreement import own_rng
from congenial.conditions import determined_cells as determined_module
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import Condition
from congenial.privacy.disclosure import Disclosure, disclosure_of, sentences
from congenial.tree.disclosure import disclosures_of_levels

Ints = NDArray[np.int64]
SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["a", "b", "c"]})
MOST = 5  # records of a table: all its others can be listed
OLD = {"age": ["b", "c"]}

SYSTEMS: dict[str, list[Condition]] = {
    "a total": [cg.total()],
    "a total and a part": [cg.total(), cg.total(OLD, name="old")],
    "both margins": [cg.margin("sex"), cg.margin("age")],
    "two parts that cross": [cg.total(), cg.total({"sex": "f"}), cg.total(OLD)],
    "a share": [cg.total(), cg.share({"sex": "f"})],
    "a cell": [cg.total(), cg.total({"sex": "f", "age": "a"})],
    "zeros by declaration": [cg.margin("sex"), cg.total({"age": "a"}), cg.structural_zeros({"sex": "f", "age": "a"})],
    "three parts in a ring": [
        cg.total(),
        cg.linear({("f", "a"): 1, ("f", "b"): 1, ("m", "a"): 1}),
        cg.linear({("f", "b"): 1, ("f", "c"): 1, ("m", "b"): 1}),
        cg.linear({("f", "c"): 1, ("f", "a"): 1, ("m", "c"): 1}),
    ],
}


def tables_of(request: pytest.FixtureRequest, conditions: Sequence[Condition], n_areas: int = 30) -> Ints:
    rng = own_rng(request)
    cells = (rng.uniforms(n_areas * MOST).reshape(n_areas, MOST) * 9).astype(int)
    counts = np.stack([np.bincount(line[line < 6], minlength=6) for line in cells])
    if any(condition.kind == "structural_zeros" for condition in conditions):
        counts[:, 0] = 0
    return counts


EVERY = np.array([t for t in itertools.product(range(MOST + 1), repeat=6) if sum(t) <= MOST], np.int64)


def values(condition: Condition, tables: Ints) -> list[tuple[str, ...]]:
    """Return what a condition states of each table, from the plain sums of cells."""
    grid = tables.reshape(-1, 2, 3)
    if condition.kind == "structural_zeros":
        return [("",) if not table[0] else ("broken",) for table in tables]
    return [tuple(value for _, value in condition.exact_values(SCHEMA, table.reshape(-1).tolist())) for table in grid]


def brute_force(conditions: Sequence[Condition], tables: Ints) -> tuple[NDArray[np.bool_], Ints]:
    """Return which cells have one value in every table with the published numbers (area, cell), and that value."""
    stated = list(zip(*(values(condition, EVERY) for condition in conditions), strict=True))
    alike: dict[object, list[int]] = {}
    for place, said in enumerate(stated):
        alike.setdefault(said, []).append(place)
    known = []
    for said in zip(*(values(condition, tables) for condition in conditions), strict=True):
        own = EVERY[alike[said]]
        known.append(own.min(axis=0) == own.max(axis=0))
    return np.array(known), tables


def check_counts(found: Disclosure, conditions: Sequence[Condition], tables: Ints) -> None:
    known, truth = brute_force(conditions, tables)
    if any(condition.kind == "structural_zeros" for condition in conditions):
        known[:, 0] = False  # declared, and no news
        every = known[:, 1:].all(axis=1)
    else:
        every = known.all(axis=1)
    counted = found.summary
    assert counted.n_areas == len(tables)
    assert counted.n_exact == known.sum()
    assert counted.n_exact_not_zero == (known & (truth != 0)).sum()
    assert counted.n_with_exact == known.any(axis=1).sum()
    assert counted.n_all_exact == (every & known.any(axis=1)).sum()
    assert counted.n_open == 0
    listed = {(area, cell): value for area, cell, value in found.cells()}
    assert listed == {(str(a), int(c)): truth[a, c] for a, c in zip(*np.nonzero(known), strict=True)}
    sums = {row.name: list(row.cells) for name in SCHEMA.names for row in cg.margin(name).rows(SCHEMA)}
    sums |= {row.name: list(row.cells) for query in conditions for row in getattr(query, "rows", lambda _: [])(SCHEMA)}
    for one in counted.sums:
        if one.text in sums and one.n_known == len(tables):
            own = tables[:, sums[one.text]].sum(axis=1)
            assert (one.n_zero, one.n_one) == ((own == 0).sum(), (own == 1).sum()), one.text


def found_in(conditions: Sequence[Condition], tables: Ints) -> Disclosure:
    by_label = {str(number): table for number, table in enumerate(tables)}
    return disclosure_of(Areas.disclosed(SCHEMA, conditions, by_label, name="block"), conditions)


@pytest.mark.parametrize("name", SYSTEMS)
def test_counts_are_those_of_a_search_through_every_table(name: str, request: pytest.FixtureRequest) -> None:
    conditions = SYSTEMS[name]
    tables = tables_of(request, conditions)
    check_counts(found_in(conditions, tables), conditions, tables)


def test_the_search_rejects_limits_without_the_sums_that_follow(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Defect: limits narrowed by the stated rows alone miss what crossing parts determine."""
    conditions = SYSTEMS["two parts that cross"]
    tables = tables_of(request, conditions, 200)
    check_counts(found_in(conditions, tables), conditions, tables)
    monkeypatch.setattr(determined_module, "with_sums", lambda group, _: group)
    monkeypatch.setattr(determined_module, "is_tight", lambda *_: True)
    with pytest.raises(AssertionError):
        check_counts(found_in(conditions, tables), conditions, tables)


def test_what_no_search_settled_is_counted(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    conditions = SYSTEMS["three parts in a ring"]
    tables = tables_of(request, conditions)
    monkeypatch.setattr("congenial.privacy.disclosure.MOST_PROGRAMS", 1)
    found = found_in(conditions, tables)
    known, _ = brute_force(conditions, tables)
    assert 0 < found.summary.n_open < len(tables)
    assert found.summary.n_exact <= known.sum()
    assert any("further cells may be exact" in line for line in sentences(found))


def test_sentences_have_the_counts() -> None:
    """Children, lone residents, and cells that only both margins together tell."""
    tables = np.zeros((50, 6), np.int64)
    tables[:30, 1] = 1  # one woman
    tables[30:40] = [0, 4, 0, 0, 0, 3]
    tables[40:45] = [2, 1, 1, 1, 3, 1]
    lines = sentences(found_in([cg.total(), cg.total(OLD, name="old")], tables), "person")
    assert "In 45 of 50 areas (90 %) age=a is 0: its 2 cells are exact" in lines
    assert "In 30 of 50 areas (60 %) total is 1: what is exact there is about one person" in lines
    assert "In 5 of 50 areas (10 %) every cell is exact" in lines
    both = sentences(found_in([cg.margin("sex"), cg.margin("age")], tables), "person")
    found = "the cell sex=f, age=b is exact, though no sum with it is 0; in 30 of them it is not 0"
    assert f"In 30 of 50 areas (60 %) {found}" in both


def test_a_tree_is_looked_at_level_by_level() -> None:
    """Defect: a block in an empty county passed for protected."""
    tree = cg.Tree.of_prefixes(["1a", "1b", "2a", "2b"], {"county": 1}, "block")
    hierarchy = cg.Hierarchy(tree, SCHEMA, invariants={"county": [cg.total()]}, rho="1")
    leaves = np.array([[1, 2, 0, 0, 0, 1], [0] * 6, [0] * 6, [0] * 6])
    plan = hierarchy.plan(hierarchy.disclose(hierarchy.counts_of(leaves)))
    county, block = disclosures_of_levels(plan.law.areas, plan.law.below, hierarchy.invariants)
    assert (county.summary.n_exact, county.summary.n_all_exact) == (6, 1)
    assert (block.summary.n_exact, block.summary.n_all_exact) == (12, 2)
    assert {area for area, _, _ in block.cells()} == {"2a", "2b"}
