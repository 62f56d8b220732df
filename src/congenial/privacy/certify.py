"""The choice of a certificate: the smallest bound among those whose hypotheses are proven, with the reasons."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import PrivacyError
from congenial.noise import DEFAULT
from congenial.privacy.bounds_and_enumerated_losses import Enumerated, conditional_loss, rho_at_all_orders, round_up
from congenial.privacy.certificate import Certificate, shown, shown_below
from congenial.privacy.certificate_inputs import CONDITIONAL, MEASURED, Case, charged_change, distance_of
from congenial.privacy.moves import MobileGroup, Step
from congenial.privacy.weighted_zeros.calibrate import changed_loss, is_open_above
from congenial.privacy.weighted_zeros.group_cost import free_excess, group_excess, lines_excess, pair_excess
from congenial.privacy.weighted_zeros.group_cost_given_total import total_excess
from congenial.sampling.target_and_system import Measured

# What one record costs where lower limits are weighted, class by class: docs/claims/weighted-zeros.md.


_UNCHANGED = "no measured query changes between such tables"


@dataclass(frozen=True)
class LossBound:
    """A bound of the loss of a step, the kind of certificate that proves it, and why."""

    loss: Fraction
    kind: str
    statement: str


def weighted_loss(case: Case, precisions: Sequence[Fraction], zero_weights: Sequence[Fraction], k: int) -> LossBound:
    """Return a bound of the loss of all pairs at most `k` records apart."""
    moves, neighbours = case.moves, case.neighbours
    if neighbours == "unbounded" and moves.total_is_fixed:  # records leave and enter in pairs
        neighbours, k = "bounded", k // 2
    pricer = _Pricer(case, tuple(precisions), tuple(zero_weights))
    if k < 1 or not moves.groups:
        return LossBound(Fraction(0), "equalities_only", _UNCHANGED)
    if k > 1 and not pricer.is_sum_of_steps(neighbours):
        distance = max(step.distance for step in moves.steps(precisions, 1, neighbours, k))
        why = f"{k} records need not change by steps of one: twice the distance D = {shown(distance)}"
        return LossBound(2 * distance, "weighted_general", why)
    prices = [pricer.unbounded(group) for group in moves.groups if not group.equal]
    if neighbours == "bounded":
        prices = [pricer.bounded(groups) for groups in moves.exchanging]
    worst = max((price for price in prices if price), key=lambda price: price.loss, default=None)
    if worst is None:
        return LossBound(Fraction(0), "equalities_only", _UNCHANGED)
    if k == 1:
        return worst
    return LossBound(k * worst.loss, worst.kind, f"{k} times, step by step: {worst.statement}")


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
            return not any(group.equal or group.ranges for group in moves.groups)
        fixed = (moves.is_fixed([cell for group in groups for cell in group.cells]) for groups in moves.exchanging)
        return not any(group.ranges for group in moves.groups) and all(fixed)

    def _is_weighted(self, group: MobileGroup) -> bool:
        return any(self.zero_weights[c] != 1 and self.precisions[c] for c, _ in group.queries)

    def _has_zeros_alone(self, group: MobileGroup) -> bool:
        """Whether the only limits of the cells are lower ones, and each is measured once, by itself."""
        are_open = all(is_open_above(self.case.constraints, cell) for cell in group.cells)
        return are_open and len(group.queries) == 1 and group.queries[0][1] == 1

    def _scale(self, group: MobileGroup) -> tuple[Fraction, Fraction, Fraction]:
        """Return precision, base and zero weight of cells that are measured once."""
        ((c, _),) = group.queries
        return self.precisions[c], self.case.family(self.precisions[c]).base, self.zero_weights[c]

    def _plain(self, groups: Sequence[MobileGroup], neighbours: str, *, is_weighted: bool) -> LossBound | None:
        """Price steps by their distance: weights that the step does not touch are the same on its whole line."""
        steps = self.case.moves.steps_among(groups, self.precisions, neighbours)
        priced = [
            (2 * step.distance if is_weighted else conditional_loss(step.distance, step.least), step.distance)
            for step in steps
        ]
        loss, distance = max(priced, default=(Fraction(0), Fraction(0)))
        if loss == 0:
            return None
        if is_weighted:
            why = f"weighted limits of cells that no theorem covers: twice the distance D = {shown(distance)}"
            return LossBound(loss, "weighted_general", why)
        why = f"cells without weights beside weighted ones: D = {shown(distance)} plus {shown(loss - distance)}"
        return LossBound(loss, "limited_cells", why)

    def unbounded(self, group: MobileGroup) -> LossBound | None:
        """Price a record that is added to or removed from a cell of a group that is in no equality."""
        if not self._is_weighted(group):
            return self._plain([group], "unbounded", is_weighted=False)
        if group.ranges or group.soft or not self._has_zeros_alone(group):
            return self._plain([group], "unbounded", is_weighted=True)
        precision, base, zero_weight = self._scale(group)
        extra = _extra(free_excess(base, zero_weight))
        return LossBound(precision + extra, "clamped_unbounded", _statement("cells in no exact sum", precision, extra))

    def bounded(self, groups: Sequence[MobileGroup]) -> LossBound | None:
        """Price a record that passes between two cells of some groups with equal columns in the equalities."""
        if not any(self._is_weighted(group) for group in groups):
            return self._plain(groups, "bounded", is_weighted=False)
        if len(groups) > 1 or not self._has_zeros_alone(groups[0]):
            return self._plain(groups, "bounded", is_weighted=True)
        (group,) = groups
        n_cells = len(group.cells)
        if n_cells == 1:
            return None
        precision, base, zero_weight = self._scale(group)
        if not (group.equal or group.ranges or group.soft):
            extra = 2 * _extra(free_excess(base, zero_weight))
            return LossBound(
                2 * precision + extra, "clamped_unbounded", _statement("cells in no exact sum", 2 * precision, extra)
            )
        excesses = {"weighted_lines": lines_excess(base, zero_weight)}
        if (excess := group_excess(n_cells, base, zero_weight)) is not None:
            excesses["weighted_group"] = excess
        if self.case.moves.is_fixed(group.cells):
            excess = pair_excess(base, zero_weight) if n_cells == 2 else total_excess(n_cells, base, zero_weight)
            excesses |= {} if excess is None else {"weighted_fixed_total": excess}
        name = min(excesses, key=lambda kind: excesses[kind])
        extra = _extra(excesses[name])
        what = f"{n_cells} cells that are alike" + (", with an exact total" if name == "weighted_fixed_total" else "")
        return LossBound(2 * precision + extra, name, _statement(what, 2 * precision, extra))


def _extra(excess: Fraction) -> Fraction:
    """Return what a ratio of normalisers of ``1 + excess`` adds to a loss."""
    return changed_loss(Fraction(0), excess)


def _statement(cells: str, distance: Fraction, extra: Fraction) -> str:
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
        Whether to enumerate all pairs when S* is small.
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
    if is_weighted and (is_rho or case.method == MEASURED):
        where = "of measurements, which have no limits" if case.method == MEASURED else f"under {family.title} noise"
        raise PrivacyError(f"no theorem here covers weighted limits {where}")
    if case.method == MEASURED:
        return make.measured(steps)
    if is_rho:
        valid = make.gaussian(steps)
    else:
        valid = [make.weighted(steps, zero_weights) if is_weighted else make.pure(steps)]
    reasons = [f"GM's factor of two would give {shown(2 * k * plain)}"] if family.currency == "epsilon" else []
    if try_all_pairs and (listed := case.listed(precisions, zero_weights)):
        valid.append(make.all_pairs(listed))
    if not valid:
        raise PrivacyError(
            f"no certificate: {case.unimodularity.why}, some cells have no limits, and too many tables obey the"
            ' conditions to go through all pairs; use noise="double_geometric", or conditions that are plain totals'
        )
    best = min(valid, key=lambda bound: (bound.rho if is_rho else bound.loss, bound.orders != "all"))
    others = [f"instead of {_short(certificate)}" for certificate in valid if certificate is not best]
    if not case.neighbourhood.is_smallest:
        reasons.append(_not_smallest(k))
    # Every certificate is valid, so the bound at all orders may come from another one.
    at_all_orders = (bound.rho_at_all_orders for bound in valid if bound.rho_at_all_orders is not None)
    return replace(best, rho_at_all_orders=min(at_all_orders, default=None), reasons=(*reasons, *others))


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

    def _make(
        self, kind: str, statement: str, rho: Fraction, *, loss: Fraction | None = None, star: Fraction | None = None
    ) -> Certificate:
        """Return a certificate at all orders, or at integer orders with another bound, `star`, at all."""
        orders = "all" if star is None else "integer"
        at_all_orders = rho if star is None else star
        return Certificate(kind, self.case.neighbours, self.k, loss, rho, orders, at_all_orders, self.plain, statement)

    def pure(self, steps: Sequence[Step]) -> Certificate:
        """Double Geometric noise: the worst step by ``D + log phi(D, m)``, and D^2/2-zCDP on any set."""
        losses = [conditional_loss(step.distance, step.least) for step in steps]
        worst = max(losses, default=Fraction(0))
        step = steps[losses.index(worst)] if losses else Step(Fraction(0), None)
        distance = shown(step.distance)
        if step.distance == 0:
            kind, why = "equalities_only", _UNCHANGED
        elif step.least is None:
            kind = "equalities_only"
            why = f"no limit can be met, so conditioning costs nothing: the loss is D = {distance}"
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
        return self._make(kind, why, _largest_distance(steps) ** 2 / 2, loss=worst)

    def weighted(self, steps: Sequence[Step], zero_weights: Sequence[Fraction]) -> Certificate:
        """Double Geometric noise with weighted limits: class by class, and D^2/2-zCDP whatever the weights."""
        priced = weighted_loss(self.case, self.precisions, zero_weights, self.k)
        return self._make(priced.kind, priced.statement, _largest_distance(steps) ** 2 / 2, loss=priced.loss)

    def measured(self, steps: Sequence[Step]) -> Certificate:
        """Noise on a lattice that has every difference of two tables: the worst distance, at all orders, no more."""
        distance = _largest_distance(steps)
        if self.case.family.exponent == 2:
            kind, loss, rho = "measured_gaussian", None, distance
            why = f"limits cost measurements nothing: rho is that of the noise, {shown(rho)}, at all orders"
        else:
            kind, loss, rho = "measured_double_geometric", distance, distance**2 / 2
            why = f"limits cost measurements nothing: the loss is that of the noise, D = {shown(distance)}"
        certificate = self._make(kind, why if distance else _UNCHANGED, rho, loss=loss)
        return replace(certificate, reasons=tuple(self._charged(distance)))

    def _charged(self, charged: Fraction) -> list[str]:
        """Say which change was charged, once it is checked in integers and against the charge."""
        case, amount = self.case, "D" if self.case.family.exponent == 1 else "rho"
        reasons = []
        change = charged_change(case, self.precisions, self.k)
        if change is not None:
            distance = distance_of(case, change, self.precisions)
            if distance > charged:
                raise PrivacyError("internal: a change of records has a larger distance than is charged")
            worst = "charged" if distance == charged else f"charged: a bound, {amount} {shown(charged)}; such a change"
            reasons.append(f"{worst}: {change.text(case.constraints)}, {amount} = {shown(distance)}; exact sums stay")
        if not case.neighbourhood.is_smallest:
            reasons.append(_not_smallest(self.k))
        return reasons

    def gaussian(self, steps: Sequence[Step]) -> list[Certificate]:
        """Discrete Gaussian noise: every theorem whose hypotheses are proven."""
        case, rho = self.case, _largest_distance(steps)
        valid = []
        if not any(group.is_limited for group in case.moves.groups) and not case.constraints.ranges:
            why = "no cell or row has limits: conditioning costs nothing"
            valid.append(self._make("gaussian_equalities_only", why, rho))
        elif case.is_rank_one:
            why = "every independent part of the conditions leaves one degree of freedom: conditioning costs nothing"
            valid.append(self._make("gaussian_rank_one", why, rho))
        elif case.unimodularity.is_certified:
            why = f"conditioning costs nothing at integer orders: {case.unimodularity.why}"
            valid.append(self._make("gaussian_unimodular", why, rho, star=rho_at_all_orders(rho)))
        spread = self._range()
        if spread is not None:
            why = (
                f"the log probability ratio ranges over at most {shown(spread)} on the tables that obey the conditions"
            )
            if not case.unimodularity.is_certified:
                why += f" ({case.unimodularity.why})"
            valid.append(self._make("gaussian_range", why, spread**2 / 8, loss=spread))
        return valid

    def _range(self) -> Fraction | None:
        """Return a bound of the range of ``sum_r p_r q_r(z) q_r(t)`` over S*; None when a cell has no limits."""
        widths, moves = self.case.widths, self.case.moves
        known = {cell: width for cell, width in enumerate(widths) if width is not None}
        if len(known) < len(widths):
            return None
        reach = [sum(abs(w) * known[c] for c, w in soft.row.terms.items()) for soft in moves.soft]
        sizes = []
        for group in moves.groups:
            widest = max(known[c] for c in group.cells)
            size = sum((self.precisions[c] * w * w * widest for c, w in group.queries), Fraction(0))
            size += sum(self.precisions[moves.soft[r].query_class] * abs(w) * reach[r] for r, w in group.soft)
            sizes += [size] * min(2, len(group.cells))
        sizes.sort(reverse=True)
        ends = 2 if self.case.neighbours == "bounded" else 1
        return round_up(self.k * sum(sizes[:ends], Fraction(0)))

    def all_pairs(self, listed: Enumerated) -> Certificate:
        """A small S*: the exact worst pair."""
        n, loss = len(listed.tables), listed.worst_loss(self.k)
        why = f"all {len(listed.pairs(self.k))} pairs of neighbours among the {n} tables that obey the conditions"
        if self.case.family.currency == "rho":
            star = min(loss**2 / 2, loss)
            return self._make("gaussian_enumerated", why, listed.worst_rho(self.k), loss=loss, star=star)
        steps = self.case.moves.steps(self.precisions, self.case.family.exponent, self.case.neighbours, self.k)
        return self._make("enumerated", why, min(loss, _largest_distance(steps)) ** 2 / 2, loss=loss)


# Where the noise of measurements lives: on no less than all differences of tables.


def check_lattice(
    equalities: Sequence[Row], pinned: Sequence[int], constraints: Constraints, *, coordinates: Sequence[Row] = ()
) -> None:
    """See that noise lives on a lattice that has every difference of two tables of the conditions; refuse if not.

    Each equality that the noise is conditioned on must be 0 on all these differences: it is a combination of exact
    numbers and of cells that the conditions determine, and each cell without noise is determined. Noise that keeps
    fewer numbers passes. Noise that keeps one more would tell some neighbours apart with certainty.

    Parameters
    ----------
    equalities : sequence of Row
        Rows of which the noise is always 0: over cells, or over coordinates where such are named. A measured row that
        gets no noise is one of them.
    pinned : sequence of int
        Cells that get no noise.
    coordinates : sequence of Row
        What each coordinate of the noise is a deviation of, as a row over cells; without them, coordinates are cells.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.schema import Schema
    >>> constraints = Constraints.of(Schema({"age": ["a", "b", "c"]}), [total(equals=9)])
    >>> check_lattice([Row.of("twice", [0, 1, 2])], [], constraints)
    >>> check_lattice([Row.of("a and b", [0, 1])], [], constraints)
    Traceback (most recent call last):
    congenial.errors.PrivacyError: internal: noise is conditioned on a and b, which the exact numbers do not determine
    """
    used = [_over_cells(row, coordinates) for row in equalities] if coordinates else list(equalities)
    still = set(constraints.quick_bounds.pinned)
    exact = [limited.row.terms for limited in constraints.equalities]
    unknown = [Row.of(constraints.schema.cell_name(cell), [cell]) for cell in pinned if cell not in still]
    if unknown and not all(_follow(exact, still, [row.terms for row in unknown])):
        still |= set(constraints.cell_bounds.pinned)  # by integer programs: what intervals alone do not see
    wanted = [*used, *unknown]
    for row, is_determined in zip(wanted, _follow(exact, still, [row.terms for row in wanted]), strict=True):
        if not is_determined:
            what = row.name or " + ".join(f"{w} x {constraints.schema.cell_name(c)}" for c, w in row.terms.items())
            raise PrivacyError(f"internal: noise is conditioned on {what}, which the exact numbers do not determine")


def _over_cells(row: Row, coordinates: Sequence[Row]) -> Row:
    """Return a row over coordinates as one over cells."""
    terms: dict[int, int] = {}
    for place, times in row.terms.items():
        for cell, weight in coordinates[place].terms.items():
            terms[cell] = terms.get(cell, 0) + times * weight
    return Row.weighted(terms, name=row.name)


def _follow(exact: Sequence[dict[int, int]], still: set[int], rows: Sequence[dict[int, int]]) -> list[bool]:
    """Say of each row whether it is a combination of exact ones, on cells that are not still; checked in integers."""
    lines = [{c: w for c, w in row.items() if c not in still} for row in (*exact, *rows)]
    follows = dependence(lines).follows
    out = []
    for number in range(len(exact), len(lines)):
        causes = follows.get(number)
        # Independent rows are the earliest possible: a row that follows from exact ones alone names no other.
        if causes is None or any(cause >= len(exact) for cause in causes):
            out.append(False)
            continue
        scale = lcm(*(times.denominator for times in causes.values()))
        rest = {cell: -scale * weight for cell, weight in lines[number].items()}
        for cause, times in causes.items():
            for cell, weight in lines[cause].items():
                rest[cell] = rest.get(cell, 0) + int(scale * times) * weight
        out.append(not any(rest.values()))
    return out


def certify(
    constraints: Constraints,
    measured: Sequence[Measured],
    neighbours: str = "bounded",
    k: int | None = None,
    *,
    method: str = CONDITIONAL,
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
    case = Case(constraints, tuple(map(tuple, classes.values())), family, neighbours, method=method)
    precisions, zero_weights = [scale for scale, _ in classes], [weight for _, weight in classes]
    return certificate_of(case, precisions, k, zero_weights=zero_weights)


def _not_smallest(k: int) -> str:
    return f"k = {k} was found; that fewer records cannot change is not proven, and they are covered too"


def _largest_distance(steps: Sequence[Step]) -> Fraction:
    return max((step.distance for step in steps), default=Fraction(0))


def _rest(whole: Fraction, part: Fraction) -> str:
    """Return what is left of a bound as it is shown, so that the shown parts add up."""
    rest = Fraction(shown(whole)) - Fraction(shown(part))
    return shown(min(rest, Fraction("0.6931")) if whole - part < Fraction("0.69314718") else rest)


def _short(certificate: Certificate) -> str:
    amount = certificate.rho if certificate.currency == "rho" else certificate.loss
    return f"{certificate.kind}: {certificate.currency} {shown(amount or Fraction(0))}"
