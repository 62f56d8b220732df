"""A release: validate everything, charge the budget, draw once, publish."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from congenial.arrays import Ints
from congenial.bundle.manifest import exact_statistics
from congenial.bundle.naming_and_versions import (
    Naming,
    areas_digest,
    disclosed_below,
    plan_digest,
    software_in_use,
    source_in_use,
)
from congenial.conditions.areas_and_bounds import Area
from congenial.conditions.base import Condition
from congenial.disk_and_gzip import disable_core_dumps
from congenial.errors import AlreadySpentError, BundleError, CongenialError, LedgerError, StudyError, UncertainError
from congenial.ledger.records import Receipt, newest_withdrawal
from congenial.ledger.requests_and_canonical_text import Request, moment
from congenial.measurement import ONE_TABLE
from congenial.plan import Plan
from congenial.privacy.budget import Budget
from congenial.privacy.disclosure import Disclosure
from congenial.progress_and_interrupts import CHARGING, DRAWING, Progress, hold_first_interrupt, silent
from congenial.published_release import Release
from congenial.randomness import LevelStreams, replay_rng
from congenial.release_key import KeyFile, KeyFolder, ReleaseKey, key_without_charge
from congenial.table import Table, tables_by_area
from congenial.tree.tree_and_zeros import TreeTables

if TYPE_CHECKING:
    from congenial.ledger import Ledger, Status
    from congenial.ledger.released_tables import ReleasedTables

_MOST_DISCLOSED = 2_000  # values that a ledger lists one by one; of more it keeps their digest


@dataclass(frozen=True, repr=False)
class Prepared:
    """Tables whose release is planned: nothing is charged yet. Confidential, for the tables are.

    Attributes
    ----------
    confidential : array (leaf, cell)
        The tables of the lowest level, in the order of the tree; of one level, those of its areas.
    """

    plan: Plan
    naming: Naming
    conditions: tuple[Condition, ...]
    confidential: Ints = field(repr=False)
    software: Mapping[str, str] = field(default_factory=software_in_use)  # before the charge: a lookup can fail

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the plan. It holds the disclosed values and nothing else of the data."""
        return plan_digest(self.naming, self.plan, self.conditions, self.plan.certificate)

    @property
    def facts(self) -> dict[str, object]:
        """What must not change between the charge and the last file: the plan, and the software that carries it out."""
        return {"plan": self.digest, "software": dict(self.software), "source": source_in_use()}

    @cached_property
    def disclosures(self) -> tuple[Disclosure, ...]:
        """What the exact numbers disclose by themselves, for each level. Public with the release."""
        return self.plan.disclosures(self.conditions)

    @property
    def of_areas(self) -> Ints:
        """The confidential tables of areas (area, cell); of a tree, of the units at the top."""
        return self.plan.law.tree.summed(self.confidential)[0]

    @property
    def tables(self) -> Mapping[Area, Table]:
        """The confidential table of each area."""
        return tables_by_area(self.plan.law.schema, self.plan.law.areas.labels, self.of_areas)

    @property
    def disclosed_numbers(self) -> list[tuple[str, object]]:
        """Every statistic that the release states exactly, with its value, for the ledger."""
        areas, of_areas = self.plan.law.areas, self.of_areas
        is_many = areas.name is not None and len(areas) > _MOST_DISCLOSED  # then the words are enough
        statistics = exact_statistics(self.plan.law.schema, self.conditions, of_areas[:1] if is_many else of_areas)
        if is_many or (areas.name is not None and len(statistics) * len(areas) > _MOST_DISCLOSED):
            digest = areas_digest(self.plan.law)
            where = f"in {len(areas):,} areas, listed in the bundle; SHA-256 of all values {digest}"
            listed = [(f"{exact.text}, of each {areas.name}", where) for exact in statistics]
            return [*listed, *disclosed_below(self.plan)]
        heads = {area: "" if area is None else f"{areas.name} {area}: " for area in areas}
        out: list[tuple[str, object]] = [
            (f"{heads[area]}{exact.text}", exact.value(place))
            for exact in statistics
            for place, area in enumerate(areas)
        ]
        return out + disclosed_below(self.plan)

    @property
    def released_tables(self) -> "ReleasedTables | None":
        """Of several tables of the same records, their structure for the ledger."""
        return None

    def streams(self, key: ReleaseKey) -> LevelStreams:
        """Return the random words of every area, or of every unit of a tree, under a key."""
        law, facts = self.plan.law, (self.naming.release, self.digest)
        if law.is_measured:
            return key.measurement_streams(*facts, ONE_TABLE)
        if law.is_tree:
            return key.tree_streams(*facts)
        return key.streams(*facts, law.areas.labels, self.confidential)

    def draw(self, streams: LevelStreams, progress: Progress = silent) -> TreeTables:
        """Return one draw for every unit of every level."""
        return self.plan.draw(self.confidential, streams, progress)

    def released(self, receipt: Receipt | None, drawn: TreeTables, made_at: str) -> Release:
        """Return the release of what was drawn."""
        facts = (self.plan, self.naming, self.conditions, receipt, drawn, made_at, self.software, self.disclosures)
        return Release(*facts)


