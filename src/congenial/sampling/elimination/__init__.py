"""Exact draws by variable elimination."""
