"""Verifies a bundle in full: from itself, from its publisher's key, from a ledger."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from congenial.bundle.canonical_json import digest
from congenial.bundle.file_registry import REPORT, BundleContents, Content, files_of
from congenial.bundle.manifest import Manifest
from congenial.bundle.naming_and_versions import other_versions
from congenial.bundle.read import OpenedBundle, memory_error_as_refusal, open_bundle
from congenial.bundle.recompute import Bundle, check_bundle
from congenial.bundle.workload_bundle import WorkloadBundle, check_workload
from congenial.bundle.workload_bundle import check_decision as check_workload_decision
from congenial.bundle.workload_files import files_of_workload
from congenial.bundle.workload_manifest import WorkloadManifest
from congenial.errors import BundleError
from congenial.ledger.records import Receipt, Withdrawal, newest_withdrawal
from congenial.memory_and_threads import in_background
from congenial.progress_and_interrupts import DECIDING, Progress, silent

if TYPE_CHECKING:
    from congenial.ledger import Ledger


@dataclass(frozen=True)
class Verified:
    """A bundle in which nothing was found wrong.

    Attributes
    ----------
    bundle : Bundle
        Of several tables of the same records, a `WorkloadBundle`.
    standing : str
        What the bundle is now known to be: in agreement with itself, or as a key published it.
    checked, not_checked : tuple of str
    became : Withdrawal or None
        What the ledger says of the release after its publication; None if it stands, or without a ledger.
    """

    bundle: Bundle
    standing: str
    checked: tuple[str, ...]
    not_checked: tuple[str, ...]
    became: Withdrawal | None = None


@memory_error_as_refusal()
def verify_bundle(
    folder: str | Path,
    *,
    key: str | Path | None = None,
    ledger: "Ledger | None" = None,
    progress: Progress = silent,
) -> Verified:
    """Verify a bundle in full: as `load_bundle` does, the pages for people made again, and the receipt by a ledger.

    Parameters
    ----------
    folder : path
    key : path, optional
        The publisher's public key. With it, a bundle that this key did not sign is refused.
    ledger : Ledger, optional
        With it, a bundle whose receipt is not the ledger's own is refused.
    progress : Progress

    Raises
    ------
    BundleError
        When anything is not as it was published.
    """
    opened = open_bundle(folder, key=key, progress=progress)
    if isinstance(opened.manifest, WorkloadManifest):
        return _verified_workload(opened, key, ledger, progress)
    with in_background(partial(_parts, opened)) as parts:
        bundle = check_bundle(opened)
    manifest = bundle.manifest
    checked = [
        "every file is the one that the manifest lists, and there are no others",
        "tables, exact numbers and law were computed again from the conditions and the released counts",
        "the certificate was computed again from the law" + ("" if manifest.plan.budget is None else " and the budget"),
    ]
    not_checked = list(bundle.not_checked)
    if manifest.decision is not None:
        checked.append("the measurements have every exact sum that their noise keeps")
        if manifest.has_tables:
            checked.append(f"the tables are what rule {manifest.decision.rule[0]} makes of the measurements")
        if manifest.decision.learned:
            checked.append("what the rule learned follows from the measurements, within its tolerance")
    published = BundleContents(manifest, bundle.levels, parts, measured_levels=bundle.measured_levels)
    made_again = [file for file in files_of(manifest) if file.software]  # others were read, and what is in them checked
    for file in sorted(made_again, key=lambda file: (not file.is_required(manifest), file.output is None)):
        if others := other_versions(manifest.software, file.software):
            not_checked.append(f"{file.name}, for what makes it has other versions: {', '.join(others)}")
        else:
            progress(f"making {file.name} again")
            _check_file(manifest, file.name, file.make(published))
            checked.append(f"{file.name} was made again and is the same")
    became = _compare_with_ledger(manifest, ledger, checked)
    return Verified(bundle, _standing(bundle, key), tuple(checked), tuple(not_checked), became)


def _compare_with_ledger(manifest: Manifest, ledger: "Ledger | None", checked: list[str]) -> Withdrawal | None:
    """Refuse a receipt that is not the ledger's; return what became of the release."""
    if ledger is not None:
        _check_receipt(manifest, ledger)
        checked.append("the ledger holds the spend that paid for it, with this receipt and for this plan")
        return newest_withdrawal(manifest.naming.release, ledger.withdrawals(manifest.naming.dataset))
    if manifest.receipt is not None:
        checked.append("the receipt adds up and is for this plan; whether a ledger holds it, --ledger says")
    return None