def draw_here(ready: Prepared, file: KeyFile, progress: Progress) -> TreeTables:
    """Return one draw, made by this process from the words of a release's key."""
    assert file.key is not None  # noqa: S101
    return ready.draw(ready.streams(file.key), progress)


Draw = Callable[[Prepared, KeyFile, Progress], TreeTables]
"""What draws a release: from the same key it gives the same tables, wherever it runs."""

_RESUME = "congenial release --resume, or mechanism.resume if it was begun from Python"
_HELD = (
    "Held: the budget is charged, and the release is being finished. Interrupt once more to stop, and go on with it"
    f" later: {_RESUME}"
)


@contextmanager
def charged(
    ready: Prepared,
    *,
    ledger: "Ledger",
    who: str,
    terms: Mapping[str, str] = MappingProxyType({}),
    now: datetime | None = None,
    progress: Progress = silent,
    draw: Draw = draw_here,
) -> Iterator[Release]:
    """Charge a ledger, then draw; what the block does with the release is part of it.

    The release's key is on disk before the charge, and the charge before anything is drawn. When the block ends well
    the key is destroyed. If anything stops it earlier the charge stands, the key stays, and `resumed` goes on to the
    same tables.

    Parameters
    ----------
    terms : mapping
        What the release is begun with besides the plan, and must be gone on with, such as the folder of the bundle.
    draw : Draw
        What draws it; on this machine if not given.
    """
    ready.plan.dry_run(progress)
    _ = ready.disclosures, ready.plan.noise_text  # for manifest and report: whatever could stop them stops it here
    request = Request(
        dataset=ready.naming.dataset,
        release=ready.naming.release,
        certificate=ready.plan.certificate,
        invariants=ready.disclosed_numbers,
        plan_digest=ready.digest,
        who=who,
        replaces=ready.naming.replaces,
        tables=ready.released_tables,
    )
    disable_core_dumps()
    keys = _key_folder(ledger, request.dataset)
    _clear_stale(keys, ledger, request.dataset, request.release)
    key = ReleaseKey()
    file = keys.begin(key, request.dataset, request.release, terms, ready.facts, ready.confidential)
    try:
        with hold_first_interrupt() as tell:
            progress(CHARGING)
            receipt = _charge(ledger, replace(request, key_digest=key.commitment), now, file)
            tell(_HELD)
            yield from _finished(ready, file, receipt, progress, draw)
    finally:
        file.close()


def check_first(ledger: "Ledger", naming: Naming, *, neighbours: str, budget: Budget | None) -> "Status":
    """Refuse what could not be charged whatever the plan, before anything is planned; return the dataset's account."""
    _clear_stale(_key_folder(ledger, naming.dataset), ledger, naming.dataset, naming.release)
    return ledger.check_request(
        naming.dataset, naming.release, neighbours=neighbours, budget=budget, replaces=naming.replaces
    )


def _charge(ledger: "Ledger", request: Request, now: datetime | None, file: KeyFile) -> Receipt:
    """Charge. If that is refused the key goes; if nobody knows whether it was written, the key stays."""
    try:
        return ledger.charge(request, now=now)
    except UncertainError:
        raise
    except LedgerError:
        file.destroy()
        raise


