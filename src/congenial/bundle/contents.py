"""Every file of a bundle, from the manifest's facts and the drawn tables alone."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

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
    TOO_LONG,
)
from congenial.bundle.manifest import Manifest
from congenial.bundle.promises import readme
from congenial.bundle.report import PARTS, expected_errors_csv, report
from congenial.bundle.review_json import exact_cells_to_parquet
from congenial.bundle.signing import PrivateKey, sign
from congenial.bundle.table_csv import is_long, write_csv
from congenial.bundle.table_parquet import write_tables
from congenial.bundle.tree_files import tree_to_files
from congenial.bundle.writing import Content, Unfinished
from congenial.chunks import beside
from congenial.errors import CongenialError
from congenial.progress import Progress, no_news


def bundle_files(
    out: Unfinished,
    manifest: Manifest,
    tables: Ints,
    outputs: tuple[str, ...],
    key: PrivateKey | None = None,
    below: Sequence[Ints] = (),
    progress: Progress = no_news,
) -> None:
    """Write the files of a bundle; of a tree, `below` are the tables (unit, cell) of each level below the top.

    Nothing else goes in: with the same drawn tables, the same facts and the same clock, every byte is the same. What
    cannot be made besides the table itself is left out, with the reason: it must not cost a release that is paid for.
    """
    law = manifest.law
    left_out = {name: NOT_ASKED_FOR for output, name in OF_OUTPUT.items() if output not in outputs}
    manifest = replace(manifest, left_out=left_out)  # what cannot be made is added below, before anything says so

    def add(name: str, make: Callable[[], Content]) -> None:
        with _or_left_out(left_out, name):
            out.add(name, make())

    has_csv = PARQUET in left_out or not is_long(law)
    with (  # the three take about as long as one another
        beside(lambda: _parts(manifest, tables, below) if REPORT not in left_out else ({}, {})) as made,
        beside(lambda: out.add(TABLE, partial(write_csv, law, tables, progress=progress)) if has_csv else None) as csv,
    ):
        if PARQUET not in left_out:
            write = partial(write_tables, law, tables, progress=no_news if has_csv else progress)
            if has_csv:
                add(PARQUET, lambda: write)
            else:
                out.add(PARQUET, write)  # there is no other table
        if law.areas.name is not None:
            out.add(AREAS, areas_to_parquet(law.areas, [exact.values for exact in manifest.exactly]))
        if manifest.chain is not None:
            for name, write_file in tree_to_files(manifest.chain.law, below).items():
                out.add(name, write_file)
        csv()
        parts, not_made = made()
    left_out.update(not_made if has_csv else {**not_made, TABLE: TOO_LONG})
    if manifest.gives_cells_away:
        add(EXACT_CELLS, lambda: exact_cells_to_parquet(manifest.reviews))
    add(EXPECTED_ERRORS, partial(expected_errors_csv, manifest, tables, below, parts))
    if REPORT not in left_out:
        add(REPORT, lambda: report(manifest, tables, parts, below).encode())
    if REPORT in left_out:
        for name in PARTS:
            left_out.pop(name, None)
    out.add(README, readme(manifest).encode())
    # The table is the first, whenever it was done.
    files = dict(sorted(out.digests.items(), key=lambda file: file[0] != TABLE))
    content = replace(manifest, files=files).as_bytes()
    out.add(MANIFEST, content)
    if key is not None:
        out.add(SIGNATURE, sign(content, key))


def _parts(manifest: Manifest, tables: Ints, below: Sequence[Ints]) -> tuple[dict[str, object], dict[str, str]]:
    """Return what the report can do without, made while the tables are written, and why some of it could not be."""
    parts: dict[str, object] = {}
    left_out: dict[str, str] = {}
    for name, make in PARTS.items():
        with _or_left_out(left_out, name):
            parts[name] = make(manifest, tables, below)
    return parts, left_out


@contextmanager
def _or_left_out(left_out: dict[str, str], name: str) -> Iterator[None]:
    """Say why something is left out that cannot be made. What it is made from is public, and so is what goes wrong."""
    try:
        yield
    except OSError:  # of the disk: the bundle is written again elsewhere, or later
        raise
    except CongenialError as refused:
        left_out[name] = f"could not be made: {refused}"
    except Exception as failed:  # noqa: BLE001
        left_out[name] = f"could not be made ({type(failed).__name__})"
