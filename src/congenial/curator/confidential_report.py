"""CONFIDENTIAL-*.html: how far a release lies from the truth, for the curator alone. Never part of a bundle."""

import os
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from congenial.arrays import Ints
from congenial.bundle import expected_errors as aggregate_errors_text
from congenial.bundle.expected_errors import aggregate_errors, statistics
from congenial.conditions.rows_and_intervals import dense
from congenial.curator.workload_errors import WorkloadErrors
from congenial.display import table_rows
from congenial.errors import BundleError, reason_of
from congenial.memory_and_threads import parts_of
from congenial.pages.page import render
from congenial.published_release import Release
from congenial.randomness import secure_rng
from congenial.spec.spec_and_hierarchy import Spec
from congenial.table import CONFIDENTIAL
from congenial.workload.workload import PreparedWorkload

_MOST_TABLES = 20
_MOST_CELLS = 20_000  # of one of several tables that is laid out


def check_place(path: Path, bundle: Path) -> None:
    """Refuse, before anything is spent, a name that is not marked or a place in the bundle."""
    if not path.name.startswith(CONFIDENTIAL):
        raise BundleError(
            f"a comparison with the truth goes to a file that begins with {CONFIDENTIAL}, not to {path.name}"
        )
    if bundle.absolute() in path.absolute().parents:
        raise BundleError("a comparison with the truth never goes into the bundle; name a file elsewhere")
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise BundleError(f"{path} cannot be written: its folder does not exist, or it is a folder itself")
    if not os.access(path.absolute().parent, os.W_OK):
        raise BundleError(f"{path} cannot be written: its folder is read-only; name another place, or leave it out")


def write_confidential_report(path: Path, spec: Spec, confidential: Ints, release: Release) -> None:
    """Write the comparison to a file of its own that only its owner can read.

    Parameters
    ----------
    confidential : array (area, cell)
        The confidential tables, in the order of the release's areas.
    """
    gaps = ErrorSummary.of(release.counts, confidential)
    ranked = np.argsort(-gaps.of_tables, kind="stable")[:_MOST_TABLES].tolist()
    labels = release.plan.law.areas.labels
    page = render(
        "confidential.html",
        title=f"CONFIDENTIAL: {spec.release} compared with the truth",
        spec=spec,
        overview=gaps.overview,
        tables=None,
        **_sums(confidential, release),
        sheets=[
            (labels[place], *table_rows(spec.schema, release.counts[place] - confidential[place])) for place in ranked
        ],
        n_tables=len(labels),
    )
    _write(path, page)


def write_confidential_report_of_tables(path: Path, spec: Spec, ready: PreparedWorkload, release: Release) -> None:
    """Write the same of several tables of the same records, table by table."""
    plan, rows, sheets = ready.plan, [], []
    errors = {table.name: table for table in WorkloadErrors(plan.law).tables}
    measured = [table.name for table in plan.law.measured_tables_of_records]
    truths = dict(zip(measured, plan.split(ready.confidential), strict=True))
    for table, released in zip(plan.law.published, release.levels, strict=True):
        if table.name not in truths:  # exact numbers determine it
            continue
        away, expected = released - truths[table.name], errors[table.name]
        schema = plan.law.schema.part(table.dimensions)
        gaps = ErrorSummary.of(released, truths[table.name])
        n_cells = f"{schema.n_cells:,}"
        rows.append([table.name, n_cells, f"{gaps.mean:.3f}", f"{expected.typical:.3f}", *gaps.rest])
        if schema.n_cells <= _MOST_CELLS:
            sheets.append((table.name, *table_rows(schema, away.reshape(-1))))
    header = ["table", "cells", "mean absolute error", "of an estimate, expected", "largest error", "came out exactly"]
    page = render(
        "confidential.html",
        title=f"CONFIDENTIAL: {spec.release} compared with the truth",
        spec=spec,
        overview=[],
        tables=(header, rows),
        sheets=sheets,
        n_tables=len(sheets),
    )
    _write(path, page)


def _write(path: Path, page: str) -> None:
    try:
        path.unlink(missing_ok=True)
        with open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as out:
            out.write(page)
    except OSError as refused:
        raise BundleError(
            f"the bundle is written, but the comparison for you alone is not: {reason_of(refused)}"
        ) from None


@dataclass(frozen=True)
class ErrorSummary:
    """How far released tables are from the confidential ones, some areas at a time.

    Attributes
    ----------
    of_tables : array (area,)
        The sum of a table's absolute errors.
    """

    of_tables: Ints
    n_cells: int
    squares: float
    largest: int
    n_exact: int

    @classmethod
    def of(cls, released: Ints, confidential: Ints) -> "ErrorSummary":
        """Compare tables (area, cell)."""
        of_tables, squares, largest, n_exact = np.empty(len(released), np.int64), 0.0, 0, 0
        for part in parts_of(len(released)):
            gaps = np.abs(released[part] - confidential[part])
            of_tables[part] = gaps.sum(axis=1)
            squares += float((gaps.astype(np.float64) ** 2).sum())
            largest, n_exact = max(largest, int(gaps.max())), n_exact + int((gaps == 0).sum())
        return cls(of_tables, released.size, squares, largest, n_exact)

    @property
    def mean(self) -> float:
        """The mean absolute error of a cell."""
        return float(self.of_tables.sum() / self.n_cells)

    @property
    def rest(self) -> tuple[str, str]:
        """The largest error of a cell, and the share of cells that came out exactly, in words."""
        return f"{self.largest:,}", f"{self.n_exact / self.n_cells:.1%}"

    @property
    def overview(self) -> list[tuple[str, str]]:
        """What they come to, in words."""
        return [
            ("mean absolute error of a cell", f"{self.mean:.3f}"),
            ("root mean squared error of a cell", f"{sqrt(self.squares / self.n_cells):.3f}"),
            ("largest error of a cell", self.rest[0]),
            ("cells that came out exactly", self.rest[1]),
            ("mean L1 distance of a table", f"{self.of_tables.mean():,.1f}"),
        ]


def _sums(confidential: Ints, release: Release) -> dict[str, Any]:
    """Return what sums over areas and cells were to be off by, around the truth, and what they are off by."""
    aggregates = aggregate_errors(release.plan, confidential, "the confidential tables", rng=secure_rng())
    rows = dense(statistics(release.plan.law.schema), confidential.shape[1])
    off = ((release.counts.sum(axis=0) - confidential.sum(axis=0)) @ rows.T).tolist()
    by_name = dict(zip((row.name for row in statistics(release.plan.law.schema)), off, strict=True))
    header, lines = aggregate_errors_text.sums_table(aggregates)
    return {
        "warnings": aggregate_errors_text.warning_lines(aggregates),
        "around": aggregate_errors_text.around(aggregates),
        "sums": ([*header, "this release is off by"], [[*line, f"{by_name[line[0]]:+,}"] for line in lines]),
        "classes": aggregate_errors_text.classes_table(aggregates),
    }
