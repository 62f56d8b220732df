"""How the tables of a ledger come about, version by version; Alembic runs these files."""
