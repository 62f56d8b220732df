"""A DuckDB session that sees the named files and nothing else, keeps everything in memory and never speaks of values.

What DuckDB says about an error may quote a row, so it is thrown away, even as the context of our own errors.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from congenial.arrow_columns import numbers_to_arrow, texts_to_arrow
from congenial.errors import ReadingError
from congenial.resources import memory_for_reading, n_processors

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyarrow import RecordBatch

GROUPED = "grouped_rows"
"""The table of rows that were grouped elsewhere."""

_ROWS = 250_000  # at a time: a few megabytes
Result = TypeVar("Result")


class Session:
    """Runs queries and reports only that one failed."""

    def __init__(self, connection: "DuckDBPyConnection") -> None:
        self._connection = connection

    def rows(self, query: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]] | None:
        """Return the rows of a query; None when it failed."""
        return self._tried(lambda: self._connection.execute(query, values or {}).fetchall())

    def columns(self, query: str) -> dict[str, Any] | None:
        """Return the columns of a query as arrays; None when it failed."""
        return self._tried(lambda: self._connection.execute(query).fetchnumpy())

    def know(self, name: str, columns: Mapping[str, Sequence[str] | NDArray[Any]]) -> None:
        """Make public columns known to queries as a table of this name."""
        import pyarrow

        made = [
            numbers_to_arrow(one) if isinstance(one, np.ndarray) else texts_to_arrow(one) for one in columns.values()
        ]
        self._connection.register(name, pyarrow.Table.from_arrays(made, names=list(columns)))

    def each_part(self, query: str, take: "Callable[[RecordBatch], None]") -> bool:
        """Hand the rows of a query on in parts, in no particular order; false when it failed.

        Rows come as Arrow columns: nothing is made of a single row, and the memory does not depend on how many there
        are.
        """

        def work() -> bool:
            for part in self._connection.sql(query).to_arrow_reader(_ROWS):
                take(part)
            return True

        return self._tried(work) is not None

    @staticmethod
    def _tried(work: Callable[[], Result]) -> Result | None:
        import duckdb
        import pyarrow

        try:
            return work()
        except (duckdb.Error, UnicodeDecodeError, pyarrow.ArrowException, OSError) as error:
            # Through Arrow an error arrives as a text alone, which is looked at and never shown.
            is_memory = isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory" in str(error)
        if is_memory:  # raised out here, where DuckDB's error is no longer its context
            raise ReadingError(
                f"adding up the rows takes more memory than the {memory_for_reading() // 10**6:,} MB set aside for it,"
                " a third of what this process may take; allow more, --memory or the environment variable"
                " CONGENIAL_MEMORY"
            )
        return None


@contextmanager
def session(paths: Sequence[Path], grouped: Any = None) -> Iterator[Session]:
    """Open a session for these files, or for rows that were grouped elsewhere, as an Arrow table."""
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "allow_persistent_secrets": False,
            "memory_limit": f"{memory_for_reading() // 10**6}MB",
            "preserve_insertion_order": False,
            "python_enable_replacements": False,
            "temp_directory": "",  # confidential rows never reach a disk, not even for a moment
            "threads": min(4, n_processors()),
        },
    )
    try:
        allowed = {text for path in paths for text in (str(path), _without_magic(path))}
        connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, sorted(allowed)))}]")
        connection.execute("SET enable_progress_bar = false")
        # How many rows a CSV file has is not known before it is read; a wrong guess would keep all of them in memory as
        # the table to look up in (10 million rows: out of memory), where only the levels should be.
        connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        if grouped is not None:
            connection.register(GROUPED, grouped)
        yield Session(connection)
    finally:
        connection.close()


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def path_list(paths: Sequence[Path]) -> str:
    """Return files as an SQL list in which nothing is a pattern."""
    return f"[{', '.join(quoted(_without_magic(path)) for path in paths)}]"


def _without_magic(path: Path) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path))
