"""A release: validate everything, charge the budget, draw once, publish."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from congenial.arrays import Ints
from congenial.bundle.exact_numbers import exactly
from congenial.bundle.manifest import Manifest
from congenial.bundle.naming import Naming
from congenial.bundle.plan_digest import areas_digest, plan_digest
from congenial.bundle.software import software_in_use
from congenial.conditions.areas import Area
from congenial.conditions.condition import Condition
from congenial.errors import BundleError, CongenialError, StudyError
from congenial.ledger.receipt import Receipt
from congenial.ledger.request import Request, moment
from congenial.plan import Plan
from congenial.privacy.certificate import shown
from congenial.randomness import RandomStream, replay_rng, secure_rng

if TYPE_CHECKING:
    from congenial.ledger import Ledger

STEPS = ("planning", "charging the budget", "drawing")
OUTPUTS = ("csv", "parquet", "report")

_MOST_DISCLOSED = 2_000  # values that a ledger lists one by one; of more it keeps their digest


@dataclass(frozen=True, repr=False)
class Release:
    """One draw for each area, with the plan it follows and the receipt of its charge. Public.

    Attributes
    ----------
    plan : Plan
    naming : Naming
    conditions : tuple of Condition
        What every table obeys, as it was stated.
    receipt : Receipt or None
        None for a simulation, which protects nobody.
    counts : array (area, cell)
        The drawn tables, in the order of the areas.
    made_at : str
    software : mapping
        The versions of whatever decides a byte of a bundle.
    """

    plan: Plan
    naming: Naming
    conditions: tuple[Condition, ...]
    receipt: Receipt | None
    counts: Ints = field(repr=False)
    made_at: str
    software: Mapping[str, str]

    @property
    def tables(self) -> Mapping[Area, Ints]:
        """The drawn table of each area, cell by cell."""
        return dict(zip(self.plan.law.areas, self.counts, strict=True))

    @cached_property
    def manifest(self) -> Manifest:
        """Everything that is published beside the tables."""
        return Manifest.of(
            self.naming, self.made_at, self.plan, self.conditions, self.counts, self.receipt, self.software
        )

    def write(self, folder: str | Path, *, outputs: tuple[str, ...] = OUTPUTS, sign: str | Path | None = None) -> Path:
        """Write the bundle into a new folder, whole or not at all; may be tried again elsewhere.

        Parameters
        ----------
        outputs : tuple of str
            ``"parquet"`` and ``"report"`` besides the table as CSV.
        sign : path, optional
            A private key to sign the manifest with; see `congenial keygen`.
        """
        from congenial.bundle.contents import bundle_files
        from congenial.bundle.signing import read_private_key
        from congenial.bundle.writing import check_new, write_folder

        place = Path(folder)
        unknown = [name for name in outputs if name not in OUTPUTS]
        if unknown:
            raise BundleError(f"{unknown[0]!r} is not an output; write some of {', '.join(OUTPUTS)}")
        check_new(place)
        key = None if sign is None else read_private_key(Path(sign))
        write_folder(place, bundle_files(self.manifest, self.tables, tuple(outputs), key))
        return place

    def __repr__(self) -> str:
        kind = "release" if self.receipt is not None else "NOT FOR RELEASE, a simulation:"
        paid = "" if self.receipt is None else f", charged {self.receipt.currency} {shown(self.receipt.loss)}"
        return f"{kind} {self.naming.release!r} of dataset {self.naming.dataset!r}: {self.plan.law.areas}{paid}"


def no_news(_: str) -> None:
    """Tell nobody how far the work is."""


@dataclass(frozen=True, repr=False)
class Prepared:
    """Tables whose release is planned: nothing is charged yet. Confidential, for the tables are."""

    plan: Plan
    naming: Naming
    conditions: tuple[Condition, ...]
    confidential: Ints = field(repr=False)
    software: Mapping[str, str] = field(default_factory=software_in_use)  # before the charge: a lookup can fail

    @property
    def digest(self) -> str:
        """SHA-256 of the plan. It holds the disclosed values and nothing else of the data."""
        return plan_digest(self.naming, self.plan, self.conditions, self.plan.certificate)

    def draw(self, rng: RandomStream) -> Ints:
        """Return one draw for every area, in the declared order."""
        return self.plan.draw(self.confidential, rng)


def charge_and_draw(
    ready: Prepared,
    *,
    ledger: "Ledger",
    who: str,
    now: datetime | None = None,
    progress: Callable[[str], None] = no_news,
) -> Release:
    """Charge a ledger, then draw; the charge is on disk before anything is drawn, and is never refunded."""
    ready.draw(replay_rng("rehearsal"))  # bits that count for nothing: what cannot be drawn is found before the charge
    request = Request(
        dataset=ready.naming.dataset,
        release=ready.naming.release,
        certificate=ready.plan.certificate,
        invariants=_disclosed(ready),
        plan_digest=ready.digest,
        who=who,
    )
    progress(STEPS[1])
    receipt = ledger.charge(request, now=now)
    with told_that_it_was_charged(receipt):
        progress(STEPS[2])
        return _drawn(ready, receipt, secure_rng(), receipt.at)


@contextmanager
def told_that_it_was_charged(receipt: Receipt) -> Iterator[None]:
    """Whatever fails inside, say that the charge stands."""
    try:
        yield
    except Exception as refused:  # noqa: BLE001
        reason = str(refused) if isinstance(refused, CongenialError) else f"internal error ({type(refused).__name__})"
        raise BundleError(
            f"{reason}. The budget was charged (spend {receipt.number} of dataset {receipt.dataset!r}) and is not"
            " refunded, because a table may have been drawn; release again under another name once the cause is removed"
        ) from None


def simulate(ready: Prepared, seed: int, *, now: datetime | None = None) -> Release:
    """Draw from a public seed: what comes out is marked NOT FOR RELEASE, and protects nobody."""
    check_not_confidential(ready.naming.status)
    return _drawn(ready, None, replay_rng(f"simulate {seed}"), moment(now))


def check_not_confidential(status: str) -> None:
    """Refuse to draw from a public seed around data that are confidential."""
    if status == "confidential":
        raise StudyError(
            "the spec says that its data are confidential, and a simulation with a public seed would give them away; if"
            " they are public or simulated, write `status: public` or `status: simulated` under data"
        )


def _drawn(ready: Prepared, receipt: Receipt | None, rng: RandomStream, made_at: str) -> Release:
    return Release(ready.plan, ready.naming, ready.conditions, receipt, ready.draw(rng), made_at, ready.software)


def _disclosed(ready: Prepared) -> list[tuple[str, object]]:
    """Return every statistic that the release states exactly, with its value, for the ledger."""
    areas = ready.plan.law.areas
    found = exactly(ready.plan.law.schema, ready.conditions, areas.labels, ready.confidential)
    if areas.name is not None and len(found) * len(areas) > _MOST_DISCLOSED:
        where = f"in {len(areas):,} areas, listed in the bundle; SHA-256 of all values {areas_digest(ready.plan.law)}"
        return [(f"{exact.text}, of each {areas.name}", where) for exact in found]
    heads = {area: "" if area is None else f"{areas.name} {area}: " for area in areas}
    return [(f"{heads[area]}{exact.text}", value) for exact in found for area, value in exact.values.items()]
