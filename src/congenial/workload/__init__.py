"""Several tables of the same records: what is measured and exact, the confidential counts, law, plan and release."""
