"""Exact draws of children given the table of their parent."""
