"""Settings in effect: thresholds, limits, the table of patterns, changes at run time."""
