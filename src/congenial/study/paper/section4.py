"""GM's section 4 as a computation: what is known of a projected release, and between which tables.

Three cells with a published total. The projection onto "sum n, nothing negative" is a fixed function between tables of
the same total, so there it keeps the noise's privacy; between tables of different totals the function itself changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import exp, inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.conditions.queries import cells, total
from congenial.mechanism import Mechanism
from congenial.schema import Schema
from congenial.study.exhibit import Exhibit, Finding, Grid
from congenial.table import Table

Cells = tuple[int, int, int]

PRECISION = "1/2"
TOTAL = 4
_REACH = 60  # noise beyond it has a chance below 4e-13 at precision 1/2, and moves no figure's tenth digit


def projected(answers: Ints, n: int) -> Ints:
    """Return the nearest nonnegative tables (line, cell) with sum n, in sixths, so that all is in whole numbers.

    The nearest table takes the same amount from every cell that stays positive. With the k largest cells positive the
    amount is ``(their sum - n) / k``, and k is the largest number for which the smallest of them stays above zero.
    """
    largest = -np.sort(-answers, axis=1)
    sums = np.cumsum(largest, axis=1)
    k = np.arange(1, 4)
    n_positive = (largest * k > sums - n).sum(axis=1)
    taken = (np.take_along_axis(sums, n_positive[:, None] - 1, axis=1)[:, 0] - n) * (6 // n_positive)
    return np.asarray(np.maximum(6 * answers - taken[:, None], 0))


@dataclass(frozen=True)
class ProjectedLaws:
    """The laws of the projected release of every table with sum `n`: outcomes in sixths, and where each answer goes."""

    n: int
    precision: float

    @cached_property
    def _grid(self) -> Ints:
        return np.arange(-_REACH, _REACH + self.n + 1)

    @cached_property
    def _outcomes(self) -> tuple[Ints, NDArray[np.intp]]:
        grid = self._grid
        answers = np.stack(np.meshgrid(grid, grid, grid, indexing="ij"), axis=-1).reshape(-1, 3)
        tables = projected(answers, self.n)
        keys = (tables[:, 0] * 1_000 + tables[:, 1]) * 1_000 + tables[:, 2]
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        return tables[first], which

    def joint(self, confidential: Cells) -> dict[Cells, float]:
        """Return the chance of every projected table."""
        base = exp(-self.precision)
        chances = [(1 - base) / (1 + base) * base ** np.abs(self._grid - count) for count in confidential]
        weights = (chances[0][:, None, None] * chances[1][None, :, None] * chances[2][None, None, :]).reshape(-1)
        tables, which = self._outcomes
        mass = np.bincount(which, weights)
        return {(int(a), int(b), int(c)): float(m) for (a, b, c), m in zip(tables, mass, strict=True)}


def log_ratio(first: Mapping[Any, float], second: Mapping[Any, float]) -> float:
    """Return the largest log ratio of two laws; infinite if the first can give what the second cannot."""
    return max(log(mass / second[key]) if second.get(key) else inf for key, mass in first.items() if mass)


def tables_with(n: int) -> list[Cells]:
    """Return all tables of three cells with sum n."""
    return [(a, b, n - a - b) for a, b in product(range(n + 1), repeat=2) if a + b <= n]


def _neighbours(first: list[Cells], second: list[Cells], apart: int) -> Iterator[tuple[Cells, Cells]]:
    for s, t in product(first, second):
        if sum(abs(a - b) for a, b in zip(s, t, strict=True)) == apart:
            yield s, t


def worst_ratios(n: int = TOTAL) -> dict[str, float]:
    """Return the worst log ratios of the projected and of the conditional release.

    Within one total a pair is one changed record apart; across totals one record more or less.
    """
    precision = 0.5
    here, there = tables_with(n), tables_with(n + 1)
    laws, more = ProjectedLaws(n, precision), ProjectedLaws(n + 1, precision)
    joint = {s: laws.joint(s) for s in here}
    joint_more = {s: more.joint(s) for s in there}
    cell_laws = {s: first_cell(law) for s, law in joint.items()}
    other = {s: first_cell(law) for s, law in joint_more.items()}
    conditional = {s: _conditional(s) for s in (*here, *there)}
    alone = {s: first_cell(law) for s, law in conditional.items()}
    return {
        "projected, same total": max(log_ratio(joint[s], joint[t]) for s, t in _neighbours(here, here, 2)),
        "conditional, same total": max(
            log_ratio(conditional[s], conditional[t]) for s, t in _neighbours(here, here, 2)
        ),
        "projected, other total": max(log_ratio(joint[s], joint_more[t]) for s, t in _neighbours(here, there, 1)),
        "conditional, other total": max(
            log_ratio(conditional[s], conditional[t]) for s, t in _neighbours(here, there, 1)
        ),
        "projected, other total, first cell only": max(
            log_ratio(cell_laws[s], other[t]) for s, t in _neighbours(here, there, 1)
        ),
        "conditional, other total, first cell only": max(
            log_ratio(alone[s], alone[t]) for s, t in _neighbours(here, there, 1)
        ),
        "raw, other total, first cell only": precision,
    }


def _mechanism() -> tuple[Schema, Mechanism]:
    schema = Schema({"cell": ["first", "second", "third"]})
    return schema, Mechanism(schema, measure=[cells(precision=PRECISION)], invariants=[total()])


def _conditional(confidential: Cells) -> dict[Cells, float]:
    schema, mechanism = _mechanism()
    law = mechanism.law(Table(schema, list(confidential))).enumerated
    pairs = zip(law.tables.tolist(), law.probabilities, strict=True)
    return {(table[0], table[1], table[2]): float(chance) for table, chance in pairs}


def first_cell(law: dict[Cells, float]) -> dict[int, float]:
    """Return the law of the first cell alone."""
    out: dict[int, float] = {}
    for table, mass in law.items():
        out[table[0]] = out.get(table[0], 0.0) + mass
    return out


def section_4() -> Exhibit:
    """Return when "post-processing is free" applies, and when it does not."""
    found = worst_ratios()
    schema, mechanism = _mechanism()
    certified = mechanism.plan(mechanism.disclose(Table(schema, [TOTAL, 0, 0]))).certificate.loss
    notes = {
        "projected, same total": "post-processing applies: at most the noise's own D = 1",
        "conditional, same total": f"its certificate says at most {float(certified or 0):.4f}",
        "projected, other total": "the release tells its total: nothing is kept of the noise's promise",
        "conditional, other total": "the same: an invariant is published, not protected",
        "projected, other total, first cell only": "more than raw noise gives for the same cell, although the total is"
        " not even looked at",
        "conditional, other total, first cell only": "for comparison; the certificate does not speak of such pairs",
        "raw, other total, first cell only": "the noise's precision",
    }
    findings = tuple(Finding("section 4", what, value, note=notes[what]) for what, value in found.items())
    rows = (
        ("same total, one record changed", "projected, same total", "conditional, same total", "1"),
        ("one record more", "projected, other total", "conditional, other total", "0.5"),
        (
            "one record more, first cell only, one way",
            "projected, other total, first cell only",
            "conditional, other total, first cell only",
            "0.5",
        ),
    )
    grid = Grid(
        "Worst log ratio of the release's law between two tables",
        ("pairs", "projected", "conditional", "raw noise"),
        tuple((name, _text(found[p]), _text(found[c]), raw) for name, p, c, raw in rows),
    )
    return Exhibit(
        "section-4",
        "Section 4: is post-processing innocent?",
        (
            f"Three cells, a published total of {TOTAL}, Double Geometric noise of precision {PRECISION} on each cell."
            " The laws of the projected and of the conditional release are computed in full, for every table.",
            "Between tables that share the total, the projection is one fixed function of the noisy cells, so it can"
            " only lose information: post-processing is free there. Between tables whose totals differ, the curator"
            " projects onto different sets. Nobody but the curator could do that, the theorem does not apply, and the"
            " ratio is unbounded: an outcome with sum 4 cannot come from a table with sum 5. Both methods publish the"
            " total, so neither protects it.",
            "Even a reader who looks at the first cell only, and never at the total, learns more than the noise on that"
            " cell allows: the total has leaked into it. A statement about privacy with invariants is a statement about"
            " tables that share them; congenial's certificates say so.",
        ),
        findings,
        grids=(grid,),
    )


def _text(value: float) -> str:
    return "infinite" if value == inf else f"{value:.4f}"
