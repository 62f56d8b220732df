"""No error text contains a confidential value: tables with unmistakable counts are pushed through every refusal.

Nor does one say where a table breaks a condition: the text is the same whichever cell of whichever area it is.
"""

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import congenial as cg
from congenial.cli.main import main
from congenial.conditions.base import Condition
from congenial.errors import BrokenError
from congenial.ledger import open_ledger
from congenial.privacy.audit import Losses
from congenial.sampling.enumeration import EnumeratedLaw, worst_ratio
from congenial.study import independence_and_rejection_samplers as independence
from congenial.study import independence_and_rejection_samplers as rejection
from congenial.study import sum_zero_laws_and_two_bins as closed_form

CANARIES = (71_828_182, 31_415_926, 57_721_566, 16_180_339)
SECRET_LABEL = "Ermintrude"
SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
COUNTS = [[CANARIES[0], CANARIES[1]], [CANARIES[2], CANARIES[3]]]
TABLE = cg.Table(SCHEMA, COUNTS)
MECHANISM = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1")], invariants=[cg.bounds(0, 10**9)])
SMALL = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.margin("sex")])


def swapped(value: object) -> list[list[object]]:
    return [[CANARIES[0], CANARIES[1]], [CANARIES[2], value]]


def frame(**changes: object) -> pd.DataFrame:
    columns: dict[str, object] = {"sex": ["f", "f", "m", "m"], "age": ["y", "o", "y", "o"], "n": list(CANARIES)}
    return pd.DataFrame(columns | changes)


def losses_of(mechanism: cg.Mechanism) -> Losses:
    constraints = mechanism.disclose(TABLE)
    return Losses.of(constraints, mechanism.calibrate(constraints).measured)


def target() -> object:
    return MECHANISM.law(TABLE).target


