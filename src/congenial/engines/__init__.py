"""Where releases are drawn when one machine is not enough: the same tables from the same key."""