def _finished(ready: Prepared, file: KeyFile, receipt: Receipt, progress: Progress, draw: Draw) -> Iterator[Release]:
    """Draw, hand the release over, and destroy the key when the caller is done with it."""
    with charge_named_in_errors(receipt):
        progress(DRAWING)
        yield ready.released(receipt, draw(ready, file, progress), receipt.at)
        file.destroy()


@contextmanager
def resumed(
    ready: Prepared,
    *,
    ledger: "Ledger",
    terms: Mapping[str, str] = MappingProxyType({}),
    progress: Progress = silent,
    draw: Draw = draw_here,
) -> Iterator[Release]:
    """Go on with a release that was stopped after its charge: the same tables, and no second charge.

    That the data, the plan, the terms and the software are those of the charge is checked by a keyed hash, which was
    made before it and lies beside the key.
    """
    name = f"release {ready.naming.release!r} of dataset {ready.naming.dataset!r}"
    with begun(ledger, ready.naming.dataset, ready.naming.release) as (file, receipt):
        wrong = [
            f"{what}: {file.terms.get(what)!r} then, {terms.get(what)!r} now"
            for what in {**file.terms, **terms}
            if file.terms.get(what) != terms.get(what)
        ]
        if wrong:
            raise BundleError(
                f"{name} was begun with other terms ({'; '.join(wrong)}); go on with the same ones: {_RESUME}"
            )
        if not file.is_sealed_for(ready.facts, ready.confidential):
            raise BundleError(
                f"{name} was charged for other data, another spec or other versions of the software than there are now;"
                " put them back as they were, or give the release up: congenial release --abandon"
            )
        if (became := newest_withdrawal(ready.naming.release, ledger.withdrawals(ready.naming.dataset))) is not None:
            raise BundleError(f"{name} was {became.text}; give it up instead: congenial release --abandon")
        ready.plan.dry_run(progress)
        with hold_first_interrupt() as tell:
            tell(_HELD)
            yield from _finished(ready, file, receipt, progress, draw)


@contextmanager
def begun(ledger: "Ledger", dataset: str, release: str) -> Iterator[tuple[KeyFile, Receipt]]:
    """Find the charge of a release that was begun, and the key that it was made for; refuses where one is missing."""
    name = f"release {release!r} of dataset {dataset!r}"
    disable_core_dumps()
    keys = _key_folder(ledger, dataset)
    file = keys.find(dataset, release)
    try:
        paid = ledger.paid(dataset, release)  # after the key is locked: nobody charges for it from here on
        if paid is None:
            if file is not None and file.key is not None:
                raise BundleError(key_without_charge(file.path, repr(ledger), dataset, release))
            raise BundleError(
                f"{name} was not charged to {ledger!r}, so there is nothing to go on with; begin it, without --resume"
            )
        receipt, commitment = paid
        if file is None or file.key is None or file.key.commitment != commitment:
            other = f" ({file.path.name} is the key of another charge, and stays)" if file and file.key else ""
            raise BundleError(
                f"{name} was charged on {receipt.at}, and its key is not in {keys.folder}{other}: it was finished, or"
                " given up, or begun with another folder for keys. If it was finished, use its bundle; if its key is"
                " elsewhere, name that folder, --keys; otherwise choose a new release name"
            )
        yield file, receipt
    finally:
        if file is not None:
            file.close()


def abandon(ledger: "Ledger", dataset: str, release: str) -> Receipt:
    """Destroy the key of a release that was begun, and the unfinished bundles that its runs have left.

    The spend stays, and the table can never be drawn again.
    """
    from congenial.bundle.write import remove_unfinished

    with begun(ledger, dataset, release) as (file, receipt):
        if "bundle" in file.terms:
            remove_unfinished(Path(file.terms["bundle"]))  # before the key goes: its terms say where they are
        file.destroy()
        return receipt


