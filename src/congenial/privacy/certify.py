"""The choice of a certificate: the smallest bound among those whose hypotheses are proven, with the reasons."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import log10

from congenial.conditions.constraints import Constraints
from congenial.conditions.lattice import dependence
from congenial.conditions.rows import Row
from congenial.errors import PrivacyError, TooLargeError
from congenial.noise import FAMILIES
from congenial.privacy.certificate import Certificate, shown, shown_below
from congenial.privacy.enumerated import MOST_TABLES, Enumerated
from congenial.privacy.formulas import conditional_loss, rho_at_all_orders, round_up
from congenial.privacy.moves import Moves, Step, check_relation
from congenial.privacy.neighbours import Neighbours, neighbours_of
from congenial.privacy.unimodular import Unimodularity, certify_unimodular
from congenial.sampling.enumerate import estimate_log10_count, surely_more_than
from congenial.sampling.target import Measured

GAUSSIAN = "discrete_gaussian"
_MOST_CELLS = 48  # more cells that can move leave more tables than can be listed, and counting them takes long


@dataclass(frozen=True)
class Case:
    """Everything a certificate depends on but the precisions. Public.

    Attributes
    ----------
    classes : tuple of tuples of Row
        The measured rows; rows of one class share a precision.
    noise : str
        The family of the noise.
    neighbours : str
        The neighbour relation.
    """

    constraints: Constraints
    classes: tuple[tuple[Row, ...], ...]
    noise: str
    neighbours: str

    def __post_init__(self) -> None:
        check_relation(self.neighbours)
        if self.noise == "laplace":
            raise PrivacyError(
                "laplace noise is continuous and drawn in doubles, for study: it has no certificate;"
                ' use noise="double_geometric" or noise="discrete_gaussian"'
            )

    @property
    def is_gaussian(self) -> bool:
        """Whether losses are counted in rho."""
        return self.noise == GAUSSIAN

    @property
    def power(self) -> int:
        """1 for noise that falls with the distance, 2 for Gaussian noise."""
        return 2 if self.is_gaussian else 1

    @cached_property
    def moves(self) -> Moves:
        """The steps between neighbouring tables."""
        return Moves.of(self.constraints, self.classes)

    @cached_property
    def structure(self) -> Neighbours:
        """The neighbour structure."""
        return neighbours_of(self.constraints, self.neighbours)

    @cached_property
    def is_one_table(self) -> bool:
        """Whether S* is a single table; refuses other sets in which no two tables are neighbours."""
        if self.structure.k is not None:
            return False
        if self.neighbours == "bounded" and neighbours_of(self.constraints, "unbounded").k is not None:
            raise PrivacyError(
                "several tables obey the conditions, but no two of them have the same number of records, so a bounded"
                ' guarantee would promise nothing; use neighbours="unbounded", or make total() an invariant'
            )
        return True

    @cached_property
    def unimodularity(self) -> Unimodularity:
        """Whether all rows over several cells are proven totally unimodular."""
        hard = [one.row for one in self.constraints.equalities]
        soft = [one.row for one in self.constraints.ranges] + [one.row for one in self.moves.soft]
        return certify_unimodular(hard, soft, self._mobile)

    @property
    def _mobile(self) -> list[int]:
        return sorted(cell for kind in self.moves.kinds for cell in kind.cells)

    @cached_property
    def is_rank_one(self) -> bool:
        """Whether every independent part of S* is a line: cells without rows, pairs with a fixed sum, and the like."""
        mobile = set(self._mobile)
        hard = [_inside(one.row, mobile) for one in self.constraints.equalities]
        rows = [
            *(_inside(one.row, mobile) for one in self.constraints.rows),
            *(_inside(one.row, mobile) for one in self.moves.soft),
        ]
        parent = {cell: cell for cell in mobile}

        def root(cell: int) -> int:
            while parent[cell] != cell:
                parent[cell] = parent[parent[cell]]
                cell = parent[cell]
            return cell

        for row in rows:
            for cell in row:
                parent[root(cell)] = root(next(iter(row)))
        sizes: dict[int, int] = {}
        for cell in mobile:
            sizes[root(cell)] = sizes.get(root(cell), 0) + 1
        # One rank for all parts would hide a part of rank two beside one of rank zero.
        own: dict[int, list[dict[int, int]]] = {}
        for row in hard:
            if row:
                own.setdefault(root(next(iter(row))), []).append(row)
        return all(size - dependence(own.get(part, [])).rank <= 1 for part, size in sizes.items())

    def measured(self, precisions: Sequence[Fraction]) -> tuple[Measured, ...]:
        """Return the rows with their noise; classes of precision 0 are left out."""
        make = FAMILIES[self.noise]
        pairs = zip(self.classes, precisions, strict=True)
        return tuple(Measured(row, make(precision)) for rows, precision in pairs if precision for row in rows)

    def certificate(
        self, precisions: Sequence[Fraction], k: int | None = None, *, try_all_pairs: bool = True
    ) -> Certificate:
        """Return the best valid certificate at some precisions, for pairs at most `k` records apart.

        Parameters
        ----------
        k : int, optional
            The fewest records in which tables of S* can differ, unless given.
        try_all_pairs : bool
            Whether to go through all pairs when S* is small.
        """
        if len(precisions) != len(self.classes) or min(precisions) < 0:
            raise PrivacyError(
                f"{len(self.classes)} precisions are needed, none of them negative, not {list(precisions)}"
            )
        if not any(precisions):
            return self._nothing("suppression", "nothing but the invariants is released, which they disclose anyway")
        if self.is_one_table:
            return self._nothing("singleton", "one table obeys the conditions: the release says what they say already")
        smallest = self.structure.k or 1
        k = smallest if k is None else k
        if type(k) is not int or k < 1:
            raise PrivacyError(f"k is a number of records, from 1 on, not {k!r}")
        if not self.structure.is_smallest:
            k = max(k, smallest)
        if k < smallest:
            raise PrivacyError(
                f"k = {k}: no two tables that obey the conditions are fewer than {smallest} records apart"
            )
        steps = self.moves.steps(precisions, self.power, self.neighbours, k)
        plain = self.moves.one_record_without_invariants(precisions, self.power, self.neighbours)
        make = _Maker(self, tuple(precisions), k, plain)
        found = make.gaussian(steps) if self.is_gaussian else [make.pure(steps)]
        reasons = list(make.reasons)
        if try_all_pairs and (listed := self._listed(precisions)):
            found.append(make.all_pairs(listed))
        if not found:
            raise PrivacyError(
                f"no certificate: {self.unimodularity.why}, some cells have no limits, and too many tables obey the"
                ' conditions to go through all pairs; use noise="double_geometric", or conditions that are plain totals'
            )
        best = min(found, key=lambda one: (one.rho if self.is_gaussian else one.loss, one.orders != "all"))
        others = [f"instead of {_short(one)}" for one in found if one is not best]
        if not self.structure.is_smallest:
            reasons.append(
                f"k = {k} was found; that fewer records cannot change is not proven, and they are covered too"
            )
        # Every certificate is valid, so the bound at all orders may come from another one.
        everywhere = min((one.rho_at_all_orders for one in found if one.rho_at_all_orders is not None), default=None)
        return replace(best, rho_at_all_orders=everywhere, reasons=(*reasons, *others))

    @cached_property
    def is_small(self) -> bool:
        """Whether few tables obey the conditions, as far as a rough count tells."""
        if surely_more_than(self.constraints, 10 * MOST_TABLES):
            return False  # the rough count solves linear programs: 40 ms and half a second to load the solver
        bounds = self.constraints.quick_bounds
        if None in bounds.lower or None in bounds.upper or len(self._mobile) > _MOST_CELLS:
            return False
        return estimate_log10_count(self.constraints) <= log10(MOST_TABLES) + 1

    def _listed(self, precisions: Sequence[Fraction]) -> Enumerated | None:
        if not self.is_small:
            return None
        try:
            return Enumerated.of(self.constraints, self.measured(precisions), self.neighbours)
        except TooLargeError:
            return None

    def _nothing(self, kind: str, statement: str) -> Certificate:
        zero = Fraction(0)
        return Certificate(kind, self.neighbours, 0, zero, zero, "all", zero, zero, statement)


@dataclass(frozen=True)
class _Maker:
    """Writes certificates for one case at some precisions."""

    case: Case
    precisions: tuple[Fraction, ...]
    k: int
    plain: Fraction

    @property
    def reasons(self) -> tuple[str, ...]:
        return (f"GM's factor of two would give {shown(2 * self.k * self.plain)}",) if not self.case.is_gaussian else ()

    def _make(
        self,
        kind: str,
        statement: str,
        *,
        loss: Fraction | None,
        rho: Fraction,
        orders: str,
        everywhere: Fraction | None,
    ) -> Certificate:
        return Certificate(kind, self.case.neighbours, self.k, loss, rho, orders, everywhere, self.plain, statement)

    def pure(self, steps: Sequence[Step]) -> Certificate:
        """Double Geometric noise: the worst step by ``D + log phi(D, m)``, and D^2/2-zCDP on any set."""
        losses = [conditional_loss(step.distance, step.least) for step in steps]
        worst = max(losses, default=Fraction(0))
        step = steps[losses.index(worst)] if losses else Step(Fraction(0), None)
        rho = max((step.distance for step in steps), default=Fraction(0)) ** 2 / 2
        distance = shown(step.distance)
        if step.distance == 0:
            kind, why = "equalities_only", "no measured query changes between such tables"
        elif step.least is None:
            kind, why = (
                "equalities_only",
                f"no limit can be met, so conditioning costs nothing: the loss is D = {distance}",
            )
        elif step.least == 0:
            kind = "general"
            why = f"a limit without noise of its own can be met: twice the distance D = {distance}"
        else:
            kind = "limited_cells"
            short = ", which is less than log 2" if step.distance <= 2 * step.least else ""
            why = (
                f"cells with limits, every limit measured at precision {shown_below(step.least)} or more:"
                f" D = {distance} plus {_rest(worst, step.distance)} for conditioning{short}"
            )
        return self._make(kind, why, loss=worst, rho=rho, orders="all", everywhere=rho)

    def gaussian(self, steps: Sequence[Step]) -> list[Certificate]:
        """Discrete Gaussian noise: every theorem whose hypotheses are proven."""
        case = self.case
        rho = max((step.distance for step in steps), default=Fraction(0))
        found = []
        if not any(kind.is_limited for kind in case.moves.kinds) and not case.constraints.ranges:
            why = "no cell or row has limits: conditioning costs nothing"
            found.append(self._make("gaussian_equalities_only", why, loss=None, rho=rho, orders="all", everywhere=rho))
        elif case.is_rank_one:
            why = "every independent part of the conditions leaves one degree of freedom: conditioning costs nothing"
            found.append(self._make("gaussian_rank_one", why, loss=None, rho=rho, orders="all", everywhere=rho))
        elif case.unimodularity.is_certified:
            why = f"conditioning costs nothing at integer orders: {case.unimodularity.why}"
            star = rho_at_all_orders(rho)
            found.append(self._make("gaussian_unimodular", why, loss=None, rho=rho, orders="integer", everywhere=star))
        spread = self._range()
        if spread is not None:
            bound = spread**2 / 8
            why = (
                f"the log probability ratio ranges over at most {shown(spread)} on the tables that obey the conditions"
            )
            if not case.unimodularity.is_certified:
                why += f" ({case.unimodularity.why})"
            found.append(self._make("gaussian_range", why, loss=spread, rho=bound, orders="all", everywhere=bound))
        return found

    def _range(self) -> Fraction | None:
        """Return a bound of the range of ``sum_r p_r q_r(z) q_r(t)`` over S*; None when a cell has no limits."""
        bounds = self.case.constraints.quick_bounds
        moves = self.case.moves
        widths: dict[int, int] = {}
        for cell, (low, high) in enumerate(zip(bounds.lower, bounds.upper, strict=True)):
            if low is None or high is None:
                return None
            widths[cell] = high - low
        reach = [
            sum(abs(w) * widths[c] for c, w in zip(one.row.cells, one.row.coefficients, strict=True))
            for one in moves.soft
        ]
        sizes = []
        for kind in moves.kinds:
            own = sum((self.precisions[c] * w * w for c, w in kind.own), Fraction(0)) * max(
                widths[c] for c in kind.cells
            )
            rows = sum((self.precisions[moves.soft[r].klass] * abs(w) * reach[r] for r, w in kind.soft), Fraction(0))
            sizes += [own + rows] * min(2, len(kind.cells))
        sizes.sort(reverse=True)
        ends = 2 if self.case.neighbours == "bounded" else 1
        return round_up(self.k * sum(sizes[:ends], Fraction(0)))

    def all_pairs(self, listed: Enumerated) -> Certificate:
        """A small S*: the exact worst pair."""
        n, loss = len(listed.tables), listed.worst_loss(self.k)
        why = f"all {len(listed.pairs(self.k))} pairs of neighbours among the {n} tables that obey the conditions"
        if self.case.is_gaussian:
            rho = listed.worst_rho(self.k)
            star = min(loss**2 / 2, loss)
            return self._make("gaussian_enumerated", why, loss=loss, rho=rho, orders="integer", everywhere=star)
        steps = self.case.moves.steps(self.precisions, 1, self.case.neighbours, self.k)
        rho = min(loss, max((step.distance for step in steps), default=Fraction(0))) ** 2 / 2
        return self._make("enumerated", why, loss=loss, rho=rho, orders="all", everywhere=rho)


def certify(
    constraints: Constraints, measured: Sequence[Measured], neighbours: str = "bounded", k: int | None = None
) -> Certificate:
    """Return the best certificate of a law with these constraints and measured queries.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> target = two_bins().target
    >>> print(certify(target.constraints, target.measured))
    enumerated: at most epsilon 2.1107 and rho 2, bounded neighbours, one record changed
      all 10 pairs of neighbours among the 6 tables that obey the conditions
      GM's factor of two would give 4
      instead of limited_cells: epsilon 2.6231
      proof and audit: docs/claims/enumerated-loss.md
    """
    families = {one.noise.family for one in measured}
    if len(families) > 1:
        raise PrivacyError(f"one law has one family of noise, not {', '.join(sorted(families))}")
    by_precision: dict[Fraction, list[Row]] = {}
    for one in measured:
        by_precision.setdefault(one.noise.precision, []).append(one.row)
    family = families.pop() if families else "double_geometric"
    case = Case(constraints, tuple(tuple(rows) for rows in by_precision.values()), family, neighbours)
    return case.certificate(list(by_precision), k)


def _rest(whole: Fraction, part: Fraction) -> str:
    """Return what is left of a bound as it is shown, so that the shown parts add up."""
    rest = Fraction(shown(whole)) - Fraction(shown(part))
    return shown(min(rest, Fraction("0.6931")) if whole - part < Fraction("0.69314718") else rest)


def _inside(row: Row, cells: set[int]) -> dict[int, int]:
    return {cell: weight for cell, weight in zip(row.cells, row.coefficients, strict=True) if cell in cells}


def _short(one: Certificate) -> str:
    if one.kind.startswith("gaussian"):
        return f"{one.kind}: rho {shown(one.rho or Fraction(0))}"
    return f"{one.kind}: epsilon {shown(one.loss or Fraction(0))}"
