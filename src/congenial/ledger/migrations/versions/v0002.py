"""Withdrawals, append-only: what is said of a release after publication."""

from alembic import op
from sqlalchemy import CheckConstraint, Column, ForeignKeyConstraint, Integer, PrimaryKeyConstraint, Text

revision = "v0002"
down_revision = "v0001"

TABLE = "congenial_withdrawals"


def upgrade() -> None:
    """Make the table and the triggers that keep it append-only."""
    fields = ("dataset", "release", "reason", "who", "at", "software", "previous", "hash")
    op.create_table(
        TABLE,
        *(Column(field, Text, nullable=False) for field in fields),
        Column("number", Integer, nullable=False),
        Column("replaced_by", Text),
        PrimaryKeyConstraint("dataset", "number"),
        ForeignKeyConstraint(["dataset", "release"], ["congenial_spends.dataset", "congenial_spends.release"]),
        ForeignKeyConstraint(["dataset", "replaced_by"], ["congenial_spends.dataset", "congenial_spends.release"]),
        CheckConstraint("number > 1"),
    )
    statements = _SQLITE if op.get_context().dialect.name == "sqlite" else _POSTGRESQL
    for statement in statements:
        op.execute(statement)


_REFUSE = "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"

_SQLITE = [
    *(
        f"CREATE TRIGGER {TABLE}_no_{action.lower()} BEFORE {action} ON {TABLE} {_REFUSE}"
        for action in ("UPDATE", "DELETE")
    ),
    # A place in the chain belongs to one record, of either kind; INSERT OR REPLACE deletes without a DELETE trigger.
    *(
        f"CREATE TRIGGER {own}_apart_from_{other} BEFORE INSERT ON {own}"  # noqa: S608  names of our own
        f" WHEN EXISTS (SELECT 1 FROM {other} WHERE dataset = NEW.dataset AND number = NEW.number) {_REFUSE}"
        for own, other in ((TABLE, TABLE), (TABLE, "congenial_spends"), ("congenial_spends", TABLE))
    ),
]

_POSTGRESQL = [
    f"CREATE TRIGGER {TABLE}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {TABLE}"
    " FOR EACH STATEMENT EXECUTE FUNCTION congenial_append_only()",
]
