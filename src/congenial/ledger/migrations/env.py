"""Alembic's entrance: run the versions on the connection, and in the transaction, that `store` opened."""

from alembic import context

from congenial.ledger.tables import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
