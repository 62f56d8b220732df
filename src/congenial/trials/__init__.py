"""Trials of the whole on simulated or public tables: release, then infer, then look at the truth."""
