"""Rejection with a look-ahead: tables that are wide, line by line, each weighed by a bound of all that may follow."""
