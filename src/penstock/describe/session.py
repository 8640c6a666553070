"""Descriptions of connections, sessions, producers and consumers, for all protocols: the tables of all fields."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from penstock.connections.client_session import ClientSession
from penstock.connections.connection import Connection
from penstock.connections.connection_names import label
from penstock.connections.connection_state import ConnectionState
from penstock.connections.peer import Traffic, rabbitmq_fields
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.rotation import single_active, waits_behind
from penstock.core.consume.session import Session
from penstock.core.publish.credit_state import is_draining
from penstock.core.publish.producer import Producer
from penstock.core.publish.sender_credit import SenderCredit
from penstock.core.publish.session_counts import producers_of
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.delays import delays_of
from penstock.core.queue.queue import Queue
from penstock.describe.client_state import state_of_connection, state_of_producers
from penstock.describe.gate import gate_row
from penstock.describe.message_stats import connection_tally, session_stats, tally_stats
from penstock.describe.table import ABSENT, DescribedNode, Field, Reading, Row, Table, amounts, metric, or_none, plain
from penstock.flow.confirms import WITHHELD
from penstock.flow.credit import UNBOUNDED, LinkCredit
from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER

TRAFFIC: Final = "connection_coarse_metrics"
CONNECTIONS: Final = "connection_metrics"
"""RabbitMQ's groups of `/metrics/detailed?family=`."""
CONNECTION_FLOW: Final = "penstock_connection_metrics"


def peer_of(address: str) -> Row:
    """Return host and port of an address, as of a peer."""
    host, _, port = address.rpartition(":")
    return {"peer_host": host, "peer_port": int(port) if port.isdecimal() else 0}


def channel_name(session: Session) -> str:
    """Return RabbitMQ's name of a channel: the name of its connection, and its number."""
    if not isinstance(session, ClientSession):
        return session.name
    return f"{session.connection.peer.ends()} ({session.number})"


def session_label(session: Session) -> str:
    """Return the name of a session for people: it begins with the connection's."""
    if not isinstance(session, ClientSession):
        return session.name
    return label(session.connection) + session.name.removeprefix(session.connection.name())


def connection_details(connection: Connection) -> Row:
    """Return the fields of a connection in other rows."""
    return {
        "name": connection.peer.ends(),
        **peer_of(connection.peer.address),
        "penstock": {"name": connection.name()},
    }


def channel_details(session: Session, node: DescribedNode) -> Row:
    """Return the fields of a session in other rows."""
    connection = node.connections.get(session.connection_number)
    return {
        "name": channel_name(session),
        "number": int(session.number),
        "user": "" if connection is None else connection.user,
        "node": node.name,
        "connection_name": "" if connection is None else connection.peer.ends(),
        **peer_of("" if connection is None else connection.peer.address),
        "penstock": {"name": session.name, "label": session_label(session)},
    }


def _connection_state(connection: Connection, at: Reading) -> object:
    """Return RabbitMQ's state: `blocked` for a connection blocked by any gate."""
    if connection.state is ConnectionState.RUNNING and connection.blocks > 0:
        return "blocked"
    return connection.state.word()


def _own_end(connection: Connection, at: Reading) -> object:
    ours = peer_of(connection.peer.local)
    return {"host": ours["peer_host"], "port": ours["peer_port"]}


def _octets(connection: Connection, at: Reading) -> object:
    """Return the bytes, with the rates of the last pass of the sampler."""
    traffic = connection.peer.traffic
    return {
        "recv_oct": int(traffic.received),
        "recv_oct_details": {"rate": round(traffic.received_rate, 3)},
        "recv_cnt": int(traffic.reads),
        "send_oct": int(traffic.sent),
        "send_oct_details": {"rate": round(traffic.sent_rate, 3)},
        "send_cnt": int(traffic.writes),
    }


def _stats(connection: Connection, at: Reading) -> object:
    origin = connection.origin
    if origin is None:
        return ABSENT
    tally = connection_tally(origin, list(connection.engine.sessions()))
    return tally_stats(tally, origin.series, at.ranges) or ABSENT


def held(connection: Connection) -> Row:
    """Return the held publishes."""
    return amounts(connection.pausing.budget.messages, connection.pausing.budget.bytes)


def _sent(count: Callable[[Traffic], int]) -> Callable[[Connection, Reading], object]:
    return lambda connection, at: count(connection.peer.traffic)


