"""Weighted zeros: what they cost, and how they are calibrated."""
