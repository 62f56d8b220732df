"""Plausible mistakes at every entrance get a clear error of the package, not a traceback of something inside."""

import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import congenial as cg
from congenial.conditions.base import Condition
from congenial.conditions.rows_and_intervals import Interval, Row
from congenial.errors import ClashError
from congenial.sampling.enumeration import enumerate_tables
from congenial.study import independence_and_rejection_samplers as independence
from congenial.study import independence_and_rejection_samplers as rejection

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
LINE = cg.Schema({"age": ["a", "b"]})
TABLE = cg.Table(SCHEMA, [[1, 2], [3, 4]])
CELLS = cg.cells(precision="1")
LAW = cg.Mechanism(SCHEMA, measure=[CELLS], invariants=[cg.total()]).law(TABLE)

MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "one query for a list": (lambda: cg.Mechanism(SCHEMA, measure=CELLS), "takes a list: write"),  # type: ignore[arg-type]
    "one invariant": (lambda: cg.Mechanism(SCHEMA, measure=[CELLS], invariants=cg.total()), "takes a list"),  # type: ignore[arg-type]
    "one condition": (lambda: cg.Constraints.of(SCHEMA, cg.total(equals=1)), "takes a list"),  # type: ignore[arg-type]
    "text as where": (lambda: cg.total("f"), "where is a mapping"),  # type: ignore[arg-type]
    "number as label": (lambda: cg.total({"age": 5}), "needs a label or a list"),  # type: ignore[dict-item]
    "numbers as labels": (lambda: cg.total({"age": [5, 6]}), 'write "5"'),  # type: ignore[list-item]
    "of as text": (lambda: cg.share({"sex": "f"}, of="age"), "where is a mapping"),  # type: ignore[arg-type]
    "zeros by number": (lambda: cg.structural_zeros({"age": 3}), "needs a label"),  # type: ignore[dict-item]
    "margin of a list": (lambda: cg.margin(["sex", "age"]), "write margin"),  # type: ignore[arg-type]
    "linear by number": (lambda: cg.Constraints.of(LINE, [cg.linear({5: 1}, equals=1)]), "named by its labels"),
    "margin transposed": (
        lambda: cg.Constraints.of(
            cg.Schema({"s": ["1", "2"], "a": ["1", "2", "3"]}), [cg.margin("s", "a", equals=np.ones((3, 2), int))]
        ),
        "shape",
    ),
    "no schema": (lambda: cg.Mechanism("x", measure=[CELLS]), "needs a Schema"),  # type: ignore[arg-type]
    "set of labels": (lambda: cg.Schema({"sex": {"f", "m"}}), "in their order"),  # type: ignore[dict-item]
    "set of counts": (lambda: cg.Table(LINE, {2, 3}), "not a set"),
    "huge limit": (lambda: cg.bounds(0, 10**20), "beyond 2\\^60"),
    "huge total": (lambda: cg.total(at_most=10**400), "beyond 2\\^60"),
    "numpy generator": (lambda: LAW.sample(2, np.random.default_rng(1)), "replay_rng"),  # type: ignore[arg-type]
    "seed for rng": (lambda: LAW.sample(2, 7), "replay_rng"),  # type: ignore[arg-type]
    "half a draw": (lambda: LAW.sample(2.0), "whole number"),  # type: ignore[arg-type]
    "minus one draw": (lambda: LAW.sample(-1), "whole number"),
    "no rejection draw": (lambda: rejection.rejection_sample(LAW.target, 0, cg.replay_rng(1)), "from 1 on"),
    "flat proposal": (
        lambda: independence.sample(LAW.target, 1, cg.replay_rng(1), proposal_precision="1/1000000000000"),
        "too flat",
    ),
    "frame with numbers for names": (
        lambda: cg.Table(LINE, pd.DataFrame({"age": ["a", "b"], 1: [1, 2]})),
        "must be text",
    ),
    "frame with equal names": (
        lambda: cg.Table(LINE, pd.DataFrame([["a", 1, 1], ["b", 2, 2]], columns=["age", "n", "n"])),
        "cannot be read",
    ),
    "far deviation": (lambda: cg.noise.DoubleGeometric("1").pmf([float("inf")]), "2\\^60"),
    "unsigned deviation": (lambda: cg.noise.DoubleGeometric("1").pmf(np.array([2**64 - 1], np.uint64)), "2\\^60"),
    "foreign zero": (lambda: cg.cells(precision="1/\u0966"), "a number such as"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_get_a_clear_error(mistake: str) -> None:
    call, words = MISTAKES[mistake]
    with pytest.raises(cg.CongenialError, match=words):
        call()


def test_large_weights_do_not_wrap_around() -> None:
    balance = cg.Constraints.of(LINE, [cg.linear({"a": 2**31, "b": -1}, equals=0)])
    assert not balance.holds([2**33, 0])
    assert balance.holds([2**20, 2**51])
    mechanism = cg.Mechanism(LINE, measure=[CELLS], invariants=[cg.linear({"a": 2048, "b": 1})])
    law = mechanism.law(cg.Table(LINE, [2**52, 0]))
    assert law.target.constraints.holds([2**52, 0])


def test_gaussian_weights_do_not_wrap_around() -> None:
    noise = cg.noise.DiscreteGaussian("1")
    assert noise.pmf([2**32]) == 0

    def law(weight: int) -> cg.Law:
        return cg.Mechanism(
            LINE,
            measure=[cg.linear({"a": weight}, precision="1"), cg.cells({"age": "b"}, precision="1/1000")],
            invariants=[cg.linear({"a": 1, "b": 2}), cg.bounds(0, 8)],
            noise="discrete_gaussian",
        ).law(cg.Table(LINE, [4, 2]))

    steep = law(20).enumerated
    assert float(steep.probabilities[steep.position([[4, 2]])[0]]) == 1.0
    for weight in (2**20, 2**31):
        with pytest.raises(cg.errors.TooLargeError):
            law(weight).sample(1)


def test_rows_divided_by_a_common_factor_say_so() -> None:
    constraints = cg.Constraints.of(LINE, [cg.linear({"a": 10, "b": 20}, at_most=105, name="weekly benefit")])
    assert constraints.rows[0].text == "1/10 of [weekly benefit] is at most 10"
    assert constraints.violations([1, 9]) == ["1/10 of [weekly benefit] is 19, and must be at most 10"]


def test_draws_may_be_any_integers() -> None:
    exact = LAW.log_probability(np.array([[1, 2, 3, 4]]))
    assert LAW.log_probability(np.array([[1, 2, 3, 4]], np.int32)) == exact
    with pytest.raises(cg.CongenialError, match=r"\(draw, 4\)"):
        LAW.log_probability([[1, 2, 3]])


def test_an_enumerated_law_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        LAW.enumerated.tables[:] = 0


def test_a_where_that_can_be_read_once_is_kept() -> None:
    once = cg.total({"age": (label for label in ["y"])})
    mechanism = cg.Mechanism(SCHEMA, measure=[CELLS], invariants=[once])
    assert mechanism.disclose(TABLE).rows[0].lower == 4


def test_numpy_numbers_are_exact_numbers() -> None:
    assert cg.cells(precision=np.int64(2)).precision == Fraction(2)
    assert cg.noise.DoubleGeometric(cg.cells(precision=np.int64(1)).precision).base < 1  # type: ignore[arg-type]


def test_clashes_travel_between_processes() -> None:
    clash = pickle.loads(pickle.dumps(ClashError("m", ("a", "b"), is_irreducible=True)))
    assert (clash.clash, clash.is_irreducible, str(clash)) == (("a", "b"), True, "m")


def test_hard_stated_conditions_are_left_to_the_table() -> None:
    """Twenty 0/1 cells under three weighted rows: too hard to decide alone, no matter once a table is there."""
    schema = cg.Schema({"c": [f"c{i}" for i in range(20)]})
    stream = cg.replay_rng("hard")
    counts = stream.below(np.full(20, 2)).tolist()
    weights = stream.below(np.full((3, 20), 100)).tolist()
    rows = [cg.linear(w, equals=sum(a * b for a, b in zip(w, counts, strict=True))) for w in weights]
    mechanism = cg.Mechanism(schema, measure=[CELLS], invariants=[*rows, cg.bounds(0, 1)])
    assert mechanism.disclose(cg.Table(schema, counts)).holds(counts)


def test_runaway_limits_are_seen_as_empty() -> None:
    schema = cg.Schema({"c": ["c0", "c1"]})
    conditions: list[Condition] = [
        cg.bounds(None, where={"c": "c0"}),
        cg.total(equals=-6),
        cg.linear({"c0": 4, "c1": 1}, at_least=3),
    ]
    with pytest.raises(ClashError):
        cg.Constraints.of(schema, conditions)


def test_too_many_beginnings_is_not_a_count_of_tables() -> None:
    """A subset sum with hardly any solution: its dead ends are many, and must not be called tables."""
    schema = cg.Schema({"c": [f"c{i}" for i in range(24)]})
    weights = (10**6 + cg.replay_rng("subset sum").below(np.full(24, 10**6))).tolist()
    row = cg.linear(weights, equals=sum(weights[::2]))
    constraints = cg.Constraints(schema, tuple(row.limits(schema, None)), (Interval(0, 1),) * 24)
    constraints.__dict__["cell_bounds"] = constraints.quick_bounds  # the proven ones would take minutes here
    with pytest.raises(cg.errors.TooLargeError, match="beginnings of tables"):
        enumerate_tables(constraints, limit=1_000)


def test_threads_never_share_a_word() -> None:
    from concurrent.futures import ThreadPoolExecutor

    stream = cg.secure_rng()
    with ThreadPoolExecutor(4) as pool:
        words = np.concatenate(list(pool.map(lambda _: stream.words(5_000), range(400))))
    assert len(np.unique(words)) == len(words)


def test_rows_add_up_in_python_integers() -> None:
    assert Row("", (0, 1), (2**40, 1)).value([2**50, 1]) == 2**90 + 1
