"""The release that later tables agree with: read from its verified bundle, copied into the later one, read from there.

The later bundle has what it needs of the earlier one as files of its own, byte for byte: the manifest, which lists the
digests of the others, and the measurements and records that the later tables follow from. So whoever verifies the later
bundle needs nothing else.
"""

import io
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from congenial.bundle.canonical_json import digest
from congenial.bundle.file_registry import EARLIER, LARGEST, MANIFEST, RECORDS
from congenial.bundle.manifest import untouched_values
from congenial.bundle.workload_files import file_of, read_measurements, read_records
from congenial.bundle.workload_manifest import WorkloadManifest, is_workload
from congenial.errors import BundleError, CongenialError
from congenial.workload.later import KEEP, UNCHANGED, Agreement, EarlierRelease

OpenFile = Callable[[str], AbstractContextManager[BinaryIO]]


def earlier_release(folder: str | Path, *, how: str, records: str | None = None) -> EarlierRelease:
    """Verify the bundle of an earlier release in full, and return what later tables need of it.

    Parameters
    ----------
    folder : path
    how : str
        ``"keep"`` holds its published tables; ``"revise"`` computes the tables of both releases anew.
    records : str, optional
        ``"unchanged"`` declares that the later release is of the same records.
    """
    from congenial.bundle.verify import verify_bundle

    if records not in (None, UNCHANGED):
        raise BundleError(f"records are declared {UNCHANGED!r}, or nothing is said of them; this says {records!r}")
    verified = verify_bundle(folder)
    manifest = verified.bundle.manifest
    if not isinstance(manifest, WorkloadManifest):
        raise BundleError(
            f"release {manifest.naming.release!r} is not one of several tables of the same records; name one with"
            " `tables:`, or leave agree_with out"
        )
    if not manifest.has_tables:
        raise BundleError(
            f"release {manifest.naming.release!r} has measurements and no tables, so that nothing can agree with it"
        )
    place = Path(folder)
    content = (place / MANIFEST).read_bytes()
    agreement = Agreement(manifest.naming.release, digest(content), how, records == UNCHANGED)
    return read_earlier(agreement, content, lambda name: (place / name).open("rb"))


def read_earlier(agreement: Agreement, manifest: bytes, open_file: OpenFile) -> EarlierRelease:
    """Read what later tables need of a release; refuses files that are not those its manifest lists.

    Parameters
    ----------
    manifest : bytes
        Of the earlier release.
    open_file : callable
        Opens a file of that release by its name there.
    """
    if digest(manifest) != agreement.manifest:
        raise BundleError(f"the manifest of release {agreement.release!r} is not the one that these tables agree with")
    values = untouched_values(manifest)
    if not is_workload(values):
        raise BundleError(f"release {agreement.release!r} is not one of several tables of the same records")
    earlier = read_manifest(values, open_file)
    if earlier.naming.release != agreement.release or not earlier.has_tables:
        raise BundleError(f"the manifest is not that of release {agreement.release!r}, or it has no tables")
    files = {MANIFEST: manifest}
    law, measured, records = earlier.law, [], None
    for number, table in enumerate(law.measured_tables_of_records):
        name = file_of("measurements", number + 1, table, "parquet")
        files[name] = _listed(earlier, name, open_file)
        measured.append(read_measurements(law, number, name, io.BytesIO(files[name])))
    if not earlier.plan.has_exact_sums(measured):
        raise BundleError(f"measurements of release {agreement.release!r} do not have its exact sums")
    if agreement.how == KEEP:
        files[RECORDS] = _listed(earlier, RECORDS, open_file)
        records = read_records(law, io.BytesIO(files[RECORDS]), earlier.plan.n_records(measured))
        try:
            earlier.plan.check_exact_numbers(records)
        except CongenialError as wrong:
            raise BundleError(f"release {agreement.release!r}: {wrong}") from None
    if earlier.plan.earlier is not None:
        files |= {f"{EARLIER}{name}": content for name, content in earlier.plan.earlier.files.items()}
    naming = earlier.naming
    return EarlierRelease(agreement, naming.dataset, naming.status, earlier.plan, tuple(measured), records, files)


def read_manifest(values: Mapping[str, Any], open_file: OpenFile) -> WorkloadManifest:
    """Read a manifest, and what it needs of the release that its tables agree with from the files beside it."""

    @contextmanager
    def open_earlier(name: str) -> Iterator[BinaryIO]:
        with open_file(f"{EARLIER}{name}") as file:
            yield file

    def read(agreement: Agreement) -> EarlierRelease:
        return read_earlier(agreement, _whole(open_earlier, MANIFEST), open_earlier)

    return WorkloadManifest.with_earlier(values, read)


def _whole(open_file: OpenFile, name: str) -> bytes:
    with open_file(name) as file:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise BundleError(f"{name} is larger than a gigabyte; no bundle has such a file")
        return file.read()


def _listed(manifest: WorkloadManifest, name: str, open_file: OpenFile) -> bytes:
    """Return a file that a manifest lists; refuses another one."""
    content = _whole(open_file, name)
    if digest(content) != manifest.files.get(name):
        raise BundleError(f"{name} is not the file that release {manifest.naming.release!r} published under that name")
    return content
