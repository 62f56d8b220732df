"""Reading confidential data into tables."""

from congenial.reading.tables import read_tables

__all__ = ["read_tables"]
