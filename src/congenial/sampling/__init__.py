"""Samplers of the conditional law: `choose` picks one from public structure."""
