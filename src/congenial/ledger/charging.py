"""Whether a dataset can pay for a release, and the record of it. Nothing here knows of a database."""

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

from congenial.errors import AlreadySpentError, BudgetError, LedgerError, TamperedError
from congenial.fraction import exact_fraction, positive_fraction
from congenial.ledger.as_text import read_time
from congenial.ledger.dataset_name import check_dataset_name
from congenial.ledger.records import DATASET, SPEND, Dataset, Spend, link_hash
from congenial.ledger.request import Request, check_amount, check_name
from congenial.privacy.certificate import Certificate, shown, shown_below
from congenial.privacy.relation import RELATIONS

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
    currency, given = ("epsilon", epsilon) if rho is None else ("rho", rho)
    cap = positive_fraction(given, f"the cap in {currency}")
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
    if certificate.neighbours != dataset.neighbours:
        raise BudgetError(
            f"the certificate speaks of {certificate.neighbours} neighbours and dataset {dataset.name!r} of"
            f" {dataset.neighbours} ones, whose losses do not add up; plan it with neighbours: {dataset.neighbours}"
        )
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


def next_spend(
    dataset: Dataset, last: Spend | None, namesake: Spend | None, request: Request, at: str, software: str
) -> Spend:
    """Return the record that follows the last one, or refuse the request.

    Parameters
    ----------
    last : Spend or None
        The newest spend of the dataset.
    namesake : Spend or None
        The spend of a release name that is taken for the same, if there is one.
    """
    _check_links(dataset, last)
    if namesake is not None:
        written = "" if namesake.release == request.release else f" as {namesake.release!r}"
        raise AlreadySpentError(
            f"release {request.release!r} of dataset {dataset.name!r} was charged{written} on {namesake.at} by"
            f" {namesake.who}, and one spend gives at most one table. If its bundle exists, use that. If a crash came"
            " between the charge and the bundle, go on with it where its key is: congenial release --resume, or"
            " mechanism.resume if it was begun from Python. Otherwise choose a new name"
        )
    cost = price(dataset, request.certificate)
    spent = Fraction(0) if last is None else last.spent
    if spent + cost > dataset.cap:
        is_empty = spent == dataset.cap
        way_out = "nothing is left" if is_empty else f"plan it with {dataset.currency} of at most what is left"
        raise BudgetError(
            f"release {request.release!r} costs {dataset.currency} {shown(cost)}, and dataset {dataset.name!r} has"
            f" {shown_below(dataset.cap - spent)} left: {shown(spent)} of {shown(dataset.cap)} is spent. Nothing was"
            f" charged; {way_out}"
        )
    if len(str(spent + cost)) > LONGEST_SUM:
        raise LedgerError(
            f"the exact sum of the losses would have more than {LONGEST_SUM:,} digits; round this loss up to a decimal,"
            " congenial.privacy.formulas.round_up"
        )
    at = _not_before(dataset.at if last is None else last.at, at, dataset.name)
    previous = dataset.hash if last is None else last.hash
    record = Spend(
        dataset=dataset.name,
        number=1 if last is None else last.number + 1,
        release=request.release,
        loss=cost,
        spent=spent + cost,
        certificate=replace(request.certificate, reasons=()),
        invariants=request.disclosed,
        plan=request.plan_digest,
        key=request.key_digest,
        who=request.who,
        at=at,
        software=software,
        previous=previous,
        hash="",
    )
    return replace(record, hash=link_hash(SPEND, record.row))


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


def _check_links(dataset: Dataset, last: Spend | None) -> None:
    """Refuse to build on a record that was edited: the cap and the sum that decide are those that were written."""
    wrong = [f"dataset {dataset.name!r}"] if link_hash(DATASET, dataset.row) != dataset.hash else []
    if last is not None and link_hash(SPEND, last.row) != last.hash:
        wrong.append(f"spend {last.number} of dataset {dataset.name!r}")
    if wrong:
        findings = tuple(f"{what}: its content does not match its hash" for what in wrong)
        raise TamperedError(
            f"{' and '.join(wrong)} was edited after it was written; nothing was charged. Run a verification, and go"
            " back to a copy of the ledger that verifies",
            findings,
        )
