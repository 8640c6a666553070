"""Every error that Penstock raises on purpose, in one tree.

    PenstockError
    ├── BrokerError                 a client is told: `CODES` has its codes in each protocol
    │   ├── ContentTooLarge         channel      the message can never fit
    │   ├── AccessRefused           channel
    │   ├── NotFound                channel
    │   ├── ResourceDeleted         channel      an object in use was deleted
    │   ├── ResourceLocked          channel
    │   ├── PreconditionFailed      channel
    │   │   ├── NotSupported        channel      a kind of object or a policy that this broker does not have
    │   │   │   └── NotServed       channel      a request of RabbitMQ's HTTP API that this broker does not serve
    │   │   └── Cancelled           channel      work that was ended before it was done
    │   ├── InvalidField            channel
    │   ├── ConsumerCancelled       channel      a consumer that the broker has cancelled
    │   ├── SubscriptionInUse       channel      other terms than those of a subscription
    │   ├── Fenced                  nothing      a newer holder took over (control operations, links)
    │   ├── ResourceError           channel      a limit was reached
    │   │   ├── HeldTooLong         channel      a publish over HTTP whose gate was closed for too long
    │   │   └── NotOnDisk           channel      a publish over HTTP that is in its queue, and not on the disk in time
    │   ├── TransferLimitExceeded   channel      sent without credit
    │   ├── PeerFrameTooSmall       connection   a performative that does not fit into a frame of the peer
    │   ├── TransferViolation       connection   a transfer that contradicts the state of its link
    │   ├── UnknownTransaction      channel
    │   ├── TransactionRolledBack   channel
    │   ├── TransactionTimeout      channel
    │   ├── ConnectionForced        connection   an operator closes it, or the broker stops
    │   ├── FrameError              connection
    │   ├── SyntaxInvalid           connection
    │   ├── CommandInvalid          connection
    │   ├── ChannelError            connection
    │   ├── HandleInUse             connection   a session in AMQP 1.0, as the next three
    │   ├── UnattachedHandle        connection
    │   ├── ErrantLink              connection
    │   ├── WindowViolation         connection
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
    """AMQP 1.0 error condition (specification sections 2.8.15 to 2.8.18), unless the error has a finer one."""
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
"""The kinds of errors that are sent to clients, by AMQP 0-9-1 reply code (specification section 1.2); 409 is
Penstock's.
"""


class PenstockError(Exception):
    """Root of all errors that Penstock raises on purpose."""


class BrokerError(PenstockError):
    """A refused request; `str(error)` is one sentence that names the object, the value and the rule."""

    code: int = 541
    """AMQP 0-9-1 reply code; the key of `CODES`."""
    closes: ClassVar[str] = "connection"
    """The smallest scope to close in AMQP 0-9-1: "nothing", "channel" or "connection"."""
    ends: ClassVar[str] = "connection"
    """The smallest scope to end in AMQP 1.0: "delivery", "link", "session" or "connection".

    A delivery is rejected, or its transaction fails. A refused performative ends its own scope, if that is larger.
    """
    finer_condition: str = ""
    """AMQP 1.0 error condition, if AMQP 1.0 distinguishes errors of one code; otherwise the condition of the code."""
    finer_status: ClassVar[int] = 0
    """HTTP status, if HTTP distinguishes errors of one code; otherwise the status of the code."""
    finer_word: ClassVar[str] = ""
    """Name of the error over HTTP, if HTTP distinguishes errors of one status; otherwise the word of the status."""
    retriable: ClassVar[bool] = False
    """True if the same request may succeed later."""

    @property
    def reply(self) -> str:
        """Name of the reply code."""
        return CODES[self.code].name

    @property
    def condition(self) -> str:
        """AMQP 1.0 error condition."""
        return self.finer_condition or CODES[self.code].condition

    @property
    def http_status(self) -> int:
        """HTTP status."""
        return self.finer_status or CODES[self.code].http_status

    @property
    def reply_text(self) -> str:
        """Text for the wire: at most 255 bytes, as a short string must be."""
        text = f"{self.reply} - {self}"
        return text.encode(errors="replace")[:255].decode(errors="ignore")


class ContentTooLarge(BrokerError):
    """The message is larger than permitted, or than the capacity."""

    code = 311
    closes = "channel"
    ends = "link"


class AccessRefused(BrokerError):
    """The object is reserved, or in exclusive use elsewhere."""

    code = 403
    closes = "channel"
    ends = "delivery"


class NotFound(BrokerError):
    """The object does not exist."""

    code = 404
    closes = "channel"
    ends = "delivery"


class ResourceDeleted(BrokerError):
    """An object that was in use has been deleted."""

    code = 404
    closes = "channel"
    ends = "link"
    finer_condition = "amqp:resource-deleted"


class ResourceLocked(BrokerError):
    """The object is in a use that excludes this one."""

    code = 405
    closes = "channel"
    ends = "delivery"
    retriable = True


class PreconditionFailed(BrokerError):
    """An argument that is invalid, or that differs from the existing object."""

    code = 406
    closes = "channel"
    ends = "delivery"


class NotSupported(PreconditionFailed):
    """A kind of object or a policy of other brokers that Penstock does not have: nothing is created.

    540 would close the connection in AMQP 0-9-1, with all its other channels.
    """

    ends = "link"
    finer_condition = "amqp:not-implemented"


class NotServed(NotSupported):
    """A request of RabbitMQ's HTTP API that Penstock does not serve; the text gives the reason or another way."""

    finer_status = 405


