"""What measured trees cost: all units of all levels measured, noises independent: docs/claims/measured-trees.md."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import floor, isqrt

from congenial.conditions.rows_and_intervals import Row
from congenial.errors import PrivacyError
from congenial.exact import exact_fraction
from congenial.noise import FAMILIES, Noise
from congenial.privacy import check_relation
from congenial.privacy.bounds_and_enumerated_losses import DIGITS, rounded_down
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import Certificate, shown
from congenial.privacy.record_changes_in_trees import Counts, SingleChanges, TreeChange, rows_follow
from congenial.privacy.tree_loss import checked_shares, total_rho

_KINDS = {1: "measured_tree_double_geometric", 2: "measured_tree_gaussian"}
_PROVEN = {(1, "epsilon"), (2, "rho")}


@dataclass(frozen=True)
class MeasuredLevel:
    """What is measured and what is exact in every unit of a level.

    Attributes
    ----------
    queries : tuple of (Fraction, tuple of Row)
        The rows of each measured query, over the cells of a unit, with their precision.
    exact : tuple of Row
        The exact numbers of every unit.
    """

    name: str
    queries: tuple[tuple[Fraction, tuple[Row, ...]], ...]
    exact: tuple[Row, ...] = ()


@dataclass(frozen=True)
class MeasuredTree:
    """Everything that a certificate of a measured tree depends on. Public.

    Attributes
    ----------
    levels : tuple of MeasuredLevel
        From the top down. What is exact at a level is so at all levels above, listed there or not.
    noise : str
        The family of the noise.
    partings : tuple of int, optional
        The levels at which two leaves can part: at the top where it has several units, at others where some unit above
        has several children. All levels unless given, which is safe.
    empty_cells : frozenset of int
        Cells that are structural zeros of every leaf.
    across : MeasuredLevel, optional
        What is measured of areas that cross the tree, each of some leaves, of which a leaf is in one at most. What is
        exact in their units is what is exact in leaves.
    crossings : tuple of int, optional
        The levels at which two leaves can part that are in different ones of these areas, or one of them in none. All
        levels unless given, which is safe.

    Examples
    --------
    >>> cells = tuple(Row.of(f"cell {cell}", [cell]) for cell in range(3))
    >>> total = Row.of("total", range(3))
    >>> half = Fraction(1, 2)
    >>> state = MeasuredLevel("state", ((half, cells),), (total,))
    >>> tree = MeasuredTree((state, MeasuredLevel("county", ((half, cells),))), 3, "double_geometric", partings=(1,))
    >>> measured_tree_certificate(tree).loss
    Fraction(2, 1)
    """

    levels: tuple[MeasuredLevel, ...]
    n_cells: int
    noise: str
    neighbours: str = "bounded"
    partings: tuple[int, ...] | None = None
    empty_cells: frozenset[int] = frozenset()
    across: MeasuredLevel | None = None
    crossings: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_relation(self.neighbours)
        family = self.family
        if (family.exponent, family.currency) not in _PROVEN or not family.is_for_release:
            raise PrivacyError(f"no theorem here covers measured trees under {family.title} noise")
        for level in self.measured:
            if any(precision < 0 for precision, _ in level.queries):
                raise PrivacyError(f"a precision of {level.name} is negative; 0 is not measured")
            rows = [*level.exact, *(row for _, query in level.queries for row in query)]
            if any(not 0 <= cell < self.n_cells for row in rows for cell in row.cells):
                raise PrivacyError(f"a row of {level.name} is not one over {self.n_cells:,} cells")
        if len(self.empty_cells) >= self.n_cells:
            raise PrivacyError("every cell is a structural zero of every leaf: there is nothing to measure")
        if not self.levels or not set(self.partings or ()) <= set(range(len(self.levels))):
            raise PrivacyError(f"leaves part at levels 0 to {len(self.levels) - 1}, not at {self.partings}")

    @property
    def measured(self) -> tuple[MeasuredLevel, ...]:
        """All that is measured: the levels, and the areas that cross the tree."""
        return self.levels if self.across is None else (*self.levels, self.across)

    @property
    def family(self) -> type[Noise]:
        """The family of the noise."""
        if self.noise not in FAMILIES:
            raise PrivacyError(f"noise {self.noise!r} is not known; there is {', '.join(FAMILIES)}")
        return FAMILIES[self.noise]

    @property
    def exponent(self) -> int:
        """The power of the deviation with which weights fall: 1 or 2."""
        return self.family.exponent

    @property
    def precisions(self) -> tuple[Fraction, ...]:
        """The precisions of all queries, one level after the other."""
        return tuple(precision for level in self.measured for precision, _ in level.queries)

    def with_precisions(self, precisions: Sequence[Sequence[Fraction]]) -> "MeasuredTree":
        """Return the same with other precisions, by level and query."""
        levels = tuple(
            replace(level, queries=tuple((p, rows) for p, (_, rows) in zip(of_level, level.queries, strict=True)))
            for of_level, level in zip(precisions, self.measured, strict=True)
        )
        n_levels = len(self.levels)
        tree = replace(self, levels=levels[:n_levels], across=levels[n_levels] if self.across else None)
        tree.__dict__["changes"] = self.changes  # they do not depend on precisions
        return tree

    def exact_at(self, level: int) -> tuple[Row, ...]:
        """Return what is exact in every unit of a level, with what follows from the levels below.

        In areas that cross the tree, which come after the last level, that is what is exact in every leaf.
        """
        first = min(level, len(self.levels) - 1)
        rows = {(r.cells, r.coefficients): r for lower in reversed(self.levels[first:]) for r in lower.exact}
        return tuple(rows.values())

    @cached_property
    def determined(self) -> tuple[tuple[bool, ...], ...]:
        """Which queries, by level, the exact numbers of the same level determine: they cost nothing and tell nothing.

        Examples
        --------
        >>> total, part = Row.of("total", [0, 1]), Row.of("part", [0])
        >>> level = MeasuredLevel("state", ((Fraction(1), (total,)), (Fraction(1), (total, part))), (total,))
        >>> MeasuredTree((level,), 2, "discrete_gaussian").determined
        ((True, False),)
        """
        out = []
        for number, level in enumerate(self.measured):
            exact = self.exact_at(number)
            out.append(tuple(all(rows_follow(exact, query, self.empty_cells)) for _, query in level.queries))
        return tuple(out)

    @property
    def charged_precisions(self) -> tuple[Fraction, ...]:
        """The same, 0 for queries that the exact numbers determine: no pair of trees differs in their rows."""
        idle = (is_idle for of_level in self.determined for is_idle in of_level)
        return tuple(Fraction(0) if is_idle else p for p, is_idle in zip(self.precisions, idle, strict=True))

    @cached_property
    def levels_with_totals(self) -> int:
        """How many levels, from the top, have units whose numbers of records are exact."""
        total = Row.of("total", range(self.n_cells))
        fixed = [rows_follow(self.exact_at(n), [total], self.empty_cells)[0] for n in range(len(self.levels))]
        return max((number + 1 for number, is_fixed in enumerate(fixed) if is_fixed), default=0)

    @cached_property
    def changes(self) -> "SingleChanges":
        """What one record can change."""
        every = tuple(range(len(self.levels)))
        partings = every if self.partings is None else self.partings
        rows = tuple(tuple(query for _, query in level.queries) for level in self.measured)
        exact = tuple(level.exact for level in self.levels)
        facts = (tuple(sorted(partings)), self.empty_cells, self.exponent)
        crossings = every if self.crossings is None else self.crossings
        return SingleChanges(self.n_cells, rows, exact, *facts, () if self.across is None else crossings)

    def check_noise(self, conditioned: Sequence[Sequence[Row]]) -> None:
        """Refuse noise of units that keeps a number, by level, which is not exact in the units of that level.

        Examples
        --------
        >>> total = Row.of("total", [0, 1])
        >>> levels = MeasuredLevel("state", (), (total,)), MeasuredLevel("county", ())
        >>> tree = MeasuredTree(levels, 2, "discrete_gaussian")
        >>> tree.check_noise([[total], []])
        >>> tree.check_noise([[total], [total]])
        Traceback (most recent call last):
        congenial.errors.PrivacyError: internal: noise of county is conditioned on total, which is not exact there
        """
        for number, (level, rows) in enumerate(zip(self.measured, conditioned, strict=True)):
            for row, is_exact in zip(rows, rows_follow(self.exact_at(number), rows, self.empty_cells), strict=True):
                if not is_exact:
                    raise PrivacyError(
                        f"internal: noise of {level.name} is conditioned on {row.name}, which is not exact there"
                    )


def _cost(counts: Counts, precisions: Sequence[Fraction], power: int) -> Fraction:
    return sum((p * n for p, n in zip(precisions, counts, strict=True) if n and p), Fraction(0)) / power


def _dearest(
    changes: Mapping[Counts, TreeChange], precisions: Sequence[Fraction], power: int
) -> tuple[Fraction, TreeChange | None]:
    costs = ((_cost(counts, precisions, power), change) for counts, change in changes.items())
    return max(costs, key=lambda pair: pair[0], default=(Fraction(0), None))


def distance_of_change(tree: MeasuredTree, change: TreeChange) -> Fraction:
    """Return ``sum e_r |q_r(z)|``, or ``sum e_r q_r(z)^2 / 2``, of one change over all levels, row by row."""
    total = Fraction(0)
    for number, level in enumerate(tree.measured):
        for unit in change.at(number) if number < len(tree.levels) else change.across:
            for precision, rows in level.queries:
                for row in rows:
                    value = sum(row.terms.get(cell, 0) * size for cell, size in unit.items())
                    total += precision * abs(value) ** tree.exponent
    return total / tree.exponent


# Certificates.


def measured_tree_certificate(
    tree: MeasuredTree, k: int = 1, *, cell_name: Callable[[int], str] | None = None
) -> Certificate:
    """Return what a measured tree costs at most, for pairs at most `k` records apart.

    Parameters
    ----------
    k : int
        The fewest records in which two trees with the same exact numbers differ (`PublicTree.fewest_records`), times
        the records of a unit; a larger one covers more.
    cell_name : callable, optional
        The name of a cell, for people.

    Examples
    --------
    >>> cells = tuple(Row.of(f"cell {cell}", [cell]) for cell in range(2))
    >>> state, county = (MeasuredLevel(name, ((Fraction(1, 4), cells),)) for name in ("state", "county"))
    >>> print(measured_tree_certificate(MeasuredTree((state, county), 2, "discrete_gaussian", partings=(1,))))
    measured_tree_gaussian: at most rho 0.5 (epsilon 6.859 at delta 1e-10), bounded neighbours, one record changed
      2 levels measured, the noise of each independent: losses add up to rho = 0.5, at all orders
      charged: one record from cell 0 of a leaf to cell 1 of a leaf in another county, rho = 0.5; exact numbers stay
      proof and audit: docs/claims/measured-trees.md
    """
    power, zero = tree.exponent, Fraction(0)
    if not any(tree.precisions):
        why = "nothing but the exact numbers is released, which they disclose anyway"
        return Certificate("suppression", tree.neighbours, 0, zero, zero, "all", zero, zero, why)
    relation, n = _steps(tree, k)
    allowed = tree.changes.of(relation, is_exact=True)
    charge, change = _dearest(allowed, tree.charged_precisions, power)
    if n == 1 and change is None:
        raise PrivacyError(
            "no certificate: the exact numbers of all levels together leave no cell and no leaf that one record"
            " could change into; leave out some of them"
        )
    if n > 1:
        charge = n**power * _dearest(_any_steps(tree, relation), tree.charged_precisions, power)[0]
    plain, _ = _dearest(tree.changes.of(tree.neighbours, is_exact=False), tree.precisions, power)
    amount = f"rho = {shown(charge)}, at all orders" if power == 2 else f"D = {shown(charge)}"
    across = "" if tree.across is None else f" and {tree.across.name}, across them,"
    statement = f"{len(tree.levels)} levels{across} measured, the noise of each independent: losses add up to {amount}"
    loss, rho = (None, charge) if power == 2 else (charge, charge**2 / 2)
    reason = _charged(tree, change and change.times(n), k, charge, cell_name or (lambda cell: f"cell {cell}"))
    return Certificate(_KINDS[power], tree.neighbours, k, loss, rho, "all", rho, plain, statement, (reason,))


def _steps(tree: MeasuredTree, k: int) -> tuple[str, int]:
    """Return the relation of the steps that a difference of `k` records is a sum of, and how many there are."""
    if type(k) is not int or k < 1:
        raise PrivacyError(f"k is a number of records, from 1 on, not {k!r}")
    if tree.neighbours == "bounded" or not tree.levels_with_totals:
        return tree.neighbours, k
    if k == 1:
        raise PrivacyError(
            "k = 1: the number of records is published, so no record comes or goes alone; at k = 2 one comes and"
            " another goes"
        )
    return "bounded", k // 2


def _any_steps(tree: MeasuredTree, relation: str) -> Mapping[Counts, TreeChange]:
    """Return steps of one record that need not keep exact numbers, but those of units' totals: sums of them do."""
    return tree.changes.of(relation, is_exact=False, first_parting=tree.levels_with_totals)


