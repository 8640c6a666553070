"""The position at which a consumer of a stream begins: RabbitMQ's argument and filter `x-stream-offset`.

| value | meaning |
|---|---|
| `first` | the oldest retained message |
| `last` | the first message of the newest page on the disk |
| `next` (and no value) | the next message that is published |
| a whole number | an offset; an older one than the oldest retained message begins at this message |
| a timestamp | the first message that arrived at this time or later |
| an age such as `1h` | the first message of this last hour |
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from penstock.errors import PreconditionFailed
from penstock.settings.kind import age_s
from penstock.texts import worded

OFFSET: Final = "x-stream-offset"
"""Argument of a consumer, and header of a delivery."""
FIRST: Final = "first"
LAST: Final = "last"
NEXT: Final = "next"
NUMBER: Final = "number"
TIME: Final = "time"
WORDS: Final = (FIRST, LAST, NEXT)
OFFSET_MOST: Final = (1 << 62) - 1
"""Largest offset."""
RULE: Final = (
    f"first, last, next, an offset from 0 to {OFFSET_MOST}, a timestamp, or an age such as 1h (units Y, M, D, h, m, s)"
)


class StreamOffset:
    """The position at which a consumer begins."""

    def __init__(self, kind: str, number: int = 0, since: float = 0.0) -> None:
        self.kind: Final = kind
        """FIRST, LAST, NEXT, NUMBER or TIME."""
        self.number: Final = number
        """The offset, for NUMBER."""
        self.since: Final = since
        """Seconds since the epoch, for TIME."""


def read_offset(subject: str, name: str, value: object, wall_now: float) -> StreamOffset:
    """Read the value of an argument or a filter; `wall_now` is in seconds since the epoch.

    Raises PreconditionFailed (406).
    """
    if value is None:
        return StreamOffset(NEXT)
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        if value in WORDS:
            return StreamOffset(str(value))
        age = age_s(value)
        if age is not None:
            return StreamOffset(TIME, 0, wall_now - age)
    elif isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return StreamOffset(TIME, 0, moment.timestamp())
    elif isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= OFFSET_MOST:
        return StreamOffset(NUMBER, value)
    raise PreconditionFailed(f"{subject}: {name} must be {RULE}, not {worded(value)}")
