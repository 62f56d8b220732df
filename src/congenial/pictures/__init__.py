"""Pictures: numbers in, a matplotlib figure out. They know labels and arrays, not where the numbers come from."""