def _charged(
    tree: MeasuredTree, change: TreeChange | None, k: int, charge: Fraction, cell_name: Callable[[int], str]
) -> str:
    """Say which change was charged, once it is checked in integers and against the charge."""
    amount = "D" if tree.exponent == 1 else "rho"
    if change is None:
        return f"charged: a bound, {amount} {shown(charge)}: {k} records, each as the dearest change of one"
    for number, level in enumerate(tree.levels):
        for unit in change.at(number):
            for row in level.exact:
                if sum(row.terms.get(cell, 0) * size for cell, size in unit.items()):
                    raise PrivacyError("internal: a change that is charged moves an exact number")
    records = change.n_records(tree.neighbours)
    if records is None or not 0 < records <= k or any(cell in tree.empty_cells for _, cell, _ in change.entries):
        raise PrivacyError("internal: a change that is charged is none of so many records")
    distance = distance_of_change(tree, change)
    if distance > charge:
        raise PrivacyError("internal: a change of records has a larger distance than is charged")
    worst = "charged" if distance == charge else f"charged: a bound, {amount} {shown(charge)}; such a change"
    return f"{worst}: {_text(tree, change, cell_name)}, {amount} = {shown(distance)}; exact numbers stay"


def _text(tree: MeasuredTree, change: TreeChange, cell_name: Callable[[int], str]) -> str:
    size = max(abs(size) for _, _, size in change.entries)
    records = "one record" if size == 1 else f"{size:,} records"
    if len(change.entries) == 1:
        return f"{records} of {cell_name(change.entries[0][1])}"
    left, entered = (cell_name(cell) for _, cell, _ in change.entries)
    if change.parting == len(tree.levels):
        return f"{records} from {left} to {entered} of a leaf"
    other = tree.levels[change.parting].name
    if change.crosses and tree.across is not None:
        other += f" and another {tree.across.name}"
    return f"{records} from {left} of a leaf to {entered} of a leaf in another {other}"


