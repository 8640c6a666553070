"""Differences that are known and meant: (suite, test) to the sentence that stands in docs/compatibility.md."""

EXPLAINED: dict[tuple[str, str], str] = {}
