"""Certificates of weighted zeros held against every pair of drawn systems: for the tests and for `make audit-zeros`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import log1p

from congenial.exact import double_above_exp
from congenial.privacy.weighted_zeros.group_cost import group_excess, lines_excess, pair_excess
from congenial.privacy.weighted_zeros.group_cost_given_total import total_excess
from weighted_systems import Group, Law, Weighted

ROUNDING = 1e-11
"""Of a difference of two logarithms of sums of positive doubles."""


def law(precision: str, share: str) -> Law:
    """Return a base and a weight, at least 1, of some share of the clamped one."""
    base = Fraction(double_above_exp(Fraction(precision)))
    return base, max(Fraction(1), Fraction(round(1000 * Fraction(share) / (1 - base)), 1000))


def laws(precisions: Sequence[str], shares: Sequence[str]) -> list[Law]:
    return [law(precision, share) for precision, share in product(precisions, shares)]


@cache
def excess_of(group: Group) -> dict[str, float]:
    """Return every certified excess of a group by its theorem."""
    n, base, weight = len(group.cells), group.base, group.weight
    if group.most is not None:
        return {"limited": float(1 - base**2)}
    found = {"lines": lines_excess(base, weight)}
    if n > 1 and (excess := group_excess(n, base, weight)) is not None:
        found["group"] = excess
    if n == 2 and group.is_total_fixed:
        found["total"] = pair_excess(base, weight)
    elif n > 1 and group.is_total_fixed and (excess := total_excess(n, base, weight)) is not None:
        found["total"] = excess
    return {name: float(value) for name, value in found.items()}


@dataclass
class Tally:
    """How many pairs were held against each theorem, and the largest share of its bound that one reached."""

    systems: int = 0
    pairs: Counter[str] = field(default_factory=Counter)
    largest: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, grown: float, bound: float) -> None:
        assert grown <= bound + ROUNDING, f"{name}: a ratio of normalisers of exp({grown}), certified exp({bound})"
        self.pairs[name] += 1
        if bound > 1e-6:
            self.largest[name] = max(self.largest.get(name, 0.0), grown / bound)


def audit(systems: Iterable[Weighted]) -> Tally:
    """Hold every ordered pair of neighbours, and of tables several records apart, against its certificates."""
    tally = Tally()
    for system in systems:
        tally.systems += 1
        logs = system.log_normalisers
        bounds = [excess_of(replace(group, cells=tuple(range(len(group.cells))))) for group in system.groups]
        for s, other, number in system.neighbours():
            for name, excess in bounds[number].items():
                tally.add(name, float(logs[other] - logs[s]), log1p(excess))
        best = [log1p(min(bound.values())) for bound in bounds]
        for s, other, records in system.several():
            most = sum(k * excess for k, excess in zip(records, best, strict=True))
            tally.add("several records", float(logs[other] - logs[s]), most)
    return tally
