"""Public rules: from measurements to a consistent nonnegative integer table."""