def _key_folder(ledger: "Ledger", dataset: str) -> KeyFolder:
    if ledger.keys is None:
        raise LedgerError(
            "say where the keys of releases are kept until their bundles are written: a private folder on this"
            " computer, given as --keys, as open_ledger(..., keys=...), or in the environment variable CONGENIAL_KEYS"
        )
    return KeyFolder(ledger.keys, ledger.dataset(dataset).hash)


def _clear_stale(keys: KeyFolder, ledger: "Ledger", dataset: str, release: str) -> None:
    """Remove what is left of a key that was not written, or not destroyed, to its end; refuse where there is a key.

    A key that was charged must be gone on with. One whose charge this ledger does not hold may have been charged to a
    newer one: it is never removed here.
    """
    file = keys.find(dataset, release)
    if file is None:
        return
    try:
        if file.is_remainder:
            file.destroy()
            return
        if file.key is None:
            raise LedgerError(
                f"the key of release {release!r} of dataset {dataset!r} is damaged: {file.path} cannot be read as one."
                " Nothing was changed. If the release was charged and not finished, restore the file from a backup; if"
                " not, remove it"
            )
        paid = ledger.paid(dataset, release)
        if paid is None:
            raise LedgerError(key_without_charge(file.path, repr(ledger), dataset, release))
        if file.key.commitment == paid[1]:
            raise AlreadySpentError(
                f"release {release!r} of dataset {dataset!r} was charged on {paid[0].at} and not finished. Go on with"
                f" it, which charges nothing: {_RESUME}. Or give it up, with what it cost: congenial release --abandon"
            )
        raise AlreadySpentError(
            f"release {release!r} of dataset {dataset!r} was charged on {paid[0].at} with another key than the one in"
            f" {file.path}, which may be of another copy of the ledger and stays; choose a new release name"
        )
    finally:
        file.close()


def charge_and_draw(
    ready: Prepared, *, ledger: "Ledger", who: str, folder: str | Path | None = None, now: datetime | None = None
) -> Release:
    """Charge a ledger, draw, and write the bundle if a folder is named; then the key is destroyed."""
    from congenial.bundle.write import check_new

    if folder is not None:
        check_new(Path(folder))
    with charged(ready, ledger=ledger, who=who, terms=_place(folder), now=now) as release:
        if folder is not None:
            release.write(folder)
        return release


def resume_and_draw(ready: Prepared, *, ledger: "Ledger", folder: str | Path | None = None) -> Release:
    """Go on with what `charge_and_draw` has begun."""
    with resumed(ready, ledger=ledger, terms=_place(folder)) as release:
        if folder is not None and not release.is_written(Path(folder)):
            release.write(folder)
        return release


def _place(folder: str | Path | None) -> dict[str, str]:
    return {} if folder is None else {"bundle": str(Path(folder).absolute())}


@contextmanager
def charge_named_in_errors(receipt: Receipt) -> Iterator[None]:
    """Whatever fails inside, say that the charge stands, and how to go on."""
    try:
        yield
    except Exception as refused:  # noqa: BLE001
        reason = str(refused) if isinstance(refused, CongenialError) else f"internal error ({type(refused).__name__})"
        raise BundleError(
            f"{reason}. The budget was charged (spend {receipt.number} of dataset {receipt.dataset!r}) and is not"
            " refunded, because a table may have been drawn; remove the cause and go on with the same release:"
            f" {_RESUME}"
        ) from None


def simulate(ready: Prepared, seed: int, *, now: datetime | None = None, progress: Progress = silent) -> Release:
    """Draw from a public seed: what comes out is marked NOT FOR RELEASE, and protects nobody."""
    check_not_confidential(ready.naming.status)
    progress(DRAWING)
    return ready.released(None, ready.draw(replay_rng(f"simulate {seed}"), progress), moment(now))


def check_not_confidential(status: str) -> None:
    """Refuse to draw from a public seed around data that are confidential."""
    if status == "confidential":
        raise StudyError(
            "the spec says that its data are confidential, and a simulation with a public seed would give them away; if"
            " they are public or simulated, write `status: public` or `status: simulated` under data"
        )


def exact_texts(ready: Prepared) -> tuple[tuple[str, str], ...]:
    """Return the same as texts, as a ledger keeps them."""
    return tuple((text, str(value)) for text, value in ready.disclosed_numbers)
