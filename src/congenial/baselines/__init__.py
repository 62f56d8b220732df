"""What people do today: add noise, then repair the table. Baselines take the same `Mechanism` and `Table`."""
