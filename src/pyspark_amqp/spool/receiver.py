"""Receiver of a spool: what its consumer needs of a connection to a broker, whatever the protocol.

`receiver091` and `receiver10` implement it. A delivery has the columns of AMQP 0-9-1, and a tag: a number that grows
with each delivery of a receiver, and ends with it.
"""

from abc import ABC, abstractmethod
from typing import Final

from penstock.client import ChannelClosed, ClientError, Delivery
from pyspark_amqp.amqp10.errors import EndedByBroker

_CODES: Final = (402, 403, 404, 405)
"""Reply codes of AMQP 0-9-1 that another attempt does not help."""
_CONDITIONS: Final = frozenset({
    "amqp:not-found", "amqp:unauthorized-access", "amqp:not-allowed", "amqp:not-implemented", "amqp:invalid-field",
    "amqp:resource-locked", "amqp:resource-deleted",
})  # fmt: skip
"""The same of AMQP 1.0."""


class Receiver(ABC):
    """Connection that receives the messages of queues; every call may raise `ClientError`.

    Its constructor connects and logs in. Then `open` once, and `consume`.
    """

    consuming = False
    """True while the broker may send messages."""

    @property
    @abstractmethod
    def broker(self) -> str | None:
        """Name of the broker's cluster; None if it tells none."""

    @abstractmethod
    def open(self) -> None:
        """Find the queues. Raises `SpoolError` for one that no spool can read."""

    @abstractmethod
    def backlog(self) -> int | None:
        """Return the number of messages that wait in the queues; None if the broker does not tell."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Tell whether no message waits in the queues, or comes; asked while consuming."""

    @abstractmethod
    def consume(self) -> None:
        """Let messages come: so many that no more than the prefetch of a queue are unacknowledged."""

    @abstractmethod
    def pause(self) -> None:
        """Let no more messages come; those on their way still do."""

    @abstractmethod
    def read(self) -> bool:
        """Read what has come, without a wait; tell whether there is something to do."""

    @abstractmethod
    def take(self) -> tuple[str, Delivery] | None:
        """Return the next message that has come, with the name of its queue; None if there is none."""

    @abstractmethod
    def check(self) -> None:
        """Raise the error for a queue that sends no more; what had come before was taken."""

    @abstractmethod
    def acknowledge(self, tag: int, *, multiple: bool = False) -> None:
        """Acknowledge a delivery, with `multiple` all up to it."""

    @abstractmethod
    def release(self, tag: int) -> None:
        """Return a message to its queue."""

    @abstractmethod
    def fileno(self) -> int:
        """Return the socket's descriptor, for a poll; call `read` first."""

    @abstractmethod
    def beat(self) -> float:
        """Send what is due, such as a heartbeat; return the seconds until the next call is due."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; what is unacknowledged returns to its queue."""


def is_final(error: ClientError) -> bool:
    """Tell whether another attempt does not help against the end of a channel, link, session or connection."""
    if isinstance(error, ChannelClosed):
        return error.code in _CODES and "inaccessible" not in error.text
    return isinstance(error, EndedByBroker) and error.condition in _CONDITIONS and "inaccessible" not in error.text
