"""Exact draws by contraction: partial sums of cells merged two at a time, forward to add up, backward to draw."""
