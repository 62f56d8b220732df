"""A dry run: draws around made-up tables of each structure, before anything is charged and without any data."""

from collections.abc import Iterator
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from congenial.arrays import Ints
from congenial.decided_tables import check_noise, decide_tables, why_no_tables
from congenial.errors import CongenialError, SamplingError, UndecidedError
from congenial.law import check_invariants
from congenial.measurement import drawing_of
from congenial.progress_and_interrupts import DRY_RUN, Progress
from congenial.randomness import replay_rng

if TYPE_CHECKING:
    from congenial.plan import LevelDrawing, Plan

MOST_TRIED = 20_000
"""Leaves of a part of a tree on which its rule is tried."""

_NO_TABLE = "no table will be published, only measurements"
_FEW, _MANY = 2, 12  # areas of a group: where time is known from the structure, and elsewhere


def dry_run(plan: "Plan", progress: Progress) -> list[str]:
    """Refuse what cannot be drawn; return what trials promise, and why a rule makes no tables: see `Plan.dry_run`."""
    if plan.law.is_measured:
        plan.check_samplers()
        return _measured(plan, progress)
    if plan.law.exact_below:
        progress(DRY_RUN)
    coarsest = min(precision for precision in plan.law.precisions if precision)
    below = plan.law.below.dry_run(1 / sqrt(float(coarsest)))
    return [*_areas(plan, progress), *below]


def _areas(plan: "Plan", progress: Progress) -> list[str]:
    plan.check_samplers()
    out = []
    for group, sampler in zip(plan.law.areas.groups, plan.samplers, strict=True):
        if not sampler.has_predictable_time:
            progress(DRY_RUN)
        places = _places(group.values, _FEW if sampler.has_predictable_time else _MANY)
        labels = [plan.law.areas.labels[group.places[place]] for place in places]
        try:
            points = np.array([plan.law.areas[label].point for label in labels], np.int64)
        except UndecidedError:  # no table is known that obeys the conditions; the real one does
            if sampler.has_predictable_time:
                continue
            raise SamplingError(
                "no table that obeys the conditions was found within the search limit, so nobody knows how long a"
                " draw takes; leave out ranges or coefficients other than 1"
            ) from None
        out.append(sampler.dry_run(points))
        for label, point in zip(labels, points, strict=True):  # one table and many take other ways
            drawn = sampler.draw_each(np.stack([point] * min(2, len(group.places))), replay_rng("rehearsal"))
            check_invariants(plan.law.areas[label].holds(drawn))
    return [sentence for sentence in dict.fromkeys(out) if sentence]


def _measured(plan: "Plan", progress: Progress) -> list[str]:
    """Draw noise of every kind, and try the rule on made-up measurements around tables of the conditions."""
    if plan.law.is_tree:
        progress(DRY_RUN)
    out = [reason for reason in [why_no_tables(plan.law)] if reason]
    for level in plan.measured_levels:
        for number, places, points in check_measured_level(level):
            if not plan.law.is_tree:
                out += _try_rule(plan, places, points, number)
    if plan.law.is_tree and not out:
        out += _try_rule_of_tree(plan)
    return [f"{_NO_TABLE}: {reason}" for reason in dict.fromkeys(out)]


def check_measured_level(level: "LevelDrawing") -> Iterator[tuple[int, Ints, Ints]]:
    """Draw noise of every kind around tables of the conditions; give the kind, some of its units, and their tables."""
    areas = level.law.areas
    for number, kind in enumerate(level.drawing.kinds):
        kind.check()
        places = np.flatnonzero(level.numbers == number)[:_FEW]
        try:
            points = np.array([areas.at(place).point for place in places.tolist()], np.int64)
        except UndecidedError:  # no table is known that obeys the conditions; the real one does
            continue
        check_noise(level.law, kind, places, points, replay_rng("rehearsal"))
        yield number, places, points


def _try_rule(plan: "Plan", places: Ints, points: Ints, number: int) -> list[str]:
    """Decide tables around public ones (area, cell), and say what went wrong."""
    try:
        decided = plan.samplers[number].draw_each(points, replay_rng("rehearsal"))
    except (CongenialError, ArithmeticError) as refused:
        return [str(refused)]
    for place, table in zip(places.tolist(), decided, strict=True):
        check_invariants(plan.law.areas.at(place).holds(table))
    return []


def _try_rule_of_tree(plan: "Plan") -> list[str]:
    """Decide the tables of a part of the tree from noise alone: the rule gives it the exact numbers."""
    law, rng = plan.law.part_of_tree(MOST_TRIED), replay_rng("rehearsal")
    try:
        measured = [drawing_of(each) for each in law.measured_laws]
        noise = [
            drawing.draw(numbers, np.zeros((len(numbers), law.schema.n_cells), np.int64), rng)
            for drawing, numbers in measured
        ]
        tables = decide_tables(law, noise)
    except (CongenialError, ArithmeticError) as refused:
        return [str(refused)]
    check_invariants(law.areas.holds(tables[0]))
    if not law.below.hold(tables):
        raise SamplingError("internal: tables of the rule do not add up; nothing is charged, please report this")
    return []


def _places(values: Ints, n_areas: int) -> list[int]:
    """Return some areas of a group (area, equality) to draw around: of typical sizes, and the most uneven ones."""
    sizes = values.astype(np.float64).sum(axis=1)
    uneven = np.argsort(-values.max(axis=1, initial=0) / np.maximum(sizes, 1), kind="stable")
    ranked = np.argsort(sizes, kind="stable")
    typical = [ranked[len(ranked) // 2], ranked[-1]]
    both = [place for pair in zip(uneven[:n_areas], ranked[::-1][:n_areas], strict=True) for place in pair]
    return [int(place) for place in dict.fromkeys([*typical, *both])][:n_areas]
