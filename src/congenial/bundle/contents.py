"""Every file of a bundle, from the manifest's facts and the drawn tables alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from congenial.arrays import Ints
from congenial.bundle.areas_file import areas_to_parquet
from congenial.bundle.file_names import (
    AREAS,
    EXACT_CELLS,
    EXPECTED_ERRORS,
    MANIFEST,
    NOT_ASKED_FOR,
    OF_OUTPUT,
    PARQUET,
    README,
    REPORT,
    SIGNATURE,
    TABLE,
)
from congenial.bundle.manifest import Manifest
from congenial.bundle.parquet import csv_to_parquet
from congenial.bundle.promises import readme
from congenial.bundle.report import PARTS, expected_errors_csv, report
from congenial.bundle.review_json import exact_cells_to_parquet
from congenial.bundle.signing import PrivateKey, sign
from congenial.bundle.table_csv import tables_to_csv, types_of
from congenial.bundle.tree_files import tree_to_files
from congenial.conditions.areas import Area
from congenial.errors import CongenialError

_Made = TypeVar("_Made")


def bundle_files(
    manifest: Manifest,
    tables: Mapping[Area, Ints],
    outputs: tuple[str, ...],
    key: PrivateKey | None = None,
    below: Sequence[Ints] = (),
) -> dict[str, bytes]:
    """Return the files of a bundle by name; of a tree, `below` are the tables (unit, cell) of each level below the top.

    Nothing else goes in: with the same drawn tables, the same facts and the same clock, every byte is the same. What
    cannot be made besides the table itself is left out, with the reason: it must not cost a release that is paid for.
    """
    left_out = {name: NOT_ASKED_FOR for output, name in OF_OUTPUT.items() if output not in outputs}
    manifest = replace(manifest, left_out=left_out)  # what cannot be made is added below, before anything says so
    files = {TABLE: tables_to_csv(manifest.law, tables)}
    if manifest.law.areas.name is not None:
        columns = [list(exact.values.values()) for exact in manifest.exactly]
        files[AREAS] = areas_to_parquet(manifest.law.areas, columns)
    if manifest.chain is not None:
        files.update(tree_to_files(manifest.chain.law, below))
    if manifest.gives_cells_away:
        _add(files, left_out, EXACT_CELLS, lambda: exact_cells_to_parquet(manifest.reviews))
    parts: dict[str, object] = {}
    for name, make in PARTS.items() if REPORT not in left_out else ():
        _add(parts, left_out, name, partial(make, manifest, tables, below))
    _add(files, left_out, EXPECTED_ERRORS, partial(expected_errors_csv, manifest, tables, below, parts))
    if PARQUET not in left_out:
        _add(files, left_out, PARQUET, lambda: csv_to_parquet(files[TABLE], types_of(manifest.law)))
    if REPORT not in left_out:
        _add(files, left_out, REPORT, lambda: report(manifest, tables, parts, below).encode())
    if REPORT in left_out:
        for name in PARTS:
            left_out.pop(name, None)
    files[README] = readme(manifest).encode()
    content = manifest.with_files(files).as_bytes()
    files[MANIFEST] = content
    if key is not None:
        files[SIGNATURE] = sign(content, key)
    return files


def _add(made: dict[str, _Made], left_out: dict[str, str], name: str, make: Callable[[], _Made]) -> None:
    """Make something, or say why it is left out. What it is made from is public, and so is what goes wrong."""
    try:
        made[name] = make()
    except CongenialError as refused:
        left_out[name] = f"could not be made: {refused}"
    except Exception as failed:  # noqa: BLE001
        left_out[name] = f"could not be made ({type(failed).__name__})"