OCTETS: Final[tuple[tuple[str, Callable[[Traffic], int], str, str], ...]] = (
    ("rabbitmq_connection_incoming_bytes_total", lambda traffic: int(traffic.received),
     "Total number of bytes received on a connection; inside of TLS", TRAFFIC),
    ("rabbitmq_connection_outgoing_bytes_total", lambda traffic: int(traffic.sent),
     "Total number of bytes sent on a connection; inside of TLS", TRAFFIC),
    ("rabbitmq_connection_incoming_packets_total", lambda traffic: int(traffic.reads),
     "Total number of packets received on a connection: reads of its socket", CONNECTIONS),
    ("rabbitmq_connection_outgoing_packets_total", lambda traffic: int(traffic.writes),
     "Total number of packets sent on a connection: writes to its socket", CONNECTIONS),
)  # fmt: skip
"""Families of bytes: sums over all connections include ended ones."""

CONNECTION: Final[Table[Connection]] = Table(
    Field("name", lambda connection, at: connection.peer.ends()),
    Field("user", lambda connection, at: connection.user),
    Field("vhost", lambda connection, at: "" if connection.vhost is None else connection.vhost.name),
    Field("node", lambda connection, at: at.node.name),
    Field("type", lambda connection, at: "network"),
    Field("auth_mechanism", lambda connection, at: connection.peer.mechanism),
    Field("state", _connection_state),
    Field("channels", lambda connection, at: len(connection.engine.sessions()), "channels",
           "rabbitmq_connection_channels", "Channels on a connection", CONNECTIONS),
    Field("protocol.*", lambda connection, at: connection.engine.details()),
    Field("connected_at", lambda connection, at: (
        round((connection.times.opened + at.node.broker.wall_offset) * 1000)), "ms"),
    Field("peer.*", lambda connection, at: peer_of(connection.peer.address)),
    Field("local.*", _own_end),
    Field("tls.*", lambda connection, at: rabbitmq_fields(connection.peer.tls)),
    Field("client_properties", lambda connection, at: plain(connection.peer.properties)),
    Field("user_provided_name", lambda connection, at: plain(connection.peer.properties.get("connection_name"))),
    Field("penstock.name", lambda connection, at: connection.name()),
    Field("penstock.label", lambda connection, at: label(connection)),
    Field("penstock.number", lambda connection, at: connection.number),
    Field("penstock.blocked", lambda connection, at: connection.blocks > 0, "", "penstock_connection_blocked",
           "Connections of which a gate blocks a producer: 1 for each", CONNECTION_FLOW),
    Field("penstock.paused", lambda connection, at: connection.may_pause() or connection.waits_for_store()),
    Field("penstock.held", lambda connection, at: held(connection)),
    Field("penstock.state", lambda connection, at: state_of_connection(connection, at.now)),
    Field("octets.*", _octets),
    Field("message_stats", _stats),
    *[metric(family, _sent(count), help, group) for family, count, help, group in OCTETS],
    metric("penstock_connection_paused", lambda connection, at: connection.may_pause(),
           "Connections that are not read, because their hold budget is used up: 1 for each", CONNECTION_FLOW),
    metric("penstock_connection_held_messages", lambda connection, at: int(connection.pausing.budget.messages),
           "Publishes that are held before a gate", CONNECTION_FLOW),
    metric("penstock_connection_held_bytes", lambda connection, at: int(connection.pausing.budget.bytes),
           "Bytes (charges) of publishes that are held before a gate", CONNECTION_FLOW),
)  # fmt: skip


def connection_row(connection: Connection) -> Row:
    """Return the row of a connection in `status`."""
    return {
        "name": connection.name(),
        "label": label(connection),
        "product": str(connection.peer.properties.get("product", "")),
        "protocol": connection.engine.details().get("protocol"),
        "state": connection.state.word(),
        "blocked": connection.blocks > 0,
        "channels": len(connection.engine.sessions()),
        "held": held(connection),
    }


CONSUMERS_DETAILED: Final = 1000
"""Most consumers in the answer about one queue or channel; `/api/consumers` lists all."""