def _verified_workload(
    opened: OpenedBundle, key: str | Path | None, ledger: "Ledger | None", progress: Progress
) -> Verified:
    """Verify several tables of the same records: the rule is run again, and every file compared with what follows."""
    bundle = check_workload(opened)
    progress(DECIDING)
    contents, seen = check_workload_decision(bundle, opened.folder)
    checked = [
        "every file is the one that the manifest lists, and there are no others",
        "exact numbers and law were computed again; tables are counts of the records, and have the exact numbers",
        "the certificate was computed again from the law" + ("" if bundle.plan.budget is None else " and the budget"),
        "the measurements have every exact sum that their noise keeps",
        *seen,
    ]
    not_checked = list(bundle.not_checked)
    for file in files_of_workload(bundle.manifest):
        if not file.software:
            continue
        if others := other_versions(bundle.manifest.software, file.software):
            not_checked.append(f"{file.name}, for what makes it has other versions: {', '.join(others)}")
        else:
            progress(f"making {file.name} again")
            _check_file(bundle.manifest, file.name, file.make(contents))  # type: ignore[arg-type]
            checked.append(f"{file.name} was made again and is the same")
    became = _compare_with_ledger(bundle.manifest, ledger, checked)
    return Verified(cast(Any, bundle), _standing(bundle, key), tuple(checked), tuple(not_checked), became)


def _standing(bundle: Bundle | WorkloadBundle, key: str | Path | None) -> str:
    if bundle.signed_by is None:
        return "agrees with itself; it is not signed, so whoever can write the whole folder can replace all of it"
    if key is None:
        return f"is as key {bundle.signed_by[:16]}... published it; whether that is the publisher's key, --key says"
    return f"is as {Path(key).name} published it"


def _parts(opened: OpenedBundle) -> dict[str, object]:
    """Return what two of the recomputed files share, which takes as long as all else that is recomputed."""
    from congenial.bundle.report_and_readme import parts_of

    manifest = opened.manifest
    report = next((file for file in files_of(manifest) if file.name == REPORT), None)
    is_made = report is not None and not other_versions(manifest.software, report.software)
    return parts_of(manifest, opened.levels) if is_made else {}


def _check_file(manifest: Manifest, name: str, content: Content) -> None:
    """See that a recomputed file has the digest that the manifest lists."""
    if not isinstance(content, bytes) or digest(content) != manifest.files[name]:
        raise BundleError(
            f"{name} is not the file that the manifest and the tables make, by the same versions of everything that"
            " draws it; get the bundle from its publisher again"
        )


def _check_receipt(manifest: Manifest, ledger: "Ledger") -> None:
    """See that a ledger holds the very spend that the receipt is of."""
    receipt = manifest.receipt
    if receipt is None:
        raise BundleError("the bundle has no receipt: it is a simulation, and no ledger knows it")
    ledger.verify(receipt.dataset, receipt.head)
    dataset = ledger.status(receipt.dataset).dataset
    spend = next((spend for spend in ledger.history(receipt.dataset) if spend.number == receipt.number), None)
    if spend is None or spend.plan != manifest.plan_digest:
        raise BundleError(f"spend {receipt.number} of dataset {receipt.dataset!r} paid for another plan than this one")
    if Receipt.of(dataset, spend) != receipt:
        raise BundleError(
            f"the ledger's receipt for spend {receipt.number} of dataset {receipt.dataset!r} is not the bundle's"
        )
