"""Samplers of the conditional law; each is a module with a function `sample`."""
