"""Sessions, which are channels in AMQP 0-9-1, and their producers: everything that is said of one."""

from __future__ import annotations

from itertools import islice
from typing import Final

from penstock.core.consume.session import Session
from penstock.core.publish.credit_state import is_draining
from penstock.core.publish.producer import Producer
from penstock.core.publish.sender_credit import SenderCredit
from penstock.core.publish.session_counts import producers_of
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.describe.connection import connection_details, connection_row
from penstock.describe.consumer import CONSUMER, CONSUMERS_DETAILED, consumer_row
from penstock.describe.gate import gate_row
from penstock.describe.message_stats import session_stats
from penstock.describe.table import ABSENT, Field, Reading, Row, Table, amounts, metric, or_none
from penstock.flow.confirms import WITHHELD
from penstock.flow.gate import Gate
from penstock.protocols.common.connection import Connection

CHANNELS: Final = "channel_metrics"
PUBLISHING: Final = "channel_exchange_metrics"
CONSUMING: Final = "channel_queue_metrics"
"""RabbitMQ's groups of `/metrics/detailed?family=`."""
FLOW: Final = "penstock_channel_metrics"
CONSUMERS_SHOWN: Final = 20
CHANNELS_SHOWN: Final = 50
PRODUCERS_SHOWN: Final = 20
CONNECTIONS_SHOWN: Final = 20
"""Most connections in one answer; the others are counted."""
NOTHING_PUBLISHED: Final[Row] = {
    "rates": None,
    "held": {"messages": 0, "bytes": 0},
    "withheld": 0,
    "waits_at": None,
    "blocked_by": [],
    "times_blocked": 0,
    "blocked_s": 0.0,
}
"""Publishing side of a session without producers."""


def links_of(session: Session) -> list[Producer]:
    """Return the producers of a session's links; none for a channel, which publishes by itself."""
    producers = producers_of(session)
    return [] if len(producers) == 1 and producers[0].name == session.name else producers


def held_by(producer: WaitingPublisher) -> tuple[int, int]:
    """Return the number of a producer's held publishes, and their bytes (charges)."""
    outbox = producer.outbox
    return sum(int(held.messages) for held in outbox), sum(int(held.charge) for held in outbox)


def withheld_by(producer: WaitingPublisher, gate: Gate | None = None) -> int:
    """Return the number of a producer's withheld confirms; with a gate, of those that this gate withholds first."""
    found = 0
    if not isinstance(producer, Producer):
        return found  # Dead letters have no confirms.
    for pending in producer.confirms.pending:
        if pending.state == WITHHELD and (gate is None or pending.obstacle() is gate):
            found += pending.publishes()
    return found


# Producers


def _rates(producer: Producer, at: Reading) -> object:
    """Return the rates of a producer: a second each, None for no limit; None without any."""
    rate = producer.rate
    return None if rate is None else {"messages": rate.limits.rate_messages, "bytes": rate.limits.rate_bytes}


def _waits_at(producer: Producer, at: Reading) -> object:
    gate = producer.gate
    return None if gate is None else {"kind": gate.kind, "name": gate.name}


def _blocked_by(producer: Producer, at: Reading) -> object:
    return [
        {"gate": gate_row(gate, at.now), **block.as_dict(at.now, gate.stats.since)}
        for gate, block in producer.stories()
        if block.since is not None
    ]


def credit_row(credit: SenderCredit) -> Row:
    """Return the credit of a sender: what it may send, where that has its room, and the messages since it began."""
    reserved, hold = credit.reservation, credit.hold
    return {
        "credit": int(credit.credit),
        "available": int(credit.available),
        "window": {"messages": int(credit.window.messages), "bytes": or_none(credit.window.bytes)},
        "reserved": amounts(reserved.messages, reserved.messages * reserved.charge),
        "hold_room": amounts(hold.count(), hold.bytes()),
        "draining": is_draining(credit.state),
        **credit.counts.as_dict(credit.credit),
        "retry_after_ms": round(credit.retry_after_s() * 1000),
    }


PRODUCER: Final[Table[Producer]] = Table(
    Field("producer", lambda producer, at: producer.name),
    Field("confirms", lambda producer, at: producer.confirming),
    Field("credit", lambda producer, at: ABSENT if producer.credit is None else credit_row(producer.credit)),
    Field("rates", _rates),
    Field("held", lambda producer, at: amounts(*held_by(producer))),
    Field("withheld", lambda producer, at: withheld_by(producer)),
    Field("waits_at", _waits_at),
    Field("blocked_by", _blocked_by),
    Field("times_blocked", lambda producer, at: sum([block.times for _, block in producer.stories()])),
    Field("blocked_s", lambda producer, at: sum([block.blocked_s(at.now) for _, block in producer.stories()])),
)
"""The publishing side of a channel, or a link that sends: held and withheld publishes, and statistics by gate."""
PUBLISHED: Final = PRODUCER.select([*NOTHING_PUBLISHED, "credit"])


