"""Count of changes of access: an answer that was given at another count must be asked for again."""

from __future__ import annotations

from mypy_extensions import i64


class Epoch:
    """Count that the owner of rules raises at each change. Checks for each message read it in place."""

    def __init__(self) -> None:
        self.count: i64 = 0
