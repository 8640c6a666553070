"""Every error that Penstock raises on purpose, in one tree.

    PenstockError
    ├── BrokerError                 carries its AMQP 0-9-1 reply code and what it closes
    │   ├── ContentTooLarge    311  channel      the message can never fit
    │   ├── AccessRefused      403  channel
    │   ├── NotFound           404  channel
    │   ├── ResourceLocked     405  channel
    │   ├── PreconditionFailed 406  channel
    │   ├── Fenced             409  nothing      a newer holder took over (control operations only)
    │   ├── ResourceError      506  channel      a bound was reached
    │   ├── FrameError         501  connection
    │   ├── SyntaxInvalid      502  connection
    │   ├── CommandInvalid     503  connection
    │   ├── ChannelError       504  connection
    │   ├── UnexpectedFrame    505  connection
    │   ├── NotAllowed         530  connection
    │   ├── NotImplementedHere 540  connection
    │   └── InternalError      541  connection
    ├── ConfigError                 a setting that cannot be meant
    ├── StartError                  the broker cannot start: port or data directory in use
    └── StoreError                  the store cannot be opened, read or written
        ├── StoreFull               no room; it may be tried again
        ├── StoreBusy               another broker holds it; it may be tried again
        └── StoreLost               another broker has taken it over: this one must stop

Expected outcomes (held, withheld, dropped, refused) are values, not errors.
"""

from __future__ import annotations

from typing import ClassVar


class PenstockError(Exception):
    """Root of all errors that Penstock raises on purpose."""


class BrokerError(PenstockError):
    """A request that the broker refuses; `str(error)` is one sentence that names the thing, the value and the rule."""

    code: ClassVar[int] = 541
    """AMQP 0-9-1 reply code (specification section 1.2)."""
    reply: ClassVar[str] = "INTERNAL_ERROR"
    """Name of the reply code, put before the text as RabbitMQ does."""
    closes: ClassVar[str] = "connection"
    """The smallest thing that must be closed: "nothing", "channel" or "connection"."""
    retriable: ClassVar[bool] = False
    """Whether the same request may succeed later."""

    @property
    def reply_text(self) -> str:
        """Text for the wire: at most 255 octets, as a short string must be."""
        text = f"{self.reply} - {self}"
        return text.encode()[:255].decode(errors="ignore")


class ContentTooLarge(BrokerError):
    """The message is larger than it may be, or than fits."""

    code = 311
    reply = "CONTENT_TOO_LARGE"
    closes = "channel"


class AccessRefused(BrokerError):
    """The thing is reserved, or held by somebody else."""

    code = 403
    reply = "ACCESS_REFUSED"
    closes = "channel"


class NotFound(BrokerError):
    """No such thing."""

    code = 404
    reply = "NOT_FOUND"
    closes = "channel"


class ResourceLocked(BrokerError):
    """The thing is in a use that excludes this one."""

    code = 405
    reply = "RESOURCE_LOCKED"
    closes = "channel"
    retriable = True


class PreconditionFailed(BrokerError):
    """An argument that cannot be meant, or that differs from what exists."""

    code = 406
    reply = "PRECONDITION_FAILED"
    closes = "channel"


class Fenced(BrokerError):
    """A newer holder took over."""

    code = 409
    reply = "FENCED"
    closes = "nothing"


class ResourceError(BrokerError):
    """A bound was reached."""

    code = 506
    reply = "RESOURCE_ERROR"
    closes = "channel"
    retriable = True


class FrameError(BrokerError):
    """Bytes that are no frame."""

    code = 501
    reply = "FRAME_ERROR"


class SyntaxInvalid(BrokerError):
    """A frame whose fields cannot be read."""

    code = 502
    reply = "SYNTAX_ERROR"


class CommandInvalid(BrokerError):
    """A method that is not expected now."""

    code = 503
    reply = "COMMAND_INVALID"


class ChannelError(BrokerError):
    """A channel that is not open, or is already."""

    code = 504
    reply = "CHANNEL_ERROR"


class UnexpectedFrame(BrokerError):
    """A frame of a kind that is not expected now."""

    code = 505
    reply = "UNEXPECTED_FRAME"


class NotAllowed(BrokerError):
    """Against what was agreed, or against the rules of this broker."""

    code = 530
    reply = "NOT_ALLOWED"


class NotImplementedHere(BrokerError):
    """Part of the protocol, but not of this broker."""

    code = 540
    reply = "NOT_IMPLEMENTED"


class InternalError(BrokerError):
    """The broker is at fault."""

    code = 541
    reply = "INTERNAL_ERROR"


class ConfigError(PenstockError):
    """A setting that cannot be meant; the text names the setting, the value and the rule."""


class StartError(PenstockError):
    """The broker cannot start; the text says what is in use by whom."""


class StoreError(PenstockError):
    """The store cannot be opened, read or written; the text says which, where and why, and what to do."""


class StoreFull(StoreError):
    """There is no room for what was to be written: nothing of it was, and it may be tried again."""


class StoreBusy(StoreError):
    """Another broker holds the store; the text says which, where and since when."""


class StoreLost(StoreError):
    """Another broker has taken the store over. Nothing is written any more, now or later: the broker must stop."""
