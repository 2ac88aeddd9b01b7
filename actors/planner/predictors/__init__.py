"""Forecasts of the next value of a series."""