# From a budget to precisions: each query gets what its share buys.


def level_precisions(
    tree: MeasuredTree,
    budget: Budget,
    shares: Sequence[object],
    portions: Sequence[Sequence[object]] | None = None,
    *,
    k: int = 1,
    records_per_unit: int = 1,
) -> tuple[tuple[Fraction, ...], ...]:
    """Return the precision of each query, by level: what its share of the budget buys, rounded down.

    No query is more precise than its share would buy for all records of a unit if no number were exact, whether they
    change or come and go. What the exact numbers determine is not measured, and its share goes to the other queries of
    the level, or to the other levels.

    Parameters
    ----------
    tree : MeasuredTree
        Its precisions do not matter.
    shares : sequence
        Of the levels, in any unit, and of the areas that cross the tree.
    portions : sequence of sequences, optional
        Of the queries of each level, in any unit; equal unless given.
    k : int
        The number of records of the certificate, those of a unit included.

    Examples
    --------
    >>> cells = tuple(Row.of(f"cell {cell}", [cell]) for cell in range(3))
    >>> zero, total = Fraction(0), Row.of("total", range(3))
    >>> state = MeasuredLevel("state", ((zero, cells), (zero, (total,))), (total,))
    >>> tree = MeasuredTree((state, MeasuredLevel("county", ((zero, cells),))), 3, "double_geometric", partings=(1,))
    >>> of_state, of_county = level_precisions(tree, Budget(epsilon=Fraction(2)), [1, 3])
    >>> [str(precision) for precision in (*of_state, *of_county)]
    ['1/4', '0', '3/4']
    """
    power, family = tree.exponent, tree.family
    parts = _portions(tree, shares, portions)
    if type(records_per_unit) is not int or not 1 <= records_per_unit <= k:
        raise PrivacyError(f"a unit has 1 to k = {k} records, not {records_per_unit!r}")
    relation, n = _steps(tree, k)
    coming = tree.changes.of("unbounded", is_exact=False)
    free = {**tree.changes.of(tree.neighbours, is_exact=False), **coming}
    steps = tree.changes.of(relation, is_exact=True) if n == 1 else _any_steps(tree, relation)
    largest = [max(column) for column in zip(*free, strict=True)]
    charged = [max(column) for column in zip(*steps, strict=True)] or [0] * len(largest)
    amount = distance_budget(budget, power)
    out = []
    for part, cap, count in zip(parts, largest, charged, strict=True):
        most = max(records_per_unit**power * cap, n**power * count)
        precision = rounded_down(min(part * amount * power / most, family.most)) if part and most else Fraction(0)
        if 0 < precision < family.least:
            raise PrivacyError(
                f"a budget of {budget.text} leaves a precision of {float(precision):.3g}, below the least supported,"
                f" {float(family.least):.3g}; raise the budget or measure less"
            )
        out.append(precision)
    numbers = iter(out)
    by_level = tuple(tuple(next(numbers) for _ in level.queries) for level in tree.measured)
    if not budget.covers(measured_tree_certificate(tree.with_precisions(by_level), k)):
        raise PrivacyError("internal: precisions were calibrated that cost more than the budget")
    return by_level


