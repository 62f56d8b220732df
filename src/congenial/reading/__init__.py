"""Reading confidential data into tables."""

from congenial.reading.tables_and_data_checks import read_tables

__all__ = ["read_tables"]
