"""The files of several tables of the same records: measurements, tables, records, what the rule did. Public.

Measurements are read as they stand; everything else follows from them and the manifest, and is compared with that.
"""

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import arrow_to_numbers, numbers_to_arrow, texts_to_arrow
from congenial.bundle.file_registry import (
    EARLIER,
    FIT,
    MANIFEST,
    NOT_REQUESTED,
    README,
    RECORDS,
    REPORT,
    SIGNATURE,
    BundleFile,
    Content,
)
from congenial.bundle.naming_and_versions import SOFTWARE
from congenial.bundle.parquet import WIDEST, check_sizes, damage_as_refusal
from congenial.bundle.signing import PrivateKey, sign
from congenial.bundle.table_files import csv_bytes
from congenial.bundle.workload_manifest import WorkloadManifest
from congenial.errors import BundleError, CongenialError
from congenial.memory_and_threads import explain_memory
from congenial.progress_and_interrupts import WRITING, Progress, silent
from congenial.schema import Schema
from congenial.tree.tree_and_zeros import TreeTables
from congenial.workload.estimates import TableColumns, table_columns
from congenial.workload.law import RecordTable, WorkloadLaw
from congenial.workload.plan import WorkloadDecision

if TYPE_CHECKING:
    import pyarrow as pa

    from congenial.bundle.write import Unfinished

_MEASURED = "measured"
_NOTE = b"congenial"  # what metadata of the records say of them stands under it
_COPIES = 3  # of what a file holds that are in memory together
_RECORDS_OF_A_GROUP = 1_000_000


def file_letters(name: str) -> str:
    """Return a table's name as part of a file's name.

    Examples
    --------
    >>> file_letters("County x Age (5 years)")
    'county-x-age-5-years'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")


def file_of(kind: str, number: int, table: RecordTable, ending: str) -> str:
    """Return the name of a table's file, such as ``table-1-by-age.csv``."""
    letters = file_letters(table.name)
    return f"{kind}-{number}{'-' if letters else ''}{letters}.{ending}"


@dataclass(frozen=True)
class WorkloadContents:
    """What the files are made from. Public.

    Attributes
    ----------
    measured : tuple of arrays (1, cell)
    decision : WorkloadDecision or None
    columns : tuple of TableColumns
        Of each published table: counts, measurements, estimates and their intervals.
    """

    manifest: WorkloadManifest
    measured: TreeTables
    decision: WorkloadDecision | None
    columns: tuple[TableColumns, ...] = ()


# A table of labels and numbers, a row a cell.


def _label_columns(schema: Schema) -> "dict[str, pa.Array]":
    import pyarrow as pa

    places = np.unravel_index(np.arange(schema.n_cells), schema.shape)
    return {
        dimension.name: pa.DictionaryArray.from_arrays(
            numbers_to_arrow(np.asarray(place, np.int32)), texts_to_arrow(dimension.labels)
        )
        for dimension, place in zip(schema.dimensions, places, strict=True)
    }


def _with_numbers(schema: Schema, numbers: Mapping[str, Any]) -> "pa.RecordBatch":
    import pyarrow as pa

    columns = _label_columns(schema)
    for name, values in numbers.items():
        column = name
        while column in columns:
            column = f"published_{column}"
        columns[column] = numbers_to_arrow(np.asarray(values).reshape(-1))
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _write_parquet(batch: "pa.RecordBatch", out: BinaryIO) -> None:
    from pyarrow import parquet

    with parquet.ParquetWriter(out, batch.schema, compression="zstd", store_schema=False) as file:
        file.write_batch(batch)


def _csv(batch: "pa.RecordBatch") -> bytes:
    import pyarrow as pa

    columns = [
        column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
    ]
    return csv_bytes(pa.record_batch(columns, batch.schema.names), has_header=True)


def _measurements(number: int, contents: WorkloadContents) -> Content:
    law = contents.manifest.law
    schema = law.measured_laws[number].schema
    return partial(_write_parquet, _with_numbers(schema, {_MEASURED: contents.measured[number]}))


