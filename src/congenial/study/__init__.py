"""Studies on simulated or public tables: the paper reproduced, and mechanisms compared."""
