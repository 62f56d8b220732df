"""A connection to a ledger's database, spoken to in plain SQL through the driver's own."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Connection:
    """A connection for one transaction.

    A value is never written into a statement: its place there is a ``?``, and it goes to the database beside it.

    Attributes
    ----------
    driver : connection
        Of sqlite3 or psycopg.
    marker : str
        What the driver has in place of ``?``.
    """

    driver: Any = field(repr=False)
    marker: str

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return all that a question finds."""
        return list(self.driver.execute(self._marked(statement), values).fetchall())

    def execute(self, statement: str, *values: object) -> None:
        """Run a statement that has no answer, or one that nobody asks for."""
        self.driver.execute(self._marked(statement), values)

    def commit(self) -> None:
        """Make what was written last."""
        self.driver.commit()

    def close(self) -> None:
        """Undo what was not committed, and close; a connection that broke has nothing more to say about either."""
        for end in (self.driver.rollback, self.driver.close):
            with suppress(Exception):
                end()

    def _marked(self, statement: str) -> str:
        return statement.replace("?", self.marker)