def _publishing(session: Session, at: Reading) -> object:
    """Return the publishing side of a channel, or of the first link of a session, and then each of its links.

    A session without a link that sends has the same fields, with nothing in them.
    """
    producers, links = producers_of(session), links_of(session)
    if not producers:
        return dict(NOTHING_PUBLISHED)
    found = PRODUCER.row(producers[0], at, PUBLISHED)
    if links:
        shown = links[:PRODUCERS_SHOWN]
        found["links"] = [{"name": each.name, **PRODUCER.row(each, at, PUBLISHED)} for each in shown]
        found["more_links"] = len(links) - len(shown)
    return found


# Sessions


def _connection(session: Session, at: Reading) -> Connection | None:
    return at.node.connections.get(session.connection_number)


def _user(session: Session, at: Reading) -> object:
    connection = _connection(session, at)
    return "" if connection is None else connection.user


def _vhost(session: Session, at: Reading) -> object:
    connection = _connection(session, at)
    return "" if connection is None or connection.vhost is None else connection.vhost.name


def _details(session: Session, at: Reading) -> object:
    connection = _connection(session, at)
    return {} if connection is None else connection_details(connection)


def _unconfirmed(session: Session) -> int:
    return sum([pending.publishes() for producer in producers_of(session) for pending in producer.confirms.pending])


def _confirms(session: Session, at: Reading) -> object:
    return any(producer.confirming for producer in producers_of(session))


def _state(session: Session, at: Reading) -> object:
    """Return `flow` while a gate blocks it, as RabbitMQ."""
    return "flow" if any(producer.gates for producer in producers_of(session)) else "running"


SESSION: Final[Table[Session]] = Table(
    Field("name", lambda session, at: session.name),
    Field("number", lambda session, at: int(session.number)),
    Field("user", _user),
    Field("vhost", _vhost),
    Field("node", lambda session, at: at.node.name),
    Field("connection_details", _details),
    Field("consumer_count", lambda session, at: len(session.consumers), "consumers",
           "rabbitmq_channel_consumers", "Consumers on a channel", CHANNELS),
    Field("prefetch_count", lambda session, at: int(session.prefetch), "messages",
           "rabbitmq_consumer_prefetch", "Limit of unacknowledged messages for each consumer", CHANNELS),
    Field("global_prefetch_count", lambda session, at: int(session.credit.window), "messages",
           "rabbitmq_channel_prefetch", "Limit of unacknowledged messages for all consumers on a channel", CHANNELS),
    Field("confirm", _confirms),
    Field("transactional", lambda session, at: session.in_transaction()),
    Field("messages_unacknowledged", lambda session, at: session.unsettled.count(), "messages",
           "rabbitmq_channel_messages_unacked", "Delivered but not yet acknowledged messages", CHANNELS),
    Field("messages_unconfirmed", lambda session, at: _unconfirmed(session), "messages",
           "rabbitmq_channel_messages_unconfirmed", "Published but not yet confirmed messages", CHANNELS),
    Field("state", _state),
    Field("penstock", _publishing),
    Field("message_stats", lambda session, at: session_stats(session, at.ranges) or ABSENT),
    metric("penstock_channel_confirms_withheld",
           lambda session, at: sum([withheld_by(producer) for producer in producers_of(session)]),
           "Acknowledgements to publishers that are withheld until a gate opens", FLOW),
)  # fmt: skip


def session_in_full(session: Session, at: Reading) -> Row:
    """Return a session with its consumers."""
    found = SESSION.row(session, at)
    consumers = islice(session.consumers.values(), CONSUMERS_DETAILED)
    found["consumer_details"] = [CONSUMER.row(consumer, at) for consumer in consumers]
    return found


def producer_row(producer: Producer, now: float) -> Row:
    """Return what `why` says of a producer."""
    return PRODUCER.row(producer, Reading(now))


def session_row(session: Session, now: float) -> Row:
    """Return what `why` says of a session: its producers and its consumers."""
    consumers = list(session.consumers.values())
    producers = producers_of(session)
    row: Row = {
        "channel": session.name,
        "publishing": producer_row(producers[0], now) if producers else None,
        "receiving": session.receiving(),
        "unacknowledged": session.unsettled.count(),
        "consumers": [consumer_row(consumer, now) for consumer in consumers[:CONSUMERS_SHOWN]],
        "more_consumers": max(len(consumers) - CONSUMERS_SHOWN, 0),
    }
    links = links_of(session)
    if links:
        row["links"] = [producer_row(producer, now) for producer in links[:PRODUCERS_SHOWN]]
        row["more_links"] = max(len(links) - PRODUCERS_SHOWN, 0)
    return row


def connection_in_full(connection: Connection, now: float) -> Row:
    """Return what `why` says of a connection, with its channels."""
    sessions = list(connection.engine.sessions())
    return {
        **connection_row(connection),
        "user": connection.user,
        "paused": connection.may_pause(),
        "channels": [session_row(session, now) for session in sessions[:CHANNELS_SHOWN]],
        "more_channels": max(len(sessions) - CHANNELS_SHOWN, 0),
    }
