"""Every file of a bundle, from the manifest's facts and the drawn tables alone."""

from collections.abc import Mapping

from congenial.arrays import Ints
from congenial.bundle.areas_file import AREAS, areas_to_parquet
from congenial.bundle.loading import MANIFEST, SIGNATURE, TABLE
from congenial.bundle.manifest import Manifest
from congenial.bundle.parquet import csv_to_parquet
from congenial.bundle.promises import readme
from congenial.bundle.report import report
from congenial.bundle.signing import PrivateKey, sign
from congenial.bundle.table_csv import header_of, tables_to_csv
from congenial.conditions.areas import Area


def bundle_files(
    manifest: Manifest, tables: Mapping[Area, Ints], outputs: tuple[str, ...], key: PrivateKey | None = None
) -> dict[str, bytes]:
    """Return the files of a bundle by name.

    Nothing else goes in: with the same drawn tables, the same facts and the same clock, every byte is the same.
    """
    files = {TABLE: tables_to_csv(manifest.law, tables)}
    if manifest.law.areas.name is not None:
        columns = [list(exact.values.values()) for exact in manifest.exactly]
        files[AREAS] = areas_to_parquet(manifest.law.areas, columns)
    if "parquet" in outputs:
        *labels, count = header_of(manifest.law)
        files["table.parquet"] = csv_to_parquet(files[TABLE], {**dict.fromkeys(labels, "VARCHAR"), count: "BIGINT"})
    if "report" in outputs:
        files["report.html"] = report(manifest, tables).encode()
    named = manifest.with_files({**files, "README.txt": b""})
    files["README.txt"] = readme(named).encode()
    content = manifest.with_files(files).as_bytes()
    files[MANIFEST] = content
    if key is not None:
        files[SIGNATURE] = sign(content, key)
    return files