def adaptive_window(consumer: Consumer) -> Row | None:
    """Return a consumer's adaptive window and the measures from which it is computed; None without one."""
    window = consumer.adaptive_window
    if window is None:
        return None
    adaptive = window.adaptive
    return {
        "messages": int(adaptive.window),
        "min": int(adaptive.least),
        "max": or_none(adaptive.most),
        "rate": round(adaptive.rate, 3) or None,
        "time_ms": round(adaptive.time_s * 1000, 3) or None,
        "batch": int(adaptive.batch),
    }


def obstacles(consumer: Consumer, now: float) -> list[str]:
    """Return why a consumer gets no messages: its own obstacles, or an empty queue."""
    phrases = consumer.obstacles(now)
    queue = consumer.queue
    behind = waits_behind(consumer)
    if behind:
        phrases.append(behind)
    if queue.depth_messages() == 0:
        phrases.append("the queue is empty")
    elif queue.returning is not None:
        phrases.append("messages are on their way back to the queue")
    elif queue.reserved.arrival() is not None:
        phrases.append("a batch is being published to the queue as a whole, and nothing is delivered before its end")
    elif queue.reserved.is_paused():
        phrases.append("the store is slower than the consumers: what they settled is being written to be retained")
    elif queue.available() == 0 and queue.waiting() > 0:
        phrases.append("the next messages of the queue are being read from the disk")
    elif queue.available() == 0 and queue.delayed_messages > 0:
        phrases.append(delayed_clause(queue, now))
    elif queue.available() == 0:
        phrases.append("every message of the queue is with a consumer, unacknowledged")
    return phrases


def delayed_clause(queue: Queue, now: float) -> str:
    """Return how many messages of a queue are delayed, and when the first is due, as a clause."""
    delays = delays_of(queue)
    first_s = 0.0 if delays is None else max(delays.next_due() - now, 0.0)
    count = int(queue.delayed_messages)
    delayed = "1 message of the queue is" if count == 1 else f"{count:,} messages of the queue are"
    others = "" if queue.unacked_messages == 0 else "; the others are with a consumer, unacknowledged"
    return f"{delayed} delayed, and the first is due in {first_s:,.1f} s{others}"


def _is_single(consumer: Consumer) -> bool:
    return consumer.queue.features.single_active and not consumer.browses()


def _is_active(consumer: Consumer) -> bool:
    return not _is_single(consumer) or single_active(consumer.queue) is consumer


def _status(consumer: Consumer, at: Reading) -> object:
    if not _is_single(consumer):
        return "up"
    return "single_active" if _is_active(consumer) else "waiting"


def _timeout_ms(consumer: Consumer, at: Reading) -> object:
    timeout_s = consumer.timeout_s()
    return None if timeout_s == NEVER else round(timeout_s * 1000)


def _link_credit(consumer: Consumer, at: Reading) -> object:
    return int(consumer.credit.granted) if isinstance(consumer.credit, LinkCredit) else None


def _window_bytes(consumer: Consumer, at: Reading) -> object:
    return None if consumer.credit.window_bytes == UNBOUNDED else int(consumer.credit.window_bytes)


CONSUMER: Final[Table[Consumer]] = Table(
    Field("consumer_tag", lambda consumer, at: consumer.tag),
    Field("queue", lambda consumer, at: {"name": consumer.queue.name, "vhost": consumer.queue.vhost}),
    Field("channel_details", lambda consumer, at: channel_details(consumer.session, at.node)),
    Field("ack_required", lambda consumer, at: not consumer.no_ack),
    Field("exclusive", lambda consumer, at: consumer.exclusive),
    Field("prefetch_count", lambda consumer, at: int(consumer.prefetch), "messages"),
    Field("active", lambda consumer, at: _is_active(consumer)),
    Field("activity_status", _status),
    Field("consumer_timeout", _timeout_ms),
    Field("arguments", lambda consumer, at: plain(consumer.arguments)),
    Field("penstock.browses", lambda consumer, at: consumer.browses()),
    Field("penstock.unacknowledged", lambda consumer, at: int(consumer.credit.out), "messages"),
    Field("penstock.link_credit", _link_credit),
    Field("penstock.adaptive_window", lambda consumer, at: adaptive_window(consumer)),
    Field("penstock.window_bytes", _window_bytes),
    Field("penstock.max_rate", lambda consumer, at: (
        None if consumer.rate_limiter is None else consumer.rate_limiter.rate)),
    Field("penstock.delivered", lambda consumer, at: int(consumer.delivered), "messages"),
    Field("penstock.obstacles", lambda consumer, at: obstacles(consumer, at.now)),
)  # fmt: skip


