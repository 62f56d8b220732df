"""Reading confidential data into tables."""

from congenial.release.reading.tables import read_tables

__all__ = ["read_tables"]
