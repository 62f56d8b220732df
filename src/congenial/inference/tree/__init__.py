"""Estimates for every unit of a tree, from its bundle alone: the release is a draw, and this is what it says."""
