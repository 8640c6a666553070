"""Delays that publishers ask for: numbers of milliseconds in headers, annotations and requests."""

from __future__ import annotations

from typing import Final

from penstock.errors import PreconditionFailed
from penstock.texts import worded

DELAY_MS_MAX: Final = 1 << 53
"""Longest delay, in milliseconds."""
DELAY_HEADER: Final = "x-delay"
"""Header with the delay in milliseconds, which exchanges of type x-delayed-message read."""
DIGITS: Final = 20
"""Digits of the longest text that is read as a number."""


def header_delay_ms(headers: dict[str, object]) -> int:
    """Return the delay in a message's header `x-delay`; 0 if it is absent or not positive (as in RabbitMQ's plug-in).

    A text of a decimal number is a number. Raises PreconditionFailed (406) for other values.
    """
    if DELAY_HEADER not in headers:
        return 0
    value = headers[DELAY_HEADER]
    if isinstance(value, str):
        digits = value[1:] if value.startswith("-") else value
        if digits.isascii() and digits.isdigit() and len(digits) <= DIGITS:
            value = int(value)
    return checked_delay_ms(f"header {DELAY_HEADER}", value)


def checked_delay_ms(name: str, value: object) -> int:
    """Return a delay in milliseconds, 0 for a negative one. Raises PreconditionFailed (406) for other values."""
    if not isinstance(value, int) or isinstance(value, bool) or value > DELAY_MS_MAX:
        raise PreconditionFailed(
            f"invalid message: {name} is {worded(value)}; a delay is a whole number of milliseconds, at most "
            f"{DELAY_MS_MAX}"
        )
    return value if value > 0 else 0
