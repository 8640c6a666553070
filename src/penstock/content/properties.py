"""Properties of a message, independent of its protocol; its trace context, and limits of names."""

from __future__ import annotations

from typing import Any, Final

from penstock.errors import PreconditionFailed
from penstock.settings.lengths import NAME_MAX

PROPERTY_NAMES: Final = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
"""Names of all properties, in the order of AMQP 0-9-1 (section 1.8.3)."""

TEXT_PROPERTIES: Final = (
    "message_id",
    "correlation_id",
    "reply_to",
    "content_type",
    "expiration",
    "type",
    "app_id",
    "user_id",
    "content_encoding",
)
"""Names of the properties that are texts, in the order of the columns of a block.

`cluster_id` is not included: AMQP 0-9-1 reserves it, so no block has it.
"""


class Properties:
    """The properties of a message; `None` for absent ones.

    The names are those of RabbitMQ's HTTP API; each message format maps its own properties to them. `timestamp` is in
    seconds since the epoch, unchanged from the publisher: many producers send milliseconds, and such a message must be
    accepted. `expiration` is text, milliseconds by convention.
    """

    __slots__ = PROPERTY_NAMES

    def __init__(
        self,
        content_type: str | None = None,
        content_encoding: str | None = None,
        headers: dict[str, object] | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        expiration: str | None = None,
        message_id: str | None = None,
        timestamp: int | None = None,
        type: str | None = None,
        user_id: str | None = None,
        app_id: str | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.headers = headers
        self.delivery_mode = delivery_mode
        self.priority = priority
        self.correlation_id = correlation_id
        self.reply_to = reply_to
        self.expiration = expiration
        self.message_id = message_id
        self.timestamp = timestamp
        self.type = type
        self.user_id = user_id
        self.app_id = app_id
        self.cluster_id = cluster_id

    def as_dict(self) -> dict[str, Any]:
        """Return the properties that are present, in the order of RabbitMQ's documentation."""
        pairs = [(name, getattr(self, name)) for name in PROPERTY_NAMES]
        return {name: value for name, value in pairs if value is not None}

    def copy(self) -> Properties:
        """Return a copy whose fields can be replaced; the headers are shared."""
        return Properties(**self.as_dict())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Properties) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        raise TypeError("properties may change, and so have no hash")

    def __repr__(self) -> str:
        return "Properties(" + ", ".join(f"{name}={value!r}" for name, value in self.as_dict().items()) + ")"


TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
TRACE_HEADERS: Final = (TRACEPARENT, TRACESTATE, "baggage")
"""Names of the headers."""
SAMPLED: Final = 1
"""Flag of a trace that is recorded."""
LENGTH: Final = 55
"""Characters of a traceparent of version 00."""
STATE_MOST: Final = 512
"""Most characters of a tracestate; a longer one is left out."""
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
    """Return the context in the values of the two headers; None if `parent` is not valid."""
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
    state_text = _text(state)
    return TraceContext(trace_id, parent_id, int(flags, 16), state_text if len(state_text) <= STATE_MOST else "")


def _text(value: object) -> str:
    """Return the text of a header; empty if the value is no text."""
    if isinstance(value, bytes):
        try:
            return value.decode("ascii")
        except UnicodeDecodeError:
            return ""
    return value if isinstance(value, str) else ""


CC: Final = "CC"
BCC: Final = "BCC"
"""Headers with additional routing keys of a message (RabbitMQ's sender-selected distribution); BCC is not delivered."""
COPIES: Final[tuple[str, ...]] = (CC, BCC)
"""Headers by which a broker routes copies of a message."""
CONTROL_REPLIES: Final = "amq.penstock.replies"
"""Name by which a client declares an exclusive queue for answers to control requests; each client gets its own
queue.
"""


def answers_control(name: str) -> bool:
    """Return whether a name is that of a queue for answers to control requests.

    Policies and queue limits do not apply to control reply queues. Otherwise a bad policy could block the reply to the
    request that removes it.
    """
    return name.startswith(CONTROL_REPLIES)


def is_name(text: str) -> bool:
    """Return whether a text is short enough for a name."""
    return len(text) <= NAME_MAX and (text.isascii() or len(text.encode(errors="replace")) <= NAME_MAX)


def check_name(what: str, name: str) -> None:
    """Raise PreconditionFailed (406) for a name that is too long; `what` is the named object."""
    if not is_name(name):
        octets = len(name.encode(errors="replace"))
        raise PreconditionFailed(f"{what} '{name[:60]}…' has {octets} bytes; the most is {NAME_MAX}")
