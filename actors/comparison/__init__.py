"""Comparing finished runs: figures, specs and requests of each with those of the first."""
