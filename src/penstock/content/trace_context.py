"""Trace context of a message (W3C Trace Context): its headers `traceparent` and `tracestate`."""

from __future__ import annotations

from typing import Final

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
TRACE_HEADERS: Final = (TRACEPARENT, TRACESTATE, "baggage")
"""Names of the headers."""
SAMPLED: Final = 1
"""Flag of a trace that is recorded."""
LENGTH: Final = 55
"""Letters of a traceparent of version 00."""
STATE_MOST: Final = 512
"""Most letters of a tracestate; a longer one is left out."""
DIGITS: Final = frozenset("0123456789abcdef")


class TraceContext:
    """Trace and span that a message belongs to."""

    __slots__ = ("trace_id", "parent_id", "flags", "state")

    def __init__(self, trace_id: str, parent_id: str, flags: int, state: str) -> None:
        self.trace_id = trace_id
        self.parent_id = parent_id
        """Hexadecimal, of 32 and 16 digits."""
        self.flags = flags
        self.state = state
        """The tracestate; empty without one."""

    def is_sampled(self) -> bool:
        """Return whether the trace is recorded."""
        return self.flags & SAMPLED != 0


def read_context(parent: object, state: object) -> TraceContext | None:
    """Return the context that the values of the two headers say; None if `parent` is not valid."""
    text = _text(parent)
    if len(text) < LENGTH or text[2] != "-" or text[35] != "-" or text[52] != "-":
        return None
    version, trace_id, parent_id, flags = text[:2], text[3:35], text[36:52], text[53:55]
    if version == "ff" or (len(text) > LENGTH and (version == "00" or text[LENGTH] != "-")):
        return None
    if not DIGITS.issuperset(version + trace_id + parent_id + flags):
        return None
    if trace_id == "0" * 32 or parent_id == "0" * 16:
        return None
    found = _text(state)
    return TraceContext(trace_id, parent_id, int(flags, 16), found if len(found) <= STATE_MOST else "")


def _text(value: object) -> str:
    """Return the text of a header; empty if it is none."""
    if isinstance(value, bytes):
        try:
            return value.decode("ascii")
        except UnicodeDecodeError:
            return ""
    return value if isinstance(value, str) else ""
