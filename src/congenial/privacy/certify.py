"""The choice of a certificate: the smallest bound among those whose hypotheses are proven, with the reasons."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import Row
from congenial.errors import PrivacyError
from congenial.noise import DEFAULT
from congenial.privacy.bounds import Enumerated, conditional_loss, rho_at_all_orders, round_up
from congenial.privacy.cases import Case
from congenial.privacy.certificate import Certificate, shown, shown_below
from congenial.privacy.moves import Kind, Step
from congenial.privacy.zero_weights.calibrate import changed_loss
from congenial.privacy.zero_weights.cost import free_excess, group_excess, lines_excess, pair_excess
from congenial.privacy.zero_weights.total import total_excess
from congenial.sampling.system import Measured

# What one record costs where lower limits are weighted, class by class: docs/claims/weighted-zeros.md.


@dataclass(frozen=True)
class Priced:
    """A bound of the loss of a step, the kind of certificate that proves it, and why."""

    loss: Fraction
    kind: str
    statement: str


def weighted_loss(case: Case, precisions: Sequence[Fraction], zero_weights: Sequence[Fraction], k: int) -> Priced:
    """Return a bound of the loss of all pairs at most `k` records apart."""
    moves, neighbours = case.moves, case.neighbours
    if neighbours == "unbounded" and moves.total_is_fixed:  # records leave and enter in pairs
        neighbours, k = "bounded", k // 2
    pricer = _Pricer(case, tuple(precisions), tuple(zero_weights))
    if k < 1 or not moves.kinds:
        return Priced(Fraction(0), "equalities_only", "no measured query changes between such tables")
    if k > 1 and not pricer.is_sum_of_steps(neighbours):
        distance = max(step.distance for step in moves.steps(precisions, 1, neighbours, k))
        why = f"{k} records need not change by steps of one: twice the distance D = {shown(distance)}"
        return Priced(2 * distance, "weighted_general", why)
    found = [pricer.unbounded(kind) for kind in moves.kinds if not kind.equal]
    if neighbours == "bounded":
        found = [pricer.bounded(kinds) for kinds in moves.exchanging]
    worst = max((price for price in found if price), key=lambda price: price.loss, default=None)
    if worst is None:
        return Priced(Fraction(0), "equalities_only", "no measured query changes between such tables")
    if k == 1:
        return worst
    return Priced(k * worst.loss, worst.kind, f"{k} times, step by step: {worst.statement}")


@dataclass(frozen=True)
class _Pricer:
    """Prices the steps of one record."""

    case: Case
    precisions: tuple[Fraction, ...]
    zero_weights: tuple[Fraction, ...]

    def is_sum_of_steps(self, neighbours: str) -> bool:
        """Whether every change of several records is one of single records, one after another, inside S*."""
        moves = self.case.moves
        if neighbours == "unbounded":
            return not any(kind.equal or kind.ranges for kind in moves.kinds)
        fixed = (moves.is_fixed([cell for kind in kinds for cell in kind.cells]) for kinds in moves.exchanging)
        return not any(kind.ranges for kind in moves.kinds) and all(fixed)

    def _is_weighted(self, kind: Kind) -> bool:
        return any(self.zero_weights[c] != 1 and self.precisions[c] for c, _ in kind.own)

    def _has_zeros_alone(self, kind: Kind) -> bool:
        """Whether the only limits of the cells are lower ones, and each is measured once, by itself."""
        constraints = self.case.constraints
        limits = {(constraints.lower[cell] is not None, constraints.upper[cell] is None) for cell in kind.cells}
        return limits == {(True, True)} and len(kind.own) == 1 and kind.own[0][1] == 1

    def _scale(self, kind: Kind) -> tuple[Fraction, Fraction, Fraction]:
        """Return precision, base and zero weight of cells that are measured once."""
        ((c, _),) = kind.own
        return self.precisions[c], self.case.family(self.precisions[c]).base, self.zero_weights[c]

    def _plain(self, kinds: Sequence[Kind], neighbours: str, *, is_weighted: bool) -> Priced | None:
        """Price steps by their distance: weights that the step does not touch are the same on its whole line."""
        steps = self.case.moves.steps_among(kinds, self.precisions, neighbours)
        priced = [
            (2 * step.distance if is_weighted else conditional_loss(step.distance, step.least), step.distance)
            for step in steps
        ]
        loss, distance = max(priced, default=(Fraction(0), Fraction(0)))
        if loss == 0:
            return None
        if is_weighted:
            why = f"weighted limits of cells that no theorem covers: twice the distance D = {shown(distance)}"
            return Priced(loss, "weighted_general", why)
        why = f"cells without weights beside weighted ones: D = {shown(distance)} plus {shown(loss - distance)}"
        return Priced(loss, "limited_cells", why)

    def unbounded(self, kind: Kind) -> Priced | None:
        """Price a record that is added to or removed from a cell of a kind that is in no equality."""
        if not self._is_weighted(kind):
            return self._plain([kind], "unbounded", is_weighted=False)
        if kind.ranges or kind.soft or not self._has_zeros_alone(kind):
            return self._plain([kind], "unbounded", is_weighted=True)
        precision, base, zero_weight = self._scale(kind)
        extra = _extra(free_excess(base, zero_weight))
        return Priced(precision + extra, "clamped_unbounded", _said("cells in no exact sum", precision, extra))

    def bounded(self, kinds: Sequence[Kind]) -> Priced | None:
        """Price a record that passes between two cells of some kinds with equal columns in the equalities."""
        if not any(self._is_weighted(kind) for kind in kinds):
            return self._plain(kinds, "bounded", is_weighted=False)
        if len(kinds) > 1 or not self._has_zeros_alone(kinds[0]):
            return self._plain(kinds, "bounded", is_weighted=True)
        (kind,) = kinds
        n_cells = len(kind.cells)
        if n_cells == 1:
            return None
        precision, base, zero_weight = self._scale(kind)
        if not (kind.equal or kind.ranges or kind.soft):
            extra = 2 * _extra(free_excess(base, zero_weight))
            return Priced(
                2 * precision + extra, "clamped_unbounded", _said("cells in no exact sum", 2 * precision, extra)
            )
        found = {"weighted_lines": lines_excess(base, zero_weight)}
        if (excess := group_excess(n_cells, base, zero_weight)) is not None:
            found["weighted_group"] = excess
        if self.case.moves.is_fixed(kind.cells):
            excess = pair_excess(base, zero_weight) if n_cells == 2 else total_excess(n_cells, base, zero_weight)
            found |= {} if excess is None else {"weighted_fixed_total": excess}
        name = min(found, key=lambda kind: found[kind])
        extra = _extra(found[name])
        what = f"{n_cells} cells that are alike" + (", with an exact total" if name == "weighted_fixed_total" else "")
        return Priced(2 * precision + extra, name, _said(what, 2 * precision, extra))


def _extra(excess: Fraction) -> Fraction:
    """Return what a ratio of normalisers of ``1 + excess`` adds to a loss."""
    return changed_loss(Fraction(0), excess)


def _said(cells: str, distance: Fraction, extra: Fraction) -> str:
    if not extra:
        return f"{cells}, noise clamped at the lower limit: conditioning is free, the loss is D = {shown(distance)}"
    return f"{cells}, their lower limit weighted: D = {shown(distance)} plus {shown(extra)} for conditioning"


_PROVEN = {(1, "epsilon"), (2, "rho")}  # the theorems are of weights that fall linearly and of such that fall squared


def certificate_of(
    case: Case,
    precisions: Sequence[Fraction],
    k: int | None = None,
    *,
    zero_weights: Sequence[Fraction] = (),
    try_all_pairs: bool = True,
) -> Certificate:
    """Return the best valid certificate at some precisions, for pairs at most `k` records apart.

    Parameters
    ----------
    k : int, optional
        The fewest records in which tables of S* can differ, unless given.
    zero_weights : sequence of Fraction
        What weights of lower limits are multiplied by, for each class; 1 if none are given.
    try_all_pairs : bool
        Whether to go through all pairs when S* is small.
    """
    family = case.family
    if (family.exponent, family.currency) not in _PROVEN:
        raise PrivacyError(
            f"no theorem here covers {family.title} noise: weights that fall with the power {family.exponent} of the"
            f" deviation, and a loss in {family.currency}"
        )
    is_rho = family.exponent == 2
    if len(precisions) != len(case.classes) or min(precisions) < 0:
        raise PrivacyError(f"{len(case.classes)} precisions are needed, none of them negative, not {list(precisions)}")
    if not any(precisions):
        return _nothing(case, "suppression", "nothing but the invariants is released, which they disclose anyway")
    if case.is_one_table:
        return _nothing(case, "singleton", "one table obeys the conditions: the release says what they say already")
    smallest = case.neighbourhood.k or 1
    k = smallest if k is None else k
    if type(k) is not int or k < 1:
        raise PrivacyError(f"k is a number of records, from 1 on, not {k!r}")
    if not case.neighbourhood.is_smallest:
        k = max(k, smallest)
    if k < smallest:
        raise PrivacyError(f"k = {k}: no two tables that obey the conditions are fewer than {smallest} records apart")
    if len(zero_weights) not in {0, len(precisions)} or min(zero_weights, default=Fraction(1)) < 1:
        raise PrivacyError(f"a floor is at least 1, and each class has one: not {list(zero_weights)}")
    steps = case.moves.steps(precisions, case.family.exponent, case.neighbours, k)
    plain = case.moves.one_record_without_invariants(precisions, case.family.exponent, case.neighbours)
    make = _Maker(case, tuple(precisions), k, plain)
    for rows, zero_weight in zip(case.classes, zero_weights, strict=False):
        if zero_weight != 1 and any(len(row.cells) > 1 for row in rows):
            raise PrivacyError(f"a floor is for measured cells, and {zero_weight} is given for sums of several cells")
    is_weighted = any(w != 1 and precision for w, precision in zip(zero_weights, precisions, strict=False))
    if is_weighted and is_rho:
        raise PrivacyError(f"no theorem here covers weighted limits under {family.title} noise")
    if is_rho:
        found = make.gaussian(steps)
    else:
        found = [make.weighted(steps, zero_weights) if is_weighted else make.pure(steps)]
    reasons = list(make.reasons)
    if try_all_pairs and (listed := case.listed(precisions, zero_weights)):
        found.append(make.all_pairs(listed))
    if not found:
        raise PrivacyError(
            f"no certificate: {case.unimodularity.why}, some cells have no limits, and too many tables obey the"
            ' conditions to go through all pairs; use noise="double_geometric", or conditions that are plain totals'
        )
    best = min(
        found, key=lambda certificate: (certificate.rho if is_rho else certificate.loss, certificate.orders != "all")
    )
    others = [f"instead of {_short(certificate)}" for certificate in found if certificate is not best]
    if not case.neighbourhood.is_smallest:
        reasons.append(f"k = {k} was found; that fewer records cannot change is not proven, and they are covered too")
    # Every certificate is valid, so the bound at all orders may come from another one.
    everywhere = min(
        (certificate.rho_at_all_orders for certificate in found if certificate.rho_at_all_orders is not None),
        default=None,
    )
    return replace(best, rho_at_all_orders=everywhere, reasons=(*reasons, *others))


def _nothing(case: Case, kind: str, statement: str) -> Certificate:
    zero = Fraction(0)
    return Certificate(kind, case.neighbours, 0, zero, zero, "all", zero, zero, statement)


@dataclass(frozen=True)
class _Maker:
    """Writes certificates for one case at some precisions."""

    case: Case
    precisions: tuple[Fraction, ...]
    k: int
    plain: Fraction

    @property
    def reasons(self) -> tuple[str, ...]:
        return (
            (f"GM's factor of two would give {shown(2 * self.k * self.plain)}",)
            if self.case.family.currency == "epsilon"
            else ()
        )

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

    def weighted(self, steps: Sequence[Step], zero_weights: Sequence[Fraction]) -> Certificate:
        """Double Geometric noise with weighted limits: class by class, and D^2/2-zCDP whatever the weights."""
        rho = max((step.distance for step in steps), default=Fraction(0)) ** 2 / 2
        priced = weighted_loss(self.case, self.precisions, zero_weights, self.k)
        return self._make(priced.kind, priced.statement, loss=priced.loss, rho=rho, orders="all", everywhere=rho)

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
        widths, moves = self.case.widths, self.case.moves
        known = {cell: width for cell, width in enumerate(widths) if width is not None}
        if len(known) < len(widths):
            return None
        reach = [sum(abs(w) * known[c] for c, w in soft.row.terms.items()) for soft in moves.soft]
        sizes = []
        for kind in moves.kinds:
            own = sum((self.precisions[c] * w * w for c, w in kind.own), Fraction(0)) * max(
                known[c] for c in kind.cells
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
        if self.case.family.currency == "rho":
            rho = listed.worst_rho(self.k)
            star = min(loss**2 / 2, loss)
            return self._make("gaussian_enumerated", why, loss=loss, rho=rho, orders="integer", everywhere=star)
        steps = self.case.moves.steps(self.precisions, self.case.family.exponent, self.case.neighbours, self.k)
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
    families = {query.noise.family for query in measured}
    if len(families) > 1:
        raise PrivacyError(f"one law has one family of noise, not {', '.join(sorted(families))}")
    classes: dict[tuple[Fraction, Fraction], list[Row]] = {}
    for query in measured:
        classes.setdefault((query.noise.precision, query.zero_weight), []).append(query.row)
    family = families.pop() if families else DEFAULT
    case = Case(constraints, tuple(map(tuple, classes.values())), family, neighbours)
    precisions, zero_weights = ([scale[which] for scale in classes] for which in (0, 1))
    return certificate_of(case, precisions, k, zero_weights=zero_weights)


def _rest(whole: Fraction, part: Fraction) -> str:
    """Return what is left of a bound as it is shown, so that the shown parts add up."""
    rest = Fraction(shown(whole)) - Fraction(shown(part))
    return shown(min(rest, Fraction("0.6931")) if whole - part < Fraction("0.69314718") else rest)


def _short(certificate: Certificate) -> str:
    amount = certificate.rho if certificate.currency == "rho" else certificate.loss
    return f"{certificate.kind}: {certificate.currency} {shown(amount or Fraction(0))}"