class Cancelled(PreconditionFailed):
    """Long work was cancelled before it was done."""


class InvalidField(BrokerError):
    """A field, address or property with a value that is not allowed."""

    code = 406
    closes = "channel"
    ends = "delivery"
    finer_condition = "amqp:invalid-field"


class ConsumerCancelled(BrokerError):
    """A consumer that the broker has cancelled although its queue exists: it was too slow."""

    code = 506
    closes = "channel"
    ends = "link"
    finer_condition = "amqp:link:detach-forced"
    retriable = True


class SubscriptionInUse(BrokerError):
    """A subscription that has consumers, with other terms than the requested ones."""

    code = 406
    closes = "channel"
    ends = "link"
    finer_condition = "amqp:illegal-state"
    retriable = True


class UnknownTransaction(BrokerError):
    """A transaction identifier that this connection has not declared, or has discharged."""

    code = 406
    closes = "channel"
    ends = "delivery"
    finer_condition = "amqp:transaction:unknown-id"


class TransactionRolledBack(BrokerError):
    """A transaction that was rolled back instead of committed."""

    code = 406
    closes = "channel"
    ends = "delivery"
    finer_condition = "amqp:transaction:rollback"
    retriable = True


class TransactionTimeout(BrokerError):
    """A transaction that was open for longer than permitted."""

    code = 406
    closes = "channel"
    ends = "delivery"
    finer_condition = "amqp:transaction:timeout"
    retriable = True


class Fenced(BrokerError):
    """A newer holder took over: of a cursor, or of a link by its name."""

    code = 409
    closes = "nothing"
    ends = "link"


class ResourceError(BrokerError):
    """A limit was reached."""

    code = 506
    closes = "channel"
    ends = "delivery"
    retriable = True


class HeldTooLong(ResourceError):
    """A publish over HTTP whose gate was closed for its whole hold deadline; it is in no queue."""

    finer_status = 503
    finer_word = "held_too_long"


class NotOnDisk(ResourceError):
    """A publish over HTTP that is in its queue, and that the disk did not confirm in time; again would be twice."""

    finer_status = 503
    finer_word = "not_on_disk"
    retriable = False


class TransferLimitExceeded(BrokerError):
    """A message that was sent without credit, beyond the bound of held messages."""

    code = 506
    closes = "channel"
    ends = "link"
    finer_condition = "amqp:link:transfer-limit-exceeded"


class TransferViolation(BrokerError):
    """A transfer that contradicts earlier transfers of its link, or of its session."""

    code = 530
    ends = "link"


class PeerFrameTooSmall(BrokerError):
    """A performative that does not fit into a frame of the peer."""

    code = 506
    finer_condition = "amqp:frame-size-too-small"


class ConnectionForced(BrokerError):
    """An operator closes the connection, or the broker stops."""

    code = 320
    retriable = True


class FrameError(BrokerError):
    """Bytes that are not a frame."""

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


class HandleInUse(BrokerError):
    """An attach with a handle that a link of the session already has."""

    code = 504
    ends = "session"
    finer_condition = "amqp:session:handle-in-use"


class UnattachedHandle(BrokerError):
    """A performative with a handle that no link of the session has."""

    code = 504
    ends = "session"
    finer_condition = "amqp:session:unattached-handle"


class ErrantLink(BrokerError):
    """Input on a link that was detached because of an error."""

    code = 504
    ends = "session"
    finer_condition = "amqp:session:errant-link"


class WindowViolation(BrokerError):
    """More transfers than the window of the session permits."""

    code = 504
    ends = "session"
    finer_condition = "amqp:session:window-violation"


class UnexpectedFrame(BrokerError):
    """A frame of a type that is not valid in the present state."""

    code = 505


class NotAllowed(BrokerError):
    """A violation of the negotiated limits, or of a rule of this broker."""

    code = 530
    ends = "session"


class NotImplementedHere(BrokerError):
    """A part of the protocol that this broker does not implement."""

    code = 540
    ends = "link"


class InternalError(BrokerError):
    """A defect of the broker."""

    code = 541


class ConfigError(PenstockError):
    """An invalid setting; the text names the setting, the value and the rule."""


class StartError(PenstockError):
    """The broker cannot start; the text names the resource in use, and the process that uses it."""


class StoreError(PenstockError):
    """The store cannot be opened, read or written; the text names the place, the cause and the next step."""


class StoreFull(StoreError):
    """The store is full: the transaction was not written and may be retried."""


class StoreBusy(StoreError):
    """Another broker holds the store; the text names its process, its machine and the time."""


class StoreLost(StoreError):
    """Another broker has taken over the store: no write succeeds any more, and this broker must stop."""
