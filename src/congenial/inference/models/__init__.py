"""Log-linear models of released tables, with their posteriors and tests."""