def distance_budget(budget: Budget, power: int) -> Fraction:
    """Return what a budget leaves for D (`power` 1) or for rho (`power` 2), rounded down.

    Examples
    --------
    >>> distance_budget(Budget(rho=Fraction(1, 2)), 1), distance_budget(Budget(rho=Fraction(1, 2)), 2)
    (Fraction(1, 1), Fraction(1, 2))
    """
    rho = budget.rho
    if rho is None and budget.delta is not None:
        rho = total_rho(Budget(epsilon=budget.epsilon, delta=budget.delta))
    if power == 2:
        if rho is None:
            raise PrivacyError(
                f'discrete Gaussian noise has no pure epsilon; write epsilon="{budget.limit}", delta="1e-10", or a'
                ' budget rho="1/2"'
            )
        return rho
    # A loss of D is D^2 / 2-zCDP, at all orders.
    scale = 10**DIGITS
    distance = Fraction(0) if rho is None else Fraction(isqrt(floor(2 * rho * scale**2)), scale)
    return max(distance, budget.epsilon or Fraction(0))


def _portions(
    tree: MeasuredTree, shares: Sequence[object], portions: Sequence[Sequence[object]] | None
) -> list[Fraction]:
    """Return the part of the budget of each query; what is determined has none."""
    of_level = checked_shares(shares, len(tree.measured))
    if portions is None:
        portions = [[1] * len(level.queries) for level in tree.measured]
    weights: list[list[Fraction]] = []
    for level, listed, idle in zip(tree.measured, portions, tree.determined, strict=True):
        exact = [exact_fraction(portion, f"a portion of {level.name}") for portion in listed]
        if len(exact) != len(level.queries) or any(portion <= 0 for portion in exact):
            raise PrivacyError(f"each of {len(level.queries)} queries of {level.name} has a portion above 0")
        weights.append([Fraction(0) if is_idle else w for w, is_idle in zip(exact, idle, strict=True)])
    whole = sum((share for share, of_one in zip(of_level, weights, strict=True) if sum(of_one)), Fraction(0))
    return [
        share / whole * weight / sum(of_one) if weight else Fraction(0)
        for share, of_one in zip(of_level, weights, strict=True)
        for weight in of_one
    ]
