"""Small systems, each chosen for a bug that it reveals."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property

import congenial as cg
from congenial.conditions.areas_and_bounds import Areas
from congenial.law import MeasuredQuery, PublicLaw
from congenial.noise import FAMILIES
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.sampling.target_and_system import Target

AGES = ["a", "b", "c", "d"]
LINE = cg.Schema({"age": AGES})
SQUARE = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
THREE = cg.Schema({"row": ["1", "2", "3"], "column": ["x", "y", "z"]})
CUBE = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"], "area": ["n", "s"]})
TALL = cg.Schema({"sex": ["f", "m"], "age": ["0", "1", "2", "3"]})


@dataclass(frozen=True)
class System:
    """A law and the defect that it would show."""

    defect: str
    target: Target

    @cached_property
    def law(self) -> EnumeratedLaw:
        return EnumeratedLaw.of(self.target)

    @property
    def public(self) -> PublicLaw:
        """The law without its centre."""
        queries = tuple(
            MeasuredQuery(one.row.name, one.noise.precision, (one.row,), one.zero_weight)
            for one in self.target.measured
        )
        constraints, noise = self.target.constraints, self.target.measured[0].noise.family
        return PublicLaw(constraints.schema, noise, queries, Areas.one(constraints))

    def with_precision(self, factor: str) -> Target:
        """Return the mutant whose noise is off by a factor."""
        from fractions import Fraction

        mutated = tuple(
            replace(one, noise=FAMILIES[one.noise.family](one.noise.precision * Fraction(factor)))
            for one in self.target.measured
        )
        return replace(self.target, measured=mutated)


def _system(defect: str, schema: cg.Schema, counts: object, **mechanism: object) -> Callable[[], System]:
    @cache  # every table of a law is listed once
    def make() -> System:
        law = cg.Mechanism(schema, **mechanism).law(cg.Table(schema, counts))  # type: ignore[arg-type]
        return System(defect, law.target)

    return make


def _cells(precision: str = "1") -> list[object]:
    return [cg.cells(precision=precision)]


SYSTEMS: dict[str, Callable[[], System]] = {
    "asymmetric centre": _system(
        "noise mirrored, or cut at zero on the wrong side",
        LINE,
        [0, 1, 6, 2],
        measure=_cells("1/2"),
        invariants=[cg.total()],
    ),
    "tight bounds": _system(
        "an upper bound off by one", LINE, [3, 3, 0, 1], measure=_cells(), invariants=[cg.total(), cg.bounds(0, 3)]
    ),
    "structural zero": _system(
        "a zero cell that gets noise",
        SQUARE,
        [[0, 4], [3, 2]],
        measure=_cells(),
        invariants=[cg.total(), cg.structural_zeros({"sex": "f", "age": "y"})],
    ),
    "one table": _system(
        "a singleton that is missed",
        SQUARE,
        [[0, 0], [0, 5]],
        measure=_cells(),
        invariants=[cg.margin("sex"), cg.margin("age")],
    ),
    "mixed signs": _system(
        "a negative weight read as positive",
        LINE,
        [3, 4, 1, 2],
        measure=_cells(),
        invariants=[cg.linear({"a": 2, "b": -1, "c": 1}), cg.bounds(0, 9)],
    ),
    "crossing margins": _system(
        "rows treated as independent",
        THREE,
        [[2, 0, 1], [1, 2, 0], [0, 1, 3]],
        measure=_cells("2"),
        invariants=[cg.margin("row"), cg.margin("column")],
    ),
    "empty interior": _system(
        "inequalities that together are an equality",
        LINE,
        [2, 2, 1, 3],
        measure=_cells(),
        invariants=[
            cg.total(),
            cg.linear({"a": 1, "b": -1}, at_least=0),
            cg.linear({"b": 1, "a": -1}, at_least=0),
        ],
    ),
    "soft margin": _system(
        "a measured total that is left out or made hard",
        SQUARE,
        [[1, 3], [2, 0]],
        measure=[cg.cells(precision="1"), cg.margin("sex", precision="1/2")],
        invariants=[cg.total(), cg.bounds(0, 6)],
    ),
    "uneven precisions": _system(
        "one precision used for all cells",
        LINE,
        [4, 0, 2, 1],
        measure=[cg.cells({"age": ["a", "b"]}, precision="1/2"), cg.cells({"age": ["c", "d"]}, precision="2")],
        invariants=[cg.total()],
    ),
    "range row": _system(
        "a limit of a sum that is ignored",
        LINE,
        [1, 2, 3, 0],
        measure=_cells(),
        invariants=[cg.total({"age": ["a", "b"]}, at_least=2, at_most=4), cg.bounds(0, 5)],
    ),
    "weighted row": _system(
        "a determinant other than one: proposals that are no integers",
        LINE,
        [5, 6, 7, 6],
        measure=_cells(),
        invariants=[cg.linear({"a": 2, "b": 3, "c": 1}), cg.linear({"c": 2, "d": 2, "a": 1})],
    ),
    "Gaussian noise": _system(
        "absolute deviations where squares belong",
        LINE,
        [0, 5, 2, 2],
        measure=_cells("1/2"),
        invariants=[cg.total()],
        noise="discrete_gaussian",
    ),
    "three-way": _system(
        "an odd lattice step of a cube",
        CUBE,
        [[[2, 1], [1, 3]], [[1, 2], [3, 1]]],
        measure=_cells("1/4"),
        invariants=[cg.margin("sex", "age"), cg.margin("sex", "area"), cg.margin("age", "area")],
    ),
    "unmeasured cells": _system(
        "cells without noise that are kept at the confidential value",
        SQUARE,
        [[1, 2], [2, 1]],
        measure=[cg.margin("sex", precision="1")],
        invariants=[cg.total(), cg.bounds(0, 4)],
    ),
    "small P12": _system(
        "a share and a group total that overlap",
        TALL,
        [[1, 0, 2, 1], [0, 2, 1, 1]],
        measure=_cells("2"),
        invariants=[cg.total(), cg.share({"sex": "f"}), cg.total({"age": ["2", "3"]})],
    ),
    "even steps": _system(
        "gaps between feasible values",
        LINE,
        [4, 2, 1, 0],
        measure=_cells("1/2"),
        invariants=[cg.linear({"a": 1, "b": 2}), cg.bounds(0, 8)],
    ),
}


def _weighted(zeros: str, precision: str = "1/2") -> list[object]:
    return [cg.cells(precision=precision, zeros=zeros)]


WEIGHTED: dict[str, Callable[[], System]] = {
    "one total": _system(
        "a weight of the wrong cell", LINE, [0, 1, 6, 2], measure=_weighted("5/2"), invariants=[cg.total()]
    ),
    "nothing but zeros": _system(
        "a weight that is counted once for several cells",
        LINE,
        [0, 5, 0, 0],
        measure=_weighted("4"),
        invariants=[cg.total()],
    ),
    "two groups": _system(
        "weights of one group used in the other",
        TALL,
        [[1, 0, 2, 0], [0, 2, 0, 1]],
        measure=[
            cg.cells({"age": ["0", "1"]}, precision="1", zeros="3/2"),
            cg.cells({"age": ["2", "3"]}, precision="2", zeros="7"),
        ],
        invariants=[cg.total({"age": ["0", "1"]}), cg.total()],
    ),
    "a lower limit of two": _system(
        "a weight of zero where the lower limit is another number",
        LINE,
        [2, 3, 5, 2],
        measure=_weighted("3"),
        invariants=[cg.total(), cg.bounds(2)],
    ),
    "upper limits": _system(
        "a weight of the upper limit",
        LINE,
        [0, 1, 3, 2],
        measure=_weighted("3"),
        invariants=[cg.total(), cg.bounds(0, 3)],
    ),
    "cells without a lower limit": _system(
        "a weight of zero that nothing ends at",
        LINE,
        [0, 1, 3, 2],
        measure=_weighted("3"),
        invariants=[cg.total(), cg.bounds(None, 5)],
    ),
    "a measured sum": _system(
        "weights that a measured row drops",
        SQUARE,
        [[1, 3], [2, 0]],
        measure=[cg.cells(precision="1", zeros="3"), cg.margin("sex", precision="1/2")],
        invariants=[cg.total(), cg.bounds(0, 6)],
    ),
    "crossing margins": _system(
        "weights that a merge drops",
        THREE,
        [[2, 0, 1], [1, 2, 0], [0, 1, 3]],
        measure=_weighted("2", "1"),
        invariants=[cg.margin("row"), cg.margin("column")],
    ),
}
"""Laws whose lower limits are weighted."""
