"""What a manifest says twice, or in one of few ways: its files, its dates and names, the sums of its receipt."""

import re
from datetime import UTC, datetime

from congenial.bundle.file_names import (
    AREAS,
    EXACT_CELLS,
    EXPECTED_ERRORS,
    OF_OUTPUT,
    PARQUET,
    README,
    REPORT,
    REPORT_ERRORS,
    REPORT_PICTURE,
    TABLE,
    TOO_LONG,
)
from congenial.bundle.manifest import Manifest
from congenial.bundle.naming import STATUSES
from congenial.bundle.software import SOFTWARE
from congenial.bundle.table_csv import is_long
from congenial.bundle.tree_files import tree_file_names
from congenial.errors import BundleError, LedgerError
from congenial.ledger.receipt import Receipt
from congenial.ledger.request import check_name, moment

_DIGEST = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,80}")
_WAY_OUT = "get the bundle from its publisher again"


def check_consistency(manifest: Manifest) -> None:
    """Refuse a manifest whose own words contradict each other."""
    _check_files(manifest)
    _check_names(manifest)
    _check_software(manifest)
    if manifest.receipt is not None:
        _check_receipt(manifest, manifest.receipt)


def _refuse(what: str) -> BundleError:
    return BundleError(f"manifest.json contradicts itself: {what}; {_WAY_OUT}")


def _check_files(manifest: Manifest) -> None:
    """See that every file that a bundle can have is listed, or left out with a reason, and no other."""
    areas = [] if manifest.law.areas.name is None else [AREAS]
    parquet, report = ([] if name in manifest.left_out else [name] for name in (PARQUET, REPORT))
    tree = [] if manifest.chain is None else tree_file_names(manifest.chain.law.tree.levels)
    found = [*([EXACT_CELLS] if manifest.gives_cells_away else []), EXPECTED_ERRORS]
    made = [name for name in found if name not in manifest.left_out]
    is_too_long = bool(parquet) and is_long(manifest.law)
    wanted = [*([] if is_too_long else [TABLE]), *parquet, *areas, *tree, *made, *report, README]
    parts = [REPORT_ERRORS, REPORT_PICTURE] if report else []
    known = [*found, *OF_OUTPUT.values(), *parts, *([TABLE] if is_too_long else [])]
    if is_too_long and manifest.left_out.get(TABLE) != TOO_LONG:
        raise _refuse(f"{TABLE} is not left out because {TOO_LONG}")
    if unknown := [name for name in manifest.left_out if name not in known]:
        raise _refuse(f"{unknown[0]!r} is left out, and only {' and '.join(known)} can be")
    if list(manifest.files) != wanted:
        raise _refuse(f"it lists {', '.join(map(repr, manifest.files)) or 'no file'}, and should {', '.join(wanted)}")
    if not all(manifest.left_out.values()):
        raise _refuse("what is left out has a reason")


def _check_names(manifest: Manifest) -> None:
    naming = manifest.naming
    try:
        check_name(naming.release, "a release's name")
        check_name(naming.dataset, "a dataset's name")
        if naming.replaces is not None:
            check_name(naming.replaces, "the name of a replaced release")
    except LedgerError as wrong:
        raise _refuse(str(wrong)) from None
    if naming.replaces == naming.release:
        raise _refuse("it replaces itself")
    if manifest.rows_per_unit < 1:
        raise _refuse(f"a unit has at least one row, and it says {manifest.rows_per_unit}")
    if naming.status not in STATUSES:
        raise _refuse(f"the status is {naming.status!r}, and it is one of {', '.join(STATUSES)}")
    if manifest.receipt is None and naming.status == STATUSES[0]:
        raise _refuse(
            f"it has no receipt, as a simulation, and its status is {naming.status!r}; a simulation's is one of"
            f" {', '.join(STATUSES[1:])}"
        )
    for file in naming.public_files:
        if not _DIGEST.fullmatch(file.sha256):
            raise _refuse(f"{file.sha256[:70]!r} is not the SHA-256 of a file")
    sizes, areas = [n for _, n in naming.parents], manifest.law.areas
    has_parents = areas.name is not None and manifest.chain is None and min(sizes, default=1) > 0
    if sizes and not (has_parents and sum(sizes) == len(areas)):
        raise _refuse(f"it has parents for {sum(sizes):,} areas, and {len(areas):,} tables")
    if naming.unpublished and (areas.name is None or not set(naming.unpublished).isdisjoint(areas)):
        raise _refuse("an area is left unpublished that it publishes")
    if any(not rows.is_public for rows in naming.kept_rows) and manifest.plan.neighbours == "bounded":
        raise _refuse("rows are kept by a column that is not public, and a changed record could leave them")
    if not _is_moment(manifest.made_at):
        raise _refuse(f"made_at is {manifest.made_at[:40]!r}, and should be a time such as 2026-11-16T11:00:00Z")
    budget, open_ones = manifest.plan.budget, [query for query in manifest.plan.asked if query.precision is None]
    if (budget is None) != (not open_ones):
        raise _refuse("a budget sets the precisions that were not given, and there are none, or there is no budget")


def _is_moment(text: str) -> bool:
    try:
        return moment(datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)) == text
    except ValueError:
        return False


def _check_software(manifest: Manifest) -> None:
    if tuple(manifest.software) != SOFTWARE:
        raise _refuse(f"it records versions of {', '.join(manifest.software)}, and should of {', '.join(SOFTWARE)}")
    for name, stated in manifest.software.items():
        if not _VERSION.fullmatch(stated):
            raise _refuse(f"{stated[:40]!r} is no version of {name}")


def _check_receipt(manifest: Manifest, receipt: Receipt) -> None:
    """See that the receipt is of this release, at its time, for its plan and its price, and that it adds up."""
    names = (manifest.naming.dataset, manifest.naming.release)
    if (receipt.dataset, receipt.release) != names:
        raise _refuse(f"its receipt is of release {receipt.release!r} of {receipt.dataset!r}")
    if receipt.at != manifest.made_at:
        raise _refuse(f"it was made at {manifest.made_at}, and its receipt is of {receipt.at[:40]}")
    if receipt.currency not in {"epsilon", "rho"} or receipt.loss != manifest.certificate.charged_in(receipt.currency):
        raise _refuse("its receipt is for another amount than its certificate")
    hashes = (receipt.hash, receipt.previous, receipt.plan)
    if not all(_DIGEST.fullmatch(one) for one in hashes) or len(set(hashes)) < len(hashes):
        raise _refuse("the hashes of a receipt have 64 digits 0-9 and a-f each, and differ")
    if wrong := _wrong_sums(receipt):
        raise _refuse(f"its receipt does not add up: {wrong}")
    if receipt.plan != manifest.plan_digest:
        raise _refuse("its receipt is for another plan: other names, conditions, budget or law")


def _wrong_sums(receipt: Receipt) -> str:
    """Return what does not add up in a receipt; nothing if all does."""
    before = receipt.spent - receipt.loss
    if receipt.number < 1 or before < 0:
        return f"spend {receipt.number} cost {receipt.loss}, more than the {receipt.spent} of all spends so far"
    if receipt.number == 1 and before:
        return f"the first spend cost {receipt.loss}, and all spends so far {receipt.spent}"
    if receipt.left != receipt.cap - receipt.spent or receipt.left < 0:
        return f"{receipt.spent} of {receipt.cap} is spent, and {receipt.left} cannot be left"
    return ""
