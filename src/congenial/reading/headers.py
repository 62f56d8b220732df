"""The columns of data files: the header of a CSV file, the footer of a Parquet file."""

from collections.abc import Sequence
from pathlib import Path

from congenial.errors import ReadingError
from congenial.packing import check_whole, is_packed
from congenial.reading.files import Column, Source, csv_columns, first_bytes, is_parquet
from congenial.reading.session import Session, path_list


def read_sources(database: Session, paths: Sequence[Path], separator: str) -> list[Source]:
    """Return the files, those with the same columns together."""
    together: dict[tuple[bool, tuple[Column, ...], bool], list[Path]] = {}
    for path in paths:
        head = first_bytes(path)
        packed, parquet = is_packed(path), is_parquet(path, head)
        if packed and parquet:
            raise ReadingError(f"{path.name} is a Parquet file packed by gzip; unpack it, for Parquet is packed inside")
        if packed:
            check_whole(path)
        columns = _parquet_columns(database, path) if parquet else csv_columns(path, head, separator)
        together.setdefault((parquet, columns, packed), []).append(path)
    return [Source(tuple(files), *alike) for alike, files in together.items()]


def _parquet_columns(database: Session, path: Path) -> tuple[Column, ...]:
    files = path_list([path])
    kinds = database.rows(f"DESCRIBE SELECT * FROM read_parquet({files}, hive_partitioning = false)")  # noqa: S608
    tree = database.rows(f"SELECT name, num_children FROM parquet_schema({files})")  # noqa: S608
    if kinds is None or tree is None:
        raise ReadingError(f"{path.name} is not a Parquet file that can be read; it may be cut short or damaged")
    names = []
    place = 1  # the first entry is the root; DESCRIBE would rename columns that differ only in capitals
    while place < len(tree):
        names.append(tree[place][0])
        open_children = 1
        while open_children:
            open_children += (tree[place][1] or 0) - 1
            place += 1
    return tuple(Column(name, kind[1]) for name, kind in zip(names, kinds, strict=True))
