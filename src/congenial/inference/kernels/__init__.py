"""Compiled loops of the analyst's chains: bare arrays in, `out` last."""