def consumer_row(consumer: Consumer, now: float) -> Row:
    """Return the row of a consumer in `why`, with the reasons why it gets no messages."""
    return {
        "consumer": consumer.tag,
        "channel": consumer.session.name,
        "queue": consumer.queue.name,
        "prefetch": int(consumer.prefetch) or None,
        **CONSUMER.own(consumer, Reading(now)),
    }


CHANNELS: Final = "channel_metrics"
PUBLISHING: Final = "channel_exchange_metrics"
CONSUMING: Final = "channel_queue_metrics"
"""RabbitMQ's groups of `/metrics/detailed?family=`."""
CHANNEL_FLOW: Final = "penstock_channel_metrics"
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
    """Return the producers of a session's links; none for a channel, which publishes itself."""
    producers = producers_of(session)
    return [] if len(producers) == 1 and producers[0].name == session.name else producers


def held_by(producer: WaitingPublisher) -> tuple[int, int]:
    """Return the number of a producer's held publishes, and their bytes (charges)."""
    outbox = producer.outbox
    return sum(int(held.messages) for held in outbox), sum(int(held.charge) for held in outbox)


def withheld_by(producer: WaitingPublisher, gate: Gate | None = None) -> int:
    """Return the number of a producer's withheld confirms; with a gate, of the confirms that this gate withholds
    first.
    """
    withheld = 0
    if not isinstance(producer, Producer):
        return withheld  # Dead letters have no confirms.
    for pending in producer.confirms.pending:
        if pending.state == WITHHELD and (gate is None or pending.obstacle() is gate):
            withheld += pending.publishes()
    return withheld


# Producers


def _rates(producer: Producer, at: Reading) -> object:
    """Return the rates of a producer: per second, None for no limit; None without any rate."""
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
    """Return the credit of a sender: messages that it may send, where their room is, and messages since its start."""
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
    """Return the session's name in the log, the publishing side of a channel, or of the first link of a session, and
    each link.

    A session without a sending link has the same fields, empty.
    """
    producers, links = producers_of(session), links_of(session)
    state = state_of_producers(producers, at.now)
    if not producers:
        return {"name": session.name, "label": session_label(session), "state": state, **NOTHING_PUBLISHED}
    own = PRODUCER.row(producers[0], at, PUBLISHED)
    row = {"name": session.name, "label": session_label(session), "state": state, **own}
    if links:
        shown = links[:PRODUCERS_SHOWN]
        row["links"] = [{"name": each.name, **PRODUCER.row(each, at, PUBLISHED)} for each in shown]
        row["more_links"] = len(links) - len(shown)
    return row


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


def _session_state(session: Session, at: Reading) -> object:
    """Return `flow` while a gate blocks the session, as RabbitMQ does."""
    return "flow" if any(producer.gates for producer in producers_of(session)) else "running"


SESSION: Final[Table[Session]] = Table(
    Field("name", lambda session, at: channel_name(session)),
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
    Field("state", _session_state),
    Field("penstock", _publishing),
    Field("message_stats", lambda session, at: session_stats(session, at.ranges) or ABSENT),
    metric("penstock_channel_confirms_withheld",
           lambda session, at: sum([withheld_by(producer) for producer in producers_of(session)]),
           "Acknowledgements to publishers that are withheld until a gate opens", CHANNEL_FLOW),
)  # fmt: skip


def session_in_full(session: Session, at: Reading) -> Row:
    """Return a session with its consumers."""
    row = SESSION.row(session, at)
    consumers = islice(session.consumers.values(), CONSUMERS_DETAILED)
    row["consumer_details"] = [CONSUMER.row(consumer, at) for consumer in consumers]
    return row


def producer_row(producer: Producer, now: float) -> Row:
    """Return the row of a producer in `why`."""
    return PRODUCER.row(producer, Reading(now))


def session_row(session: Session, now: float) -> Row:
    """Return the row of a session in `why`: its producers and its consumers."""
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
    """Return the row of a connection in `why`, with its channels."""
    sessions = list(connection.engine.sessions())
    return {
        **connection_row(connection),
        "user": connection.user,
        "paused": connection.may_pause(),
        "channels": [session_row(session, now) for session in sessions[:CHANNELS_SHOWN]],
        "more_channels": max(len(sessions) - CHANNELS_SHOWN, 0),
    }
