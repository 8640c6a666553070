"""Rounds of kill -9 against queries of Spark and their broker; what was delivered is counted."""