REFUSALS: dict[str, Callable[[], object]] = {
    "negative": lambda: cg.Table(SCHEMA, swapped(-CANARIES[3])),
    "fraction": lambda: cg.Table(SCHEMA, swapped(CANARIES[3] + 0.5)),
    "nan": lambda: cg.Table(SCHEMA, swapped(float("nan"))),
    "infinite": lambda: cg.Table(SCHEMA, swapped(float("inf"))),
    "boolean": lambda: cg.Table(SCHEMA, swapped(True)),
    "huge": lambda: cg.Table(SCHEMA, swapped(CANARIES[3] * 10**12)),
    "text": lambda: cg.Table(SCHEMA, swapped(str(CANARIES[3]))),
    "text array": lambda: cg.Table(SCHEMA, np.array(swapped(str(CANARIES[3])), object)),
    "ragged": lambda: cg.Table(SCHEMA, [list(CANARIES[:3]), [CANARIES[3]]]),
    "too deep": lambda: cg.Table(SCHEMA, [CANARIES[0], CANARIES[1]]),
    "flat array": lambda: cg.Table(SCHEMA, np.array(CANARIES)),
    "one number": lambda: cg.Table(SCHEMA, CANARIES[0]),
    "missing cell": lambda: cg.Table(SCHEMA, {("f", "y"): CANARIES[0]}),
    "unknown label": lambda: cg.Table(SCHEMA, {("f", SECRET_LABEL): CANARIES[0]}, fill=0),
    "label a number": lambda: cg.Table(SCHEMA, {("f", CANARIES[1]): CANARIES[0]}, fill=0),
    "key too short": lambda: cg.Table(SCHEMA, {"f": CANARIES[0]}, fill=0),
    "given twice": lambda: cg.Table(SCHEMA, {("f", "y"): CANARIES[0], "f": {"y": CANARIES[1]}}, fill=0),
    "frame label": lambda: cg.Table(SCHEMA, frame(age=["y", "o", "y", SECRET_LABEL])),
    "frame twice": lambda: cg.Table(SCHEMA, frame(age=["y", "y", "y", "o"]), fill=0),
    "frame fraction": lambda: cg.Table(SCHEMA, frame(n=[*CANARIES[:3], CANARIES[3] + 0.25])),
    "frame numbers": lambda: cg.Table(SCHEMA, frame(age=list(CANARIES))),
    "frame column": lambda: cg.Table(SCHEMA, frame(extra=list(CANARIES))),
    "frame count": lambda: cg.Table(SCHEMA, frame(), count="m"),
    "fill": lambda: cg.Table(SCHEMA, {("f", "y"): CANARIES[0]}, fill=-1),
    "breaks a bound": lambda: cg.Mechanism(
        SCHEMA, measure=[cg.cells(precision="1")], invariants=[cg.bounds(0, 5)]
    ).disclose(TABLE),
    "breaks a zero": lambda: cg.Mechanism(
        SCHEMA, measure=[cg.cells(precision="1")], invariants=[cg.structural_zeros({"sex": "f"})]
    ).law(TABLE),
    "breaks a total": lambda: cg.Mechanism(
        SCHEMA, measure=[cg.cells(precision="1")], invariants=[cg.total(equals=9)]
    ).disclose(TABLE),
    "not a table": lambda: MECHANISM.law(COUNTS),  # type: ignore[arg-type]
    "other schema": lambda: MECHANISM.law(cg.Table(cg.Schema({"a": ["x", "y"]}), CANARIES[:2])),
    "suppressed": lambda: cg.Mechanism(SCHEMA, measure=[cg.cells(precision="0")]).law(TABLE),
    "improper": lambda: cg.Mechanism(SCHEMA, measure=[cg.total(precision="1")]).law(TABLE),
    "too many tables": lambda: MECHANISM.law(TABLE).enumerated,
    "infinitely many tables": lambda: cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1")]).law(TABLE).enumerated,
    "too wide": lambda: (
        cg.Mechanism(SCHEMA, measure=[cg.linear([[1, 3], [5, 7]], precision="1")], invariants=[cg.bounds(0, 10**9)])
        .law(TABLE)
        .sample(1)
    ),
    "draws of the wrong kind": lambda: SMALL.law(cg.Table(SCHEMA, [[1, 2], [3, 4]])).log_probability([[1.5] * 4]),
    "enumeration limit": lambda: EnumeratedLaw.of(SMALL.law(TABLE).target, limit=10),
    "two sets of tables": lambda: worst_ratio(
        SMALL.law(cg.Table(SCHEMA, [[1, 2], [3, 4]])).enumerated,
        SMALL.law(cg.Table(SCHEMA, [[1, 2], [3, 5]])).enumerated,
    ),
    "rejection gives up": lambda: rejection.rejection_sample(
        cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/1000")], invariants=[cg.margin("sex"), cg.margin("age")])
        .law(TABLE)
        .target,
        10,
        cg.replay_rng(1),
        most_proposals=1000,
    ),
    "closed form": lambda: closed_form.sample(MECHANISM.law(TABLE).target, 1, cg.replay_rng(1)),
    "bad start": lambda: independence.sample(SMALL.law(TABLE).target, 1, cg.replay_rng(1), start=[0, 0, 0, 0]),
    "budget too small": lambda: cg.Mechanism(
        SCHEMA, measure=[cg.cells(precision="1"), cg.total()], invariants=[cg.margin("sex")], epsilon="1"
    ).law(TABLE),
    "a pair that breaks the invariants": lambda: losses_of(SMALL).pair(TABLE.counts, TABLE.counts + 1),
    "explained without its bounds": lambda: cg.Mechanism(
        SCHEMA, measure=[cg.cells(precision="1")], invariants=[cg.bounds(10**4, 10**9)]
    ).explain(),
    "bad index set": lambda: independence.sample(SMALL.law(TABLE).target, 1, cg.replay_rng(1), index_set=[0, 1]),
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_no_refusal_names_a_confidential_value(refusal: str) -> None:
    with pytest.raises(cg.CongenialError) as caught:
        REFUSALS[refusal]()
    error = caught.value
    texts = [str(error), *map(str, error.args)]
    while error is not None:
        texts += traceback.format_exception_only(error)
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    for text in texts:
        digits = text.replace(",", "").replace("_", "")
        for canary in (*CANARIES, sum(CANARIES), SECRET_LABEL):
            assert str(canary) not in digits


PLACES = cg.Schema({"sex": ["Ermintrude", "Zebedee"], "age": ["Dougal", "Florence"]})
AREAS = ("Dylan", "Brian", "Mabel")
FINE, BAD = 2, 9
STATED: dict[str, list[Condition]] = {
    "a bound": [cg.bounds(0, 5)],
    "bounds and a total": [cg.bounds(2, 5), cg.total()],
    "a stated margin": [cg.margin("sex", "age", equals=[[FINE, FINE], [FINE, FINE]])],
    "stated cells": [cg.cells(equals=[FINE] * 4)],
    "a stated total": [cg.total(equals=4 * FINE)],
    "a limit": [cg.total(), cg.linear([[1, 1], [1, 1]], at_most=4 * FINE, name="points")],
    "two bounds": [cg.bounds(0, 5, name="small"), cg.total(equals=4 * FINE)],
}


def broken_tables() -> Iterator[cg.Table]:
    """Return tables that are fine but for one cell, each cell in turn."""
    for cell in range(PLACES.n_cells):
        counts = np.full(PLACES.n_cells, FINE)
        counts[cell] = BAD
        yield cg.Table(PLACES, counts.reshape(PLACES.shape))


@pytest.mark.parametrize("name", STATED)
def test_a_broken_condition_is_named_and_not_where_it_is_broken(name: str) -> None:
    mechanism = cg.Mechanism(PLACES, measure=[cg.cells(precision="1")], invariants=STATED[name])
    fine = cg.Table(PLACES, np.full(PLACES.shape, FINE))
    mechanism.disclose(fine)
    message = set()
    for table in broken_tables():
        every: list[cg.Table | dict[str, cg.Table]] = [table]
        every += [{area: table if area == broken else fine for area in AREAS} for broken in AREAS]
        for tables in every:
            with pytest.raises(BrokenError) as caught:
                mechanism.disclose(tables)
            message.add(str(caught.value))
            assert not caught.value.__cause__
            found = cg.find_violations(mechanism, tables)
            assert BAD in {breach.value for breach in found} or 3 * FINE + BAD in {breach.value for breach in found}
            assert len({breach.area for breach in found}) == 1
    assert len(message) == 1
    assert not any(word in str(message) for word in ("Ermintrude", "Zebedee", "Dougal", "Florence", *AREAS))
    assert STATED[name][0].title in message.pop() or name in {"a limit", "a stated total"}


def test_commands_say_the_same_wherever_a_condition_is_broken(tmp_path: Path) -> None:
    """Every command that reads the data; the cell and the area are in a file for the curator alone."""
    (tmp_path / "spec.yaml").write_text(
        "release: t\ndata: {path: data.csv, kind: counts, count: n, status: simulated}\n"
        "dimensions:\n  sex: [Ermintrude, Zebedee]\n  age: [Dougal, Florence]\n"
        f"by: {{name: area, levels: [{', '.join(AREAS)}]}}\n"
        "budget: {epsilon: 1}\nconditions: [{bounds: all, at_most: 5}]\n",
        encoding="utf-8",
    )
    open_ledger(tmp_path / "budget.db", create=True).create_dataset("t", epsilon="4", neighbours="bounded", who="Ada")
    cells = [(a, s, y) for a in AREAS for s in PLACES.labels("sex") for y in PLACES.labels("age")]
    secret = tmp_path / "CONFIDENTIAL-broken-conditions-t.csv"
    lines = {
        "check": [],
        "plan": [],
        "release": ["--out", str(tmp_path / "out"), "--ledger", str(tmp_path / "budget.db"), "--who", "Ada", "--yes"],
        "simulate": ["--out", str(tmp_path / "simulated")],
        "compare": ["--releases", "2", "--method", "raw"],
        "study coverage": ["--releases", "1", "--draws", "10"],
    }
    for command, options in lines.items():
        message = set()
        for broken in (cells[0], cells[5], cells[-1]):
            rows = [",".join((*cell, str(BAD if cell == broken else FINE))) for cell in cells]
            (tmp_path / "data.csv").write_text("\n".join(["area,sex,age,n", *rows, ""]), encoding="utf-8")
            secret.unlink(missing_ok=True)
            done = CliRunner().invoke(main, [*command.split(), str(tmp_path / "spec.yaml"), *options])
            assert (done.exit_code, done.stdout) == (1, ""), done.output
            message.add(done.stderr)
            if command in {"check", "plan", "release", "simulate"}:
                area, sex, age = broken
                listed = f'{area},every cell is at least 0 and at most 5,"sex={sex}, age={age}",9,between 0 and 5'
                assert secret.read_text(encoding="utf-8").splitlines()[1:] == [listed]
                assert secret.stat().st_mode & 0o077 == 0
                assert secret.name in done.stderr
        assert len(message) == 1
        assert "«every cell is at least 0 and at most 5»" in message.pop()


def test_representations_of_laws_do_not_show_the_centre() -> None:
    law = MECHANISM.law(TABLE)
    small = SMALL.law(cg.Table(SCHEMA, [[2, 5], [4, 1]])).enumerated
    for text in (repr(law), repr(law.target), repr(MECHANISM), repr(small)):
        assert not any(str(canary) in text.replace(",", "") for canary in CANARIES)
    assert "5" not in repr(small)


def test_constraints_hold_nothing_but_the_invariants() -> None:
    constraints = SMALL.disclose(TABLE)
    text = repr(constraints) + repr(constraints.__dict__) + repr(constraints.cell_bounds)
    digits = text.replace(",", "")
    assert str(CANARIES[0] + CANARIES[1]) in digits  # the disclosed margin is public
    assert not any(str(canary) in digits for canary in CANARIES)


def test_plans_and_certificates_hold_nothing_but_the_invariants() -> None:
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells()], invariants=[cg.margin("sex")], epsilon="1")
    plan = mechanism.plan(mechanism.disclose(TABLE))
    together = cg.compose([plan, plan])
    shown = (plan, plan.neighbourhood, together, plan.explain())
    hidden = (
        plan,
        plan.structures[0].case,
        plan.law,
        plan.pricing,
        plan.certificate,
        plan.neighbourhood.pair,
        together,
    )
    text = "".join([*map(str, shown), *map(repr, hidden)])
    digits = text.replace(",", "")
    assert not any(str(canary) in digits for canary in CANARIES)


def test_the_canary_test_can_fail() -> None:
    """The mutant: a message that does name a count is caught."""
    with pytest.raises(cg.CongenialError) as caught:
        raise cg.CongenialError(f"count {CANARIES[0]:,} is wrong")
    assert str(CANARIES[0]) in str(caught.value).replace(",", "")
