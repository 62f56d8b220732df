"""The smooth prior: its chains and kernels."""
