"""Noise on the integer vectors that keep the exact numbers: drawn without any data, the same for every table."""
