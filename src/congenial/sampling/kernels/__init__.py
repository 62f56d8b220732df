"""Compiled loops: arrays in, results in `out`, no Python objects, no fast-math."""
