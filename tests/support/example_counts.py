"""How many examples the stateful tests have run in this process; shown at the end (tests/core/conftest.py)."""

examples = 0
looks = 0
stops = 0