def measurement_files(out: "Unfinished", law: WorkloadLaw, measured: TreeTables) -> None:
    """Write the measurements of every table: they are on disk before anything is decided from them."""
    for number, (table, each, values) in enumerate(
        zip(law.measured_tables_of_records, law.measured_laws, measured, strict=True), 1
    ):
        batch = _with_numbers(each.schema, {_MEASURED: values})
        out.add(file_of("measurements", number, table, "parquet"), partial(_write_parquet, batch))


def read_measurements(law: WorkloadLaw, number: int, name: str, file: BinaryIO) -> Ints:
    """Read the measurements of a table (1, cell); refuses a file that is not as it should be."""
    from pyarrow import parquet

    schema = law.measured_laws[number].schema
    if wrong := explain_memory(_COPIES * schema.n_cells * (len(schema.names) + 1), f"the cells of {name}"):
        raise BundleError(wrong)
    refusal = BundleError(f"{name} does not have the cells and measurements that the manifest describes")
    with damage_as_refusal():
        expected = _with_numbers(schema, {_MEASURED: np.zeros(schema.n_cells, np.int64)})
        metadata = parquet.read_metadata(file)
        check_sizes(metadata, name, schema.n_cells, 64 + len(schema.names) * (WIDEST + 4))
        file.seek(0)
        stored = parquet.read_schema(file)
        kinds = [*(["string"] * len(schema.names)), "int64"]
        if stored.metadata or stored.names != expected.schema.names or [str(field.type) for field in stored] != kinds:
            raise refusal
        file.seek(0)
        table = parquet.ParquetFile(file, read_dictionary=list(schema.names)).read()
        if any(column.null_count for column in table.columns):
            raise refusal
        for column in schema.names:
            if table.column(column).to_pylist() != expected.column(column).to_pylist():
                raise refusal
        values = table.column(expected.schema.names[-1])
        out: Ints = arrow_to_numbers(values).reshape(1, -1).astype(np.int64)
    return out


OpenFile = Callable[[str], AbstractContextManager[BinaryIO]]
"""Given a file's name: the file, open."""


def read_workload(manifest: WorkloadManifest, open_file: OpenFile) -> tuple[TreeTables, Ints | None]:
    """Read measurements, and records where there are tables; refuses measurements without their exact sums."""
    law = manifest.law
    measured = []
    for number, table in enumerate(law.measured_tables_of_records):
        name = file_of("measurements", number + 1, table, "parquet")
        with open_file(name) as file:
            measured.append(read_measurements(law, number, name, file))
    if not manifest.plan.has_exact_sums(measured):
        raise BundleError("the measurements do not have the exact sums that the manifest states")
    records = None
    if manifest.has_tables:
        n_records = manifest.plan.n_records(measured)
        with open_file(RECORDS) as file:
            records = read_records(law, file, n_records)
    return tuple(measured), records


def _published(number: int, contents: WorkloadContents) -> "pa.RecordBatch":
    law = contents.manifest.law
    table = contents.manifest.plan.published[number]
    return _with_numbers(law.schema.part(table.dimensions), contents.columns[number].as_dict())


def _table_csv(number: int, contents: WorkloadContents) -> Content:
    return _csv(_published(number, contents))


def _table_parquet(number: int, contents: WorkloadContents) -> Content:
    return partial(_write_parquet, _published(number, contents))


def _decided(contents: WorkloadContents) -> WorkloadDecision:
    if contents.decision is None:
        raise BundleError("internal: there are no tables")
    return contents.decision


def _records(contents: WorkloadContents) -> Content:
    return partial(write_records, contents.manifest.law, np.asarray(_decided(contents).records))


def records_note(law: WorkloadLaw) -> str:
    """Return what is said of the records wherever they are: what was measured of them, and that the rest is a model."""
    names = "; ".join(" x ".join(table.dimensions) for table in law.measured_tables_of_records)
    return (
        f"Made-up records whose counts are the published tables. Measured was: {names}. Anything else in these records"
        " is a model: two things are as independent in it as what was measured allows."
    )


