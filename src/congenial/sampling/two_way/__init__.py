"""Exact draws of two-way tables by rejection."""
