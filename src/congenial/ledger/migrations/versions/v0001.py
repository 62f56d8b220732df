"""Datasets and spends, append-only.

The triggers are no protection against whoever owns the database; they keep a mistaken UPDATE or DELETE from going
through. What was done on purpose shows in the hash chain.
"""

from alembic import op
from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Integer,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
)

revision = "v0001"
down_revision = None

TABLES = ("congenial_datasets", "congenial_spends")


def upgrade() -> None:
    """Make the tables and the triggers that keep them append-only."""
    about_datasets = ("name", "folded", "neighbours", "currency", "cap", "who", "at", "software", "hash")
    op.create_table(
        "congenial_datasets",
        *(Column(field, Text, nullable=False) for field in about_datasets),
        Column("delta", Text),
        PrimaryKeyConstraint("name"),
        UniqueConstraint("folded"),
    )
    about_spends = (
        *("dataset", "release", "loss", "spent", "certificate", "invariants", "plan", "key"),
        *("who", "at", "software", "previous", "hash"),
    )
    op.create_table(
        "congenial_spends",
        *(Column(field, Text, nullable=False) for field in about_spends),
        Column("number", Integer, nullable=False),
        PrimaryKeyConstraint("dataset", "number"),
        UniqueConstraint("dataset", "release"),
        ForeignKeyConstraint(["dataset"], ["congenial_datasets.name"]),
        CheckConstraint("number > 0"),
    )
    statements = _SQLITE if op.get_context().dialect.name == "sqlite" else _POSTGRESQL
    for statement in statements:
        op.execute(statement)


_SQLITE = [
    *(
        f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table}"
        " BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
        for table in TABLES
        for action in ("UPDATE", "DELETE")
    ),
    # INSERT OR REPLACE deletes without a DELETE trigger.
    "CREATE TRIGGER congenial_datasets_new BEFORE INSERT ON congenial_datasets"
    " WHEN EXISTS (SELECT 1 FROM congenial_datasets WHERE name = NEW.name OR folded = NEW.folded)"
    " BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
    "CREATE TRIGGER congenial_spends_new BEFORE INSERT ON congenial_spends"
    " WHEN EXISTS (SELECT 1 FROM congenial_spends WHERE dataset = NEW.dataset AND number = NEW.number)"
    " OR EXISTS (SELECT 1 FROM congenial_spends WHERE dataset = NEW.dataset AND release = NEW.release)"
    " BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END",
]

_POSTGRESQL = [
    "CREATE FUNCTION congenial_append_only() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'a ledger is append-only'; END $$",
    *(
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION congenial_append_only()"
        for table in TABLES
    ),
]
