"""Charges and withdrawals as records: checks of the budget, without a database."""

from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from typing import NoReturn

from congenial.errors import AlreadySpentError, BudgetError, LedgerError, TamperedError
from congenial.exact import exact_fraction, positive_fraction
from congenial.ledger.records import (
    DATASET,
    SPEND,
    WITHDRAWAL,
    Dataset,
    Spend,
    Withdrawal,
    check_dataset_name,
    link_hash,
)
from congenial.ledger.requests_and_canonical_text import Request, check_amount, check_name, read_time
from congenial.privacy import RELATIONS
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import Certificate, shown, shown_left

LONGEST_SUM = 2_000
CLOCKS_DIFFER = timedelta(minutes=2)
"""How far the clocks of computers that share a ledger may lie apart."""


def new_dataset(
    name: object,
    *,
    epsilon: object,
    rho: object,
    delta: object,
    neighbours: object,
    who: object,
    at: str,
    software: str,
) -> Dataset:
    """Return the record of a new dataset, checked in full."""
    named = check_dataset_name(name)
    creator = check_name(who, "who creates a dataset")
    if (epsilon is None) == (rho is None):
        raise LedgerError("a dataset has one cap, in one currency: give an epsilon, such as 4, or a rho, such as 1/2")
    currency, amount = ("epsilon", epsilon) if rho is None else ("rho", rho)
    cap = positive_fraction(amount, f"the cap in {currency}")
    check_amount(cap, f"the cap in {currency}")
    if not isinstance(neighbours, str) or neighbours not in RELATIONS:
        raise LedgerError(
            'say which tables are neighbours: "bounded" (a record changes) or "unbounded" (a record comes or goes)'
        )
    exact = None if delta is None else exact_fraction(delta, "delta")
    if exact is not None and (rho is None or not 0 < exact < 1):
        raise LedgerError('delta goes with a cap in rho and lies strictly between 0 and 1, such as "1e-10"')
    if exact is not None:
        check_amount(exact, "delta")
    record = Dataset(named, neighbours, currency, cap, exact, creator, at, software, "")
    return replace(record, hash=link_hash(DATASET, record.row))


def price(dataset: Dataset, certificate: Certificate) -> Fraction:
    """Return what a certificate costs in the dataset's currency, or refuse it.

    The losses of releases of one dataset add up (docs/claims/composition.md), in epsilon or in rho. Neither turns into
    the other here: a certificate is charged by the bound that it has.
    """
    _check_relation(dataset, certificate.neighbours)
    cost = certificate.charged_in(dataset.currency)
    if cost is None and dataset.currency == "epsilon":
        raise BudgetError(
            f"dataset {dataset.name!r} is capped in epsilon, and a {certificate.kind} certificate bounds rho only,"
            " which no pure epsilon covers; use double_geometric noise, or a dataset that is capped in rho"
        )
    if cost is None:
        raise BudgetError(
            f"dataset {dataset.name!r} is capped in rho, and the {certificate.kind} certificate bounds epsilon only;"
            " charge it to a dataset that is capped in epsilon"
        )
    return cost


@dataclass(frozen=True)
class ChainEnd:
    """The end of a dataset's hash chain, and what is spent there.

    Attributes
    ----------
    spend : Spend or None
        The newest charge.
    withdrawal : Withdrawal or None
        The newest withdrawal.
    """

    dataset: Dataset
    spend: Spend | None
    withdrawal: Withdrawal | None

    @property
    def spent(self) -> Fraction:
        """All charges so far."""
        return Fraction(0) if self.spend is None else self.spend.spent

    @property
    def left(self) -> Fraction:
        """What remains of the cap."""
        return self.dataset.cap - self.spent

    @property
    def last(self) -> Dataset | Spend | Withdrawal:
        """The record that the next one follows on."""
        records = [record for record in (self.spend, self.withdrawal) if record is not None]
        return max(records, key=lambda record: record.number, default=self.dataset)

    def follow(self, at: str) -> tuple[int, str, str]:
        """Return number, previous hash and time of the next record; refuses to build on a record that was edited."""
        kinds = ((DATASET, self.dataset), (SPEND, self.spend), (WITHDRAWAL, self.withdrawal))
        wrong = [
            f"{kind.split()[1]}{_number(record)} of dataset {self.dataset.name!r}"
            for kind, record in kinds
            if record is not None and link_hash(kind, record.row) != record.hash
        ]
        if wrong:
            findings = tuple(f"{what}: its content does not match its hash" for what in wrong)
            raise TamperedError(
                f"{' and '.join(wrong)} was edited after it was written; nothing was charged. Run a verification, and"
                " go back to a copy of the ledger that verifies",
                findings,
            )
        last = self.last
        return last.head.number + 1, last.hash, _not_before(last.at, at, self.dataset.name)


