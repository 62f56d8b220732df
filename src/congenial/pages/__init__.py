"""Pages, figures and drawings: they know numbers, not where they come from."""
