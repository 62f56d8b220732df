"""Pictures: numbers in, a figure out. They know labels and arrays, not where the numbers come from."""
