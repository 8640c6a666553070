"""Every error that Penstock raises on purpose, in one tree.

    PenstockError
    ├── BrokerError                 carries its AMQP 0-9-1 reply code and what it closes
    │   ├── ContentTooLarge    311  channel      the message can never fit
    │   ├── AccessRefused      403  channel
    │   ├── NotFound           404  channel
    │   ├── ResourceLocked     405  channel
    │   ├── PreconditionFailed 406  channel
    │   ├── Fenced             409  nothing      a newer holder took over (control operations only)
    │   ├── ResourceError      506  channel      a limit was reached
    │   ├── FrameError         501  connection
    │   ├── SyntaxInvalid      502  connection
    │   ├── CommandInvalid     503  connection
    │   ├── ChannelError       504  connection
    │   ├── UnexpectedFrame    505  connection
    │   ├── NotAllowed         530  connection
    │   ├── NotImplementedHere 540  connection
    │   └── InternalError      541  connection
    ├── ConfigError                 an invalid setting
    ├── StartError                  the broker cannot start: port or data directory in use
    └── StoreError                  the store cannot be opened, read or written
        ├── StoreFull               disk full; may be retried
        ├── StoreBusy               another broker holds it; may be retried
        └── StoreLost               another broker has taken it over; this one must stop

Expected outcomes (held, withheld, dropped, refused) are values, not errors.
"""

from __future__ import annotations

from typing import ClassVar


class PenstockError(Exception):
    """Root of all errors that Penstock raises on purpose."""


class BrokerError(PenstockError):
    """A refused request; `str(error)` is one sentence that names the object, the value and the rule."""

    code: ClassVar[int] = 541
    """AMQP 0-9-1 reply code (specification section 1.2)."""
    reply: ClassVar[str] = "INTERNAL_ERROR"
    """Name of the reply code, written before the text as in RabbitMQ."""
    closes: ClassVar[str] = "connection"
    """The smallest scope to close: "nothing", "channel" or "connection"."""
    retriable: ClassVar[bool] = False
    """True if the same request may succeed later."""

    @property
    def reply_text(self) -> str:
        """Text for the wire: at most 255 octets, as a short string must be."""
        text = f"{self.reply} - {self}"
        return text.encode()[:255].decode(errors="ignore")


class ContentTooLarge(BrokerError):
    """The message is larger than permitted, or than the capacity."""

    code = 311
    reply = "CONTENT_TOO_LARGE"
    closes = "channel"


class AccessRefused(BrokerError):
    """The object is reserved, or in exclusive use elsewhere."""

    code = 403
    reply = "ACCESS_REFUSED"
    closes = "channel"


class NotFound(BrokerError):
    """The object does not exist."""

    code = 404
    reply = "NOT_FOUND"
    closes = "channel"


class ResourceLocked(BrokerError):
    """The object is in a use that excludes this one."""

    code = 405
    reply = "RESOURCE_LOCKED"
    closes = "channel"
    retriable = True


class PreconditionFailed(BrokerError):
    """An argument that is invalid, or that differs from the existing object."""

    code = 406
    reply = "PRECONDITION_FAILED"
    closes = "channel"


class Fenced(BrokerError):
    """A newer holder took over."""

    code = 409
    reply = "FENCED"
    closes = "nothing"


class ResourceError(BrokerError):
    """A limit was reached."""

    code = 506
    reply = "RESOURCE_ERROR"
    closes = "channel"
    retriable = True


class FrameError(BrokerError):
    """Octets that are not a frame."""

    code = 501
    reply = "FRAME_ERROR"


class SyntaxInvalid(BrokerError):
    """A frame whose fields are malformed."""

    code = 502
    reply = "SYNTAX_ERROR"


class CommandInvalid(BrokerError):
    """A method that is not valid in the present state."""

    code = 503
    reply = "COMMAND_INVALID"


class ChannelError(BrokerError):
    """A channel that is not open, or is open already."""

    code = 504
    reply = "CHANNEL_ERROR"


class UnexpectedFrame(BrokerError):
    """A frame of a type that is not valid in the present state."""

    code = 505
    reply = "UNEXPECTED_FRAME"


class NotAllowed(BrokerError):
    """A violation of the negotiated limits, or of a rule of this broker."""

    code = 530
    reply = "NOT_ALLOWED"


class NotImplementedHere(BrokerError):
    """A part of the protocol that this broker does not implement."""

    code = 540
    reply = "NOT_IMPLEMENTED"


class InternalError(BrokerError):
    """A defect of the broker."""

    code = 541
    reply = "INTERNAL_ERROR"


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
