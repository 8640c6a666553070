"""Terms of a connection, a publisher and a receiver: plain values that the options were read into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ConnectionTerms(NamedTuple):
    """Login and limits of a connection. Times are seconds."""

    host: str = "127.0.0.1"
    port: int = 5672
    virtual_host: str = "/"
    user: str = "guest"
    password: str = "guest"
    mechanism: str = ""
    """SASL mechanism; empty: the best that the broker offers and the credentials fit."""
    is_encrypted: bool = False
    heartbeat: float = 0.0
    """Seconds between heartbeats that are asked for; 0 for none."""
    name: str = ""
    container: str = ""
    """Container-id of AMQP 1.0."""
    product: str = "penstock-client"
    query: str = ""
    """Name of the streaming query whose results are published; empty for none."""
    nonce: str = ""
    """Random letters for SCRAM: an engine has no chance of its own."""
    producer: str = ""
    """Id of the connection as a producer, the same over all its transports; empty: it has no lanes."""
    call_timeout: float = 30.0
    """Seconds that a request waits for its answer."""


class PublisherTerms(NamedTuple):
    """Terms of a publisher."""

    exchange: str = ""
    key: str = ""
    """Routing key; with the default exchange the name of a queue."""
    window: int = 1000
    """Most unconfirmed messages."""
    window_bytes: int = -1
    """Most octets in them, -1 without a limit; a message larger than it passes alone."""
    max_rate: float = -1
    """Messages a second, -1 without a limit."""
    wait_failure: float = 60.0
    """Seconds that a message waits for room, and then for its outcome; infinite for ever."""
    is_wait_chosen: bool = False
    """True if that is not the default: the program is told if the broker's hold deadline is shorter."""
    notify_period: float = 5.0
    """Seconds between two warnings while it waits."""
    durable: bool = True
    mandatory: bool = True
    """True if a message that reaches no queue is refused."""
    sends_uncertain: bool = True
    """True if messages are sent again of which the broker does not know whether it has taken them."""
    name: str = ""
    """Name of the producer, the same in each process; empty: it has none."""
    epoch: int = 0
    """Number that is higher than that of all sessions of this name before."""


class ReceiverTerms(NamedTuple):
    """Terms of a receiver."""

    queue: str = ""
    window_bytes: int = 1024 * 1024
    """Octets that the broker sends in advance: -1 without a limit, 0 none."""
    prefetch: int = 1000
    """Most messages that it has sent and that are not settled."""
    max_rate: float = -1
    """Messages a second that are handed over, -1 without a limit."""
    exclusive: bool = False
    name: str = ""
    paused: bool = False
    """True if no messages come before `resume`."""
    arguments: Mapping[str, object] = {}
    """Arguments of the subscription over AMQP 0-9-1, as another broker has them."""
    selector: str = ""
    """Selector of JMS, which messages have to match; empty: all come."""
    browses: bool = False
    """True if the queue keeps its messages."""
