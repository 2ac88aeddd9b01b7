"""How long a pass takes: timing models and the rounding of their results to nanoseconds."""
