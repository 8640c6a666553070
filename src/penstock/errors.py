"""Every error that Penstock raises on purpose, in one tree.

    PenstockError
    ├── BrokerError                 a client is told: `CODES` has its codes in each protocol
    │   ├── ContentTooLarge         channel      the message can never fit
    │   ├── AccessRefused           channel
    │   ├── NotFound                channel
    │   ├── ResourceLocked          channel
    │   ├── PreconditionFailed      channel
    │   ├── Fenced                  nothing      a newer holder took over (control operations only)
    │   ├── ResourceError           channel      a limit was reached
    │   ├── ConnectionForced        connection   an operator closes it, or the broker stops
    │   ├── FrameError              connection
    │   ├── SyntaxInvalid           connection
    │   ├── CommandInvalid          connection
    │   ├── ChannelError            connection
    │   ├── UnexpectedFrame         connection
    │   ├── NotAllowed              connection
    │   ├── NotImplementedHere      connection
    │   └── InternalError           connection
    ├── ConfigError                 an invalid setting
    ├── StartError                  the broker cannot start: port or data directory in use
    └── StoreError                  the store cannot be opened, read or written
        ├── StoreFull               disk full; may be retried
        ├── StoreBusy               another broker holds it; may be retried
        └── StoreLost               another broker has taken it over; this one must stop

Expected outcomes (held, withheld, dropped, refused) are values, not errors.
"""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple


class Codes(NamedTuple):
    """Names of one kind of error in the protocols."""

    name: str
    """Name of the AMQP 0-9-1 reply code, written before the text as in RabbitMQ."""
    condition: str
    """AMQP 1.0 error condition (specification sections 2.8.15 to 2.8.18)."""
    http_status: int
    """HTTP status, as in RabbitMQ's management API."""


CODES: Final = {
    311: Codes("CONTENT_TOO_LARGE", "amqp:link:message-size-exceeded", 400),
    320: Codes("CONNECTION_FORCED", "amqp:connection:forced", 400),
    403: Codes("ACCESS_REFUSED", "amqp:unauthorized-access", 401),
    404: Codes("NOT_FOUND", "amqp:not-found", 404),
    405: Codes("RESOURCE_LOCKED", "amqp:resource-locked", 400),
    406: Codes("PRECONDITION_FAILED", "amqp:precondition-failed", 400),
    409: Codes("FENCED", "amqp:link:stolen", 400),
    501: Codes("FRAME_ERROR", "amqp:connection:framing-error", 400),
    502: Codes("SYNTAX_ERROR", "amqp:decode-error", 400),
    503: Codes("COMMAND_INVALID", "amqp:illegal-state", 400),
    504: Codes("CHANNEL_ERROR", "amqp:illegal-state", 400),
    505: Codes("UNEXPECTED_FRAME", "amqp:illegal-state", 400),
    506: Codes("RESOURCE_ERROR", "amqp:resource-limit-exceeded", 400),
    530: Codes("NOT_ALLOWED", "amqp:not-allowed", 400),
    540: Codes("NOT_IMPLEMENTED", "amqp:not-implemented", 400),
    541: Codes("INTERNAL_ERROR", "amqp:internal-error", 500),
}
"""The kinds of errors that a client is told, by AMQP 0-9-1 reply code (specification section 1.2); 409 is ours."""


class PenstockError(Exception):
    """Root of all errors that Penstock raises on purpose."""


class BrokerError(PenstockError):
    """A refused request; `str(error)` is one sentence that names the object, the value and the rule."""

    code: int = 541
    """AMQP 0-9-1 reply code; the key of `CODES`."""
    closes: ClassVar[str] = "connection"
    """The smallest scope to close: "nothing", "channel" or "connection"."""
    retriable: ClassVar[bool] = False
    """True if the same request may succeed later."""

    @property
    def reply(self) -> str:
        """Name of the reply code."""
        return CODES[self.code].name

    @property
    def condition(self) -> str:
        """AMQP 1.0 error condition."""
        return CODES[self.code].condition

    @property
    def http_status(self) -> int:
        """HTTP status."""
        return CODES[self.code].http_status

    @property
    def reply_text(self) -> str:
        """Text for the wire: at most 255 octets, as a short string must be."""
        text = f"{self.reply} - {self}"
        return text.encode(errors="replace")[:255].decode(errors="ignore")


class ContentTooLarge(BrokerError):
    """The message is larger than permitted, or than the capacity."""

    code = 311
    closes = "channel"


class AccessRefused(BrokerError):
    """The object is reserved, or in exclusive use elsewhere."""

    code = 403
    closes = "channel"


class NotFound(BrokerError):
    """The object does not exist."""

    code = 404
    closes = "channel"


class ResourceLocked(BrokerError):
    """The object is in a use that excludes this one."""

    code = 405
    closes = "channel"
    retriable = True


class PreconditionFailed(BrokerError):
    """An argument that is invalid, or that differs from the existing object."""

    code = 406
    closes = "channel"


class Fenced(BrokerError):
    """A newer holder took over."""

    code = 409
    closes = "nothing"


class ResourceError(BrokerError):
    """A limit was reached."""

    code = 506
    closes = "channel"
    retriable = True


class ConnectionForced(BrokerError):
    """An operator closes the connection, or the broker stops."""

    code = 320
    retriable = True


class FrameError(BrokerError):
    """Octets that are not a frame."""

    code = 501


class SyntaxInvalid(BrokerError):
    """A frame whose fields are malformed."""

    code = 502


class CommandInvalid(BrokerError):
    """A method that is not valid in the present state."""

    code = 503


class ChannelError(BrokerError):
    """A channel that is not open, or is open already."""

    code = 504


class UnexpectedFrame(BrokerError):
    """A frame of a type that is not valid in the present state."""

    code = 505


class NotAllowed(BrokerError):
    """A violation of the negotiated limits, or of a rule of this broker."""

    code = 530


class NotImplementedHere(BrokerError):
    """A part of the protocol that this broker does not implement."""

    code = 540


class InternalError(BrokerError):
    """A defect of the broker."""

    code = 541


class ConfigError(PenstockError):
    """An invalid setting; the text names the setting, the value and the rule."""


class StartError(PenstockError):
    """The broker cannot start; the text names the resource that is in use, and by which process."""


class StoreError(PenstockError):
    """The store cannot be opened, read or written; the text names the place, the cause and the next step."""


class StoreFull(StoreError):
    """The store is full: the transaction was not written and may be retried."""


class StoreBusy(StoreError):
    """Another broker holds the store; the text says which, where and since when."""


class StoreLost(StoreError):
    """Another broker has taken over the store: no write succeeds any more, and this broker must stop."""
