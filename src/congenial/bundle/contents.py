"""Every file of a bundle, from the manifest's facts and the drawn tables alone."""

from collections.abc import Mapping
from dataclasses import replace

from congenial.arrays import Ints
from congenial.bundle.areas_file import areas_to_parquet
from congenial.bundle.file_names import (
    AREAS,
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
from congenial.bundle.report import report
from congenial.bundle.signing import PrivateKey, sign
from congenial.bundle.table_csv import tables_to_csv, types_of
from congenial.conditions.areas import Area


def bundle_files(
    manifest: Manifest, tables: Mapping[Area, Ints], outputs: tuple[str, ...], key: PrivateKey | None = None
) -> dict[str, bytes]:
    """Return the files of a bundle by name.

    Nothing else goes in: with the same drawn tables, the same facts and the same clock, every byte is the same.
    """
    left_out = {name: NOT_ASKED_FOR for output, name in OF_OUTPUT.items() if output not in outputs}
    manifest = replace(manifest, left_out=left_out)
    files = {TABLE: tables_to_csv(manifest.law, tables)}
    if manifest.law.areas.name is not None:
        columns = [list(exact.values.values()) for exact in manifest.exactly]
        files[AREAS] = areas_to_parquet(manifest.law.areas, columns)
    if PARQUET not in left_out:
        files[PARQUET] = csv_to_parquet(files[TABLE], types_of(manifest.law))
    if REPORT not in left_out:
        files[REPORT] = report(manifest, tables).encode()
    files[README] = readme(manifest).encode()
    content = manifest.with_files(files).as_bytes()
    files[MANIFEST] = content
    if key is not None:
        files[SIGNATURE] = sign(content, key)
    return files
