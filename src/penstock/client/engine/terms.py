"""Terms of a connection, a publisher and a receiver."""

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
    """SASL mechanism; empty: the strongest that the broker offers and the credentials fit."""
    is_encrypted: bool = False
    heartbeat: float = 0.0
    """Requested seconds between heartbeats; 0 for none."""
    name: str = ""
    container: str = ""
    """Container-id of AMQP 1.0."""
    product: str = "penstock-client"
    query: str = ""
    """Name of the streaming query whose results are published; empty for none."""
    nonce: str = ""
    """Random characters for SCRAM: an engine has no randomness."""
    producer: str = ""
    """Id of the connection as a producer, constant over all its transports; empty without lanes."""
    call_timeout: float = 30.0
    """Seconds that a request waits for the answer."""


class PublisherTerms(NamedTuple):
    """Terms of a publisher."""

    exchange: str = ""
    key: str = ""
    """Routing key; with the default exchange the name of a queue."""
    window: int = 1000
    """Most unconfirmed messages."""
    window_bytes: int = -1
    """Most bytes of unconfirmed messages, -1 without a limit; a larger message passes alone."""
    max_rate: float = -1
    """Messages a second, -1 without a limit."""
    wait_failure: float = 60.0
    """Seconds that a message waits for room, and then for its outcome; infinite for no limit."""
    is_wait_chosen: bool = False
    """True if the wait is not the default: the program is warned if the broker's hold deadline is shorter."""
    notify_period: float = 5.0
    """Seconds between two warnings during a wait."""
    durable: bool = True
    mandatory: bool = True
    """True if a message that reaches no queue is refused."""
    sends_uncertain: bool = True
    """True if messages are sent again although the broker may have accepted them."""
    name: str = ""
    """Name of the producer, the same in each process; empty without one."""
    epoch: int = 0
    """Epoch, higher than that of all earlier sessions of this name."""


class ReceiverTerms(NamedTuple):
    """Terms of a receiver."""

    queue: str = ""
    window_bytes: int = 1024 * 1024
    """Bytes that the broker sends in advance: -1 without a limit, 0 none."""
    is_window_chosen: bool = False
    """True if the program has set the window: then the client keeps it over AMQP 0-9-1 at other brokers, too."""
    prefetch: int = 1000
    """Most delivered messages that are not settled."""
    max_rate: float = -1
    """Most messages a second that are passed to the program, -1 without a limit."""
    exclusive: bool = False
    name: str = ""
    paused: bool = False
    """True if no messages are delivered before `resume`."""
    arguments: Mapping[str, object] = {}
    """Arguments of the subscription over AMQP 0-9-1, for other brokers."""
    selector: str = ""
    """Selector of JMS that messages must match; empty for all messages."""
    browses: bool = False
    """True if the queue keeps its messages."""