def write_records(law: WorkloadLaw, records: Ints, out: BinaryIO) -> None:
    """Write records (record, dimension) as Parquet, a column of labels for each dimension."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([(name, pa.dictionary(pa.int32(), pa.string())) for name in law.schema.names])
    with parquet.ParquetWriter(out, schema, compression="zstd", store_schema=False) as file:
        file.add_key_value_metadata({_NOTE: records_note(law).encode()})  # that of a schema is not stored
        for start in range(0, len(records), _RECORDS_OF_A_GROUP):
            part = records[start : start + _RECORDS_OF_A_GROUP]
            columns = [
                pa.DictionaryArray.from_arrays(
                    numbers_to_arrow(part[:, axis].astype(np.int32)), texts_to_arrow(dimension.labels)
                )
                for axis, dimension in enumerate(law.schema.dimensions)
            ]
            file.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))


def check_records_note(law: WorkloadLaw, file: BinaryIO) -> None:
    """Refuse records that say something else of what was measured, in their metadata, than their law does."""
    from pyarrow import parquet

    with damage_as_refusal():
        if parquet.read_schema(file).metadata != {_NOTE: records_note(law).encode()}:
            raise BundleError(f"{RECORDS} says something else of what was measured than the manifest")


def read_records(law: WorkloadLaw, file: BinaryIO, n_records: int) -> Ints:
    """Read the records (record, dimension) that `write_records` wrote; refuses another number, and unknown labels."""
    from pyarrow import parquet

    names = list(law.schema.names)
    if wrong := explain_memory(_COPIES * n_records * len(names), f"{n_records:,} records"):
        raise BundleError(wrong)
    with damage_as_refusal():
        schema = parquet.read_schema(file)
        if schema.names != names or any(str(field.type) != "string" for field in schema):
            raise BundleError(f"{RECORDS} does not have the dimensions of the records")
        check_sizes(parquet.read_metadata(file), RECORDS, n_records, len(names) * (WIDEST + 4))
        file.seek(0)
        table = parquet.ParquetFile(file, read_dictionary=names).read()
        if any(column.null_count for column in table.columns):
            raise BundleError(f"{RECORDS} has a missing value")
        out = np.zeros((table.num_rows, len(names)), np.int64)
        for axis, dimension in enumerate(law.schema.dimensions):
            joined = table.column(dimension.name).unify_dictionaries().combine_chunks()
            column = joined.chunk(0) if hasattr(joined, "chunk") else joined
            if not len(out):
                continue
            places = np.array([dimension.positions.get(text, -1) for text in column.dictionary.to_pylist()], np.int64)
            out[:, axis] = places[arrow_to_numbers(column.indices)]
        if out.size and out.min() < 0:
            raise BundleError(f"{RECORDS} has labels that its dimensions have not")
    return out


def _fit(contents: WorkloadContents) -> Content:
    facts = {"rule": contents.manifest.law.rule[0], **_decided(contents).facts}
    return (json.dumps(facts, indent=1, sort_keys=True) + "\n").encode()


def _report(contents: WorkloadContents) -> Content:
    from congenial.bundle.workload_report import report

    return report(contents.manifest, contents.columns, _decided(contents)).encode()


def _copied(content: bytes, _: WorkloadContents) -> Content:
    return content


def _readme(contents: WorkloadContents) -> Content:
    from congenial.bundle.workload_report import readme

    return readme(contents.manifest).encode()


def files_of_workload(manifest: WorkloadManifest) -> list[BundleFile]:
    """Return the files that a bundle with this manifest has, those that were left out not among them."""
    return [file for file in _every_file(manifest) if file.name not in manifest.left_out]


_ALL = tuple(name for name in SOFTWARE if name != "pyarrow")


def _every_file(manifest: WorkloadManifest) -> Iterator[BundleFile]:
    law = manifest.law

    def entry(name: str, line: str, make: Callable[[WorkloadContents], Content], **more: Any) -> BundleFile:
        return BundleFile(name, line, make, **more)  # type: ignore[arg-type]

    for number, table in enumerate(law.measured_tables_of_records, 1):
        line = f"the measurements of {table.name}: true counts plus noise, a row a cell; may be negative"
        yield entry(file_of("measurements", number, table, "parquet"), line, partial(_measurements, number - 1))
    if manifest.has_tables:
        for number, table in enumerate(manifest.plan.published, 1):
            line = f"{table.name}: counts, measurements, estimates and their intervals, a row a cell"
            yield entry(file_of("table", number, table, "csv"), line, partial(_table_csv, number - 1))
            yield entry(
                *(
                    file_of("table", number, table, "parquet"),
                    "the same as Parquet",
                    partial(_table_parquet, number - 1),
                ),
                output="parquet",
            )
        line = "made-up records whose counts are all of these tables; what was not measured of them is a model"
        yield entry(RECORDS, line, _records)
        yield entry(FIT, "what the rule did: its steps, and how well the tables fit the measurements", _fit)
        yield entry(
            *(REPORT, "the same with pictures, to read in a browser", _report),
            output="report",
            is_page=True,
            is_required=lambda _: False,
            software=_ALL,
        )
    if manifest.plan.earlier is not None:
        for name, content in manifest.plan.earlier.files.items():
            line = f"{name} of release {manifest.plan.earlier.agreement.release}, as it is there"
            yield entry(f"{EARLIER}{name}", line, partial(_copied, content))
    yield entry(README, "this page", _readme, is_page=True, software=("python", "congenial"))


def optional_names(manifest: WorkloadManifest) -> list[str]:
    """Return what a bundle with this manifest may leave out."""
    return [file.name for file in _every_file(manifest) if file.output or not file.is_required(manifest)]


def left_out_by(manifest: WorkloadManifest, outputs: Sequence[str]) -> dict[str, str]:
    """Return the files that a release with these outputs leaves out, with the reason."""
    return {file.name: NOT_REQUESTED for file in _every_file(manifest) if file.output not in {None, *outputs}}


def workload_files(
    out: "Unfinished",
    manifest: WorkloadManifest,
    measured: TreeTables,
    decision: WorkloadDecision | None,
    outputs: tuple[str, ...],
    key: PrivateKey | None = None,
    progress: Progress = silent,
) -> None:
    """Write the files of a bundle: with the same measurements, facts and clock, every byte is the same."""
    left_out = left_out_by(manifest, outputs) if manifest.has_tables else {}
    manifest = replace(manifest, left_out=left_out)
    contents = contents_of(manifest, measured, decision)
    files = files_of_workload(manifest)
    for number, file in enumerate(files, 1):
        if file.name in out.digests:
            continue
        try:
            out.add(file.name, file.make(contents))  # type: ignore[arg-type]
        except OSError:
            raise
        except Exception as failed:
            if file.is_required(manifest):
                raise
            words = f": {failed}" if isinstance(failed, CongenialError) else f" ({type(failed).__name__})"
            left_out[file.name] = f"could not be made{words}"
        progress(WRITING, number, len(files))
    digests = {file.name: out.digests[file.name] for file in files_of_workload(manifest)}
    content = replace(manifest, files=digests).as_bytes()
    out.add(MANIFEST, content)
    if key is not None:
        out.add(SIGNATURE, sign(content, key))


def contents_of(
    manifest: WorkloadManifest, measured: TreeTables, decision: WorkloadDecision | None
) -> WorkloadContents:
    """Return what the files are made from."""
    columns = () if decision is None else table_columns(manifest.plan, measured, decision.tables)
    return WorkloadContents(manifest, measured, decision, columns)


def bytes_of(content: Content) -> bytes:
    """Return what a file holds."""
    if isinstance(content, bytes):
        return content
    out = io.BytesIO()
    content(out)
    return out.getvalue()
