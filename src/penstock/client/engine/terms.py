"""Terms of a connection, a publisher and a receiver; their events, lanes and counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from mypy_extensions import i64

from penstock.client.engine.outcomes import Receipt


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


BLOCKED: Final = "blocked"
UNBLOCKED: Final = "unblocked"
LOST: Final = "lost"
RECONNECTED: Final = "reconnected"
CLOSED: Final = "closed"
PUBLISHER_CLOSED: Final = "publisher closed"
RECEIVER_CLOSED: Final = "receiver closed"
REPLAY_UNCERTAIN: Final = "replay uncertain"
WARNING: Final = "warning"
"""Kinds of events. The last event of a connection is `CLOSED`."""
LOGGED: Final = (REPLAY_UNCERTAIN, WARNING)
"""Kinds that the shells also log as warnings."""


class Event(NamedTuple):
    """Event: its kind, its subject, and the reason."""

    kind: str
    """One of the constants of this module."""
    source: str
    """Queue or exchange of the publisher or receiver; empty for the connection itself."""
    reason: str
    """Reason of the broker, or of the client; empty without one."""
    receipts: tuple[Receipt, ...] = ()
    """Receipts of the messages concerned."""


WINDOW_MAX: Final = 4096
"""Most messages without an outcome in a lane; a publisher with a larger window has no lane."""


class PublisherLane:
    """Lane of one publisher."""

    def __init__(self, producer: str, name: str, epoch: int, is_named: bool) -> None:
        self.producer = producer
        self.name = name
        self.epoch = epoch
        self.is_named = is_named
        """True if the producer's id is a permanent name: the broker stores the mark for a day, otherwise for ten
        minutes.
        """
        self.taken: i64 = 0
        """Number of the last message before the present transport."""
        self.is_begun: bool = False
        """True if the messages without an outcome were sent in the lane."""

    def request(self, window: int) -> dict[str, object]:
        """Return the request for the next session of the lane, with a higher epoch than the last."""
        self.epoch += 1
        named = {"named": True} if self.is_named else {}
        return {"producer": self.producer, "lane": self.name, "epoch": self.epoch, "window": window, **named}


class Tally:
    """Counts of a connection itself, and of its ended publishers and receivers."""

    def __init__(self) -> None:
        self.opened: int = 0
        """Number of transports with a login."""
        self.lanes: int = 0
        """Number of lanes so far."""
        self.blocked: int = 0
        """Number of times that the broker has blocked the connection."""
        self.has_warned: bool = False
        """True after the warning of a time-out above the broker's hold deadline."""
        self.of_publishers: list[int] = []
        """As `PublisherCore.counts`; empty without any."""
        self.waited: float = 0.0
        """Seconds that their messages waited for room."""
        self.of_receivers: list[int] = []
        """As `ReceiverCore.counts`; empty without any."""

    def add_publisher(self, counts: list[int], waited: float) -> None:
        """Add the counts of a publisher that ends."""
        self.of_publishers = added(self.of_publishers, counts)
        self.waited += waited

    def add_receiver(self, counts: list[int]) -> None:
        """Add the counts of a receiver that ends."""
        self.of_receivers = added(self.of_receivers, counts)


def new_lane(producer: str, terms: PublisherTerms, tally: Tally) -> PublisherLane | None:
    """Return a lane for a publisher; None if its window is too large, or the connection is no producer.

    A named publisher is a producer itself, so its lane is the same in each process.
    """
    if not producer or terms.window > WINDOW_MAX:
        return None
    if terms.name:
        return PublisherLane(terms.name, "1", terms.epoch, True)
    tally.lanes += 1
    return PublisherLane(producer, str(tally.lanes), 0, False)


def added(first: list[int], second: list[int]) -> list[int]:
    """Return the sums of two rows of counts; an empty row is all zeros."""
    if not first or not second:
        return first or second
    return [one + other for one, other in zip(first, second, strict=True)]
