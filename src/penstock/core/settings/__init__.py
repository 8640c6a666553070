"""Settings as they apply: thresholds, limits, the table of patterns, changes at run time."""