def check_new(dataset: str, release: str, namesake: Spend | None) -> None:
    """Refuse a release name that was charged already.

    Parameters
    ----------
    namesake : Spend or None
        The spend of a release name that is taken for the same, if there is one.
    """
    if namesake is not None:
        written = "" if namesake.release == release else f" as {namesake.release!r}"
        raise AlreadySpentError(
            f"release {release!r} of dataset {dataset!r} was charged{written} on {namesake.at} by"
            f" {namesake.who}, and one spend gives at most one table. If its bundle exists, use that. If a crash came"
            " between the charge and the bundle, go on with it where its key is: congenial release --resume, or"
            " mechanism.resume if it was begun from Python. Otherwise choose a new name"
        )


def check_request(chain_end: ChainEnd, release: str, neighbours: str, budget: Budget | None) -> None:
    """Refuse before any work what could not be charged: losses that do not add up here, and more than what is left.

    A plan costs at most its budget, so a budget that fits will fit. One above what is left is refused even if the plan
    would come out cheaper.
    """
    dataset = chain_end.dataset
    _check_relation(dataset, neighbours)
    most = None if budget is None or budget.delta is not None else getattr(budget, dataset.currency)
    if most is not None and most > chain_end.left:
        _refuse_cost(chain_end, f"release {release!r} asks for up to {dataset.currency} {shown(most)}")
    if not chain_end.left:
        _refuse_cost(chain_end, f"release {release!r} costs something")


def next_spend(chain_end: ChainEnd, namesake: Spend | None, request: Request, at: str, software: str) -> Spend:
    """Return the record of a charge, or refuse the request."""
    dataset = chain_end.dataset
    number, previous, at = chain_end.follow(at)
    check_new(dataset.name, request.release, namesake)
    cost = price(dataset, request.certificate)
    if cost > chain_end.left:
        _refuse_cost(chain_end, f"release {request.release!r} costs {dataset.currency} {shown(cost)}")
    spent = chain_end.spent + cost
    if len(str(spent)) > LONGEST_SUM:
        raise LedgerError(
            f"the exact sum of the losses would have more than {LONGEST_SUM:,} digits; round this loss up to a decimal,"
            " congenial.privacy.bounds_and_enumerated_losses.round_up"
        )
    record = Spend(
        dataset=dataset.name,
        number=number,
        release=request.release,
        loss=cost,
        spent=spent,
        certificate=replace(request.certificate, reasons=()),
        invariants=request.disclosed,
        plan=request.plan_digest,
        key=request.key_digest,
        who=request.who,
        at=at,
        software=software,
        previous=previous,
        hash="",
        tables=request.tables,
    )
    return replace(record, hash=link_hash(SPEND, record.row))


def check_withdrawal(dataset: str, release: str, last: Withdrawal | None, replaced_by: str | None) -> None:
    """Refuse to withdraw or replace a release twice; `last` is the newest record about it."""
    if last is None or (last.replaced_by is None and replaced_by is not None):
        return
    way_out = "nothing was written" if replaced_by is None else f"write `replaces: {last.replaced_by}`"
    raise LedgerError(f"release {release!r} of dataset {dataset!r} was {last.text}; {way_out}")


def next_withdrawal(
    chain_end: ChainEnd,
    release: str,
    last: Withdrawal | None,
    *,
    reason: str,
    replaced_by: str | None,
    who: str,
    at: str,
    software: str,
) -> Withdrawal:
    """Return the record of a withdrawal, or refuse it.

    Parameters
    ----------
    release : str
        One that was charged.
    last : Withdrawal or None
        The newest record about this release.
    """
    number, previous, at = chain_end.follow(at)
    check_withdrawal(chain_end.dataset.name, release, last, replaced_by)
    return Withdrawal(
        chain_end.dataset.name, number, release, reason, replaced_by, who, at, software, previous, ""
    ).sealed()


def _number(record: Dataset | Spend | Withdrawal) -> str:
    return "" if isinstance(record, Dataset) else f" {record.number}"


def _refuse_cost(end: ChainEnd, what: str) -> NoReturn:
    dataset, rest = end.dataset, shown_left(end.left, end.dataset.cap)
    way_out = "nothing is left" if rest == "0" else f"plan it with {dataset.currency} of at most what is left"
    raise BudgetError(
        f"{what}, and dataset {dataset.name!r} has {rest} left: {shown(end.spent)} of {shown(dataset.cap)} is spent."
        f" Nothing was charged; {way_out}"
    )


def _check_relation(dataset: Dataset, neighbours: str) -> None:
    if neighbours != dataset.neighbours:
        raise BudgetError(
            f"the certificate speaks of {neighbours} neighbours and dataset {dataset.name!r} of"
            f" {dataset.neighbours} ones, whose losses do not add up; plan it with neighbours: {dataset.neighbours}"
        )


def _not_before(last: str, at: str, name: str) -> str:
    """Return the time to record: never before the record that it follows on."""
    behind = read_time(last) - read_time(at)
    if behind > CLOCKS_DIFFER:
        raise LedgerError(
            f"the clock says {at}, and the newest record of dataset {name!r} is from {last}: the clock was set back, or"
            " was ahead then. Nothing was charged; set the clock right and try again. If that record is the wrong one,"
            " wait until then, or create a dataset under another name with what is left, and say so in public"
        )
    return max(last, at)
