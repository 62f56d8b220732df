"""Whoever can write a whole folder: changes a manifest and computes anew every digest that stands in it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from congenial.bundle.canonical_json import canonical_json, digest
from congenial.bundle.cell_intervals import interval_columns
from congenial.bundle.file_registry import EXPECTED_ERRORS, MEASUREMENTS, README, REPORT
from congenial.bundle.measurement_files import read_parquet
from congenial.bundle.report_and_readme import expected_errors_csv, readme, report
from congenial.bundle.table_files import Columns
from congenial.errors import CongenialError
from releases import manifest_of
from table_files import csv_tables

Change = Callable[[dict[str, Any]], None]


def nothing(_: dict[str, Any]) -> None:
    """Change nothing."""


def at(*path: str | int, value: object = ...) -> Change:
    """Put a value at a place of a manifest; without one, take away what is there."""

    def change(values: Any) -> None:
        for name in path[:-1]:
            values = values[name]
        if value is ...:
            del values[path[-1]]
        else:
            values[path[-1]] = value

    return change


def both(*changes: Change) -> Change:
    """Make several changes."""

    def change(values: dict[str, Any]) -> None:
        for one in changes:
            one(values)

    return change


def forge(folder: Path, change: Change, *, plan: bool = True, pages: bool = False) -> Path:
    """Change the manifest of a folder. The signature goes, for a key is what a forger does not have.

    Parameters
    ----------
    plan : bool
        Compute the digest of the plan in the receipt anew, too, where what came out is a manifest.
    pages : bool
        Make the report, the README and the errors to expect of what came out.
    """
    values = json.loads((folder / "manifest.json").read_bytes())
    del values["digest"]
    change(values)
    (folder / "signature.json").unlink(missing_ok=True)
    _list_files(folder, values)
    _write(folder, values)
    try:
        found = manifest_of(folder)
    except (CongenialError, FileNotFoundError):  # no manifest, or of areas that are not there
        return folder
    if plan and found.receipt is not None:
        values["receipt"]["plan"] = found.plan_digest
        _write(folder, values)
        found = manifest_of(folder)
    if pages:
        (folder / README).write_text(readme(found), encoding="utf-8")
        more: Columns = ()
        measurements = None
        if found.law.is_measured:
            with (folder / MEASUREMENTS).open("rb") as file:
                measurements = read_parquet(found.law, file)
            more = interval_columns(found.plan, measurements)
        levels = (csv_tables(found.law, (folder / "table.csv").read_bytes(), more),)
        if REPORT in found.files:
            (folder / REPORT).write_text(report(found, levels, measurements=measurements), encoding="utf-8")
        if EXPECTED_ERRORS in found.files:
            (folder / EXPECTED_ERRORS).write_bytes(expected_errors_csv(found, levels))
        _list_files(folder, values)
        _write(folder, values)
    return folder


def _list_files(folder: Path, values: dict[str, Any]) -> None:
    listed = values.get("files")
    if not isinstance(listed, dict):
        return
    for name in listed:
        if (folder / name).is_file():
            listed[name] = digest((folder / name).read_bytes())


def _write(folder: Path, values: dict[str, Any]) -> None:
    try:
        (folder / "manifest.json").write_bytes(canonical_json({**values, "digest": digest(canonical_json(values))}))
    except UnicodeEncodeError:  # half a surrogate
        (folder / "manifest.json").write_text(json.dumps(values), encoding="utf-8")
