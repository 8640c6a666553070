"""Objects of the broker in the JSON form of RabbitMQ's HTTP API, for its tools.

As in views.py, values come from the deciding code. A field of RabbitMQ's that Penstock does not count is omitted, never
guessed: docs/http.md lists them. Fields of Penstock's own are under `penstock`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from math import isfinite
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.rotation import browsers_of, consumers_of, has_exclusive, single_active
from penstock.core.consume.session import Session
from penstock.core.publish.producer import Producer, producers_of
from penstock.core.queue.queue import Queue
from penstock.core.routing.binding import Binding, arguments_digest
from penstock.core.routing.exchange import EXCHANGE_TYPES, Exchange
from penstock.core.routing.route_lookup import CONTROL_EXCHANGE
from penstock.core.settings.policies import PolicyPair
from penstock.core.vhost import VirtualHost
from penstock.flow.timers import NEVER
from penstock.management import views
from penstock.management.links import links_of
from penstock.management.message_stats import (
    SUM_COUNTERS,
    SampleRanges,
    connection_tally,
    exchange_losses,
    exchange_stats,
    length_details,
    queue_rates,
    queue_stats,
    session_stats,
    tally_stats,
)
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.tls_session import rabbitmq_fields

if TYPE_CHECKING:
    from penstock.management.node import Node
    from penstock.management.stats_sampler import Sum

Shape = dict[str, object]

API_VERSION: Final = "4.0.0"
"""Version of RabbitMQ whose HTTP API and definitions are followed; tools request it."""
SUMMED_A_UNIT: Final = 10
"""Queues summed up per unit of work."""
CONSUMERS_DETAILED: Final = 1000
"""Most consumers in the answer about one queue or channel; `/api/consumers` lists all."""

NOTHING_PUBLISHED: Final[Shape] = {
    "rates": None,
    "held": {"messages": 0, "bytes": 0},
    "withheld": 0,
    "waits_at": None,
    "blocked_by": [],
    "times_blocked": 0,
    "blocked_s": 0.0,
}
"""Publishing side of a session without producers."""
CONSUMER_FIELDS: Final = (
    *("browses", "unacknowledged", "link_credit", "adaptive_window", "window_bytes", "max_rate", "delivered"),
    "obstacles",
)
"""Fields of a consumer of Penstock's own."""


def plain(value: object) -> object:
    """Return a field-table value as JSON; octets that are not UTF-8 get replacement characters.

    A number that JSON does not have, such as NaN, is a text.
    """
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if value is None or isinstance(value, (str, int)):
        return value
    return str(value)  # A timestamp or a decimal.


def virtual_host(vhost: VirtualHost, node: Node, ranges: SampleRanges | None = None) -> Shape:
    """Return a virtual host, with the sums over its queues."""
    ready, unacked, total = depths(vhost.queues.values())
    counted = node.stats.vhosts.get(vhost.name)
    stats = None if counted is None else tally_stats(counted.tally, counted.series, ranges)
    return {
        "name": vhost.name,
        "description": "",
        "tags": [],
        "default_queue_type": "classic",
        "metadata": {"description": "", "tags": []},
        **vhost.metadata,
        "tracing": False,
        "cluster_state": {node.name: "running"},
        "messages": total,
        "messages_ready": ready,
        "messages_unacknowledged": unacked,
        **({} if stats is None else {"message_stats": stats}),
        **sum_details(counted, ranges),
    }


def sum_details(counted: Sum | None, ranges: SampleRanges | None) -> Shape:
    """Return the details of the lengths of a virtual host's queues, or of the node's."""
    if counted is None or counted.series is None:
        return {}
    return length_details(counted.series, SUM_COUNTERS, ranges)


def depths(queues: Iterable[Queue]) -> tuple[int, int, int]:
    """Return the ready, unacknowledged and total messages of queues."""
    total, unacked = 0, 0
    for queue in queues:
        total += int(queue.depth_messages())
        unacked += int(queue.unacked_messages)
    return total - unacked, unacked, total


def queue_of(queue: Queue, node: Node, ranges: SampleRanges | None = None) -> Shape:
    """Return a queue, as in lists."""
    consumers = queue.consumers
    exclusive = consumers_of(queue, 1)[0].tag if has_exclusive(queue) else None
    active = single_active(queue)
    kind = queue.arguments.get("x-queue-type")
    view = views.queue_view(queue, node.broker.now)
    del view["queue"], view["vhost"]
    view["rates"] = queue_rates(queue)
    found: Shape = {
        "name": queue.name,
        "vhost": queue.vhost,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": plain(queue.arguments),
        "type": kind if isinstance(kind, str) else "classic",
        "node": node.name,
        "state": "running",
        **policies_of(queue.settings.policies),
        "messages": int(queue.depth_messages()),
        "messages_ready": int(queue.depth_messages() - queue.unacked_messages),
        "messages_unacknowledged": int(queue.unacked_messages),
        "messages_ram": int(queue.messages),
        "messages_paged_out": int(queue.depth_messages() - queue.messages),
        "consumers": len(consumers),
        "exclusive_consumer_tag": exclusive,
        "single_active_consumer_tag": None if active is None else active.tag,
        "penstock": view,
    }
    found.update(queue_stats(queue, node.broker.now, ranges))
    if isinstance(queue.owner, Connection):
        found["owner_pid_details"] = _connection_details(queue.owner)
    return found


def queue_in_full(queue: Queue, node: Node, ranges: SampleRanges | None = None) -> Shape:
    """Return a queue with its consumers and browsers, as for a request about this one."""
    found = queue_of(queue, node, ranges)
    consumers = consumers_of(queue, CONSUMERS_DETAILED) + browsers_of(queue)
    found["consumer_details"] = [consumer_of(consumer, node) for consumer in consumers[:CONSUMERS_DETAILED]]
    return found


def exchange_of(vhost: VirtualHost, exchange: Exchange, ranges: SampleRanges | None = None) -> Shape:
    """Return an exchange."""
    found: Shape = {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.kind,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal or exchange.name == CONTROL_EXCHANGE,
        "arguments": plain(exchange.arguments),
    }
    stats = exchange_stats(exchange.counters, ranges)
    if stats is not None:
        found["message_stats"] = stats
        found["penstock"] = exchange_losses(exchange.counters)
    return found if exchange.policy is None else {**found, **policies_of(PolicyPair(exchange.policy))}


def policies_of(policies: PolicyPair) -> Shape:
    """Return the names of the policies of a queue or exchange, and their common definition."""
    return {
        "policy": policies.name(),
        "operator_policy": policies.operator_name(),
        "effective_policy_definition": policies.definition(),
    }


def binding_of(vhost: VirtualHost, binding: Binding) -> Shape:
    """Return a binding."""
    target = binding.queue.name if binding.queue is not None else ""
    if binding.exchange is not None:
        target = binding.exchange.name
    return {
        "source": binding.source.name,
        "vhost": vhost.name,
        "destination": target,
        "destination_type": "queue" if binding.exchange is None else "exchange",
        "routing_key": binding.key,
        "arguments": plain(binding.arguments),
        "properties_key": properties_key(binding.key, arguments_digest(binding)),
    }


def default_binding(queue: Queue) -> Shape:
    """Return the binding of every queue to the default exchange, by its name."""
    return {
        "source": "",
        "vhost": queue.vhost,
        "destination": queue.name,
        "destination_type": "queue",
        "routing_key": queue.name,
        "arguments": {},
        "properties_key": properties_key(queue.name, ""),
    }


def properties_key(key: str, digest: str) -> str:
    """Return the name of a binding in RabbitMQ's URLs: its key, and the digest of its arguments if it has any."""
    quoted = quote_plus(key, errors="surrogatepass")
    return f"{quoted}~{digest}" if digest else quoted or "~"


def consumer_of(consumer: Consumer, node: Node) -> Shape:
    """Return a consumer or browser, with the reasons why it gets no messages."""
    view = views.consumer_view(consumer, node.broker.now)
    single = consumer.queue.features.single_active and not consumer.browses()
    active = not single or single_active(consumer.queue) is consumer
    timeout_s = consumer.queue.settings.consumer_timeout_s
    return {
        "consumer_tag": consumer.tag,
        "queue": {"name": consumer.queue.name, "vhost": consumer.queue.vhost},
        "channel_details": _channel_details(consumer.session, node),
        "ack_required": not consumer.no_ack,
        "exclusive": consumer.exclusive,
        "prefetch_count": int(consumer.prefetch),
        "active": active,
        "activity_status": ("single_active" if active else "waiting") if single else "up",
        "consumer_timeout": None if timeout_s == NEVER else round(timeout_s * 1000),
        "arguments": plain(consumer.arguments),
        "penstock": {name: view[name] for name in CONSUMER_FIELDS},
    }


def connection_of(connection: Connection, node: Node, ranges: SampleRanges | None = None) -> Shape:
    """Return a connection. Its name is the one in the log and in `penstock why`."""
    host, port = _split(connection.peer.address)
    ours, at = _split(connection.peer.local)
    vhost = connection.vhost
    stats = None
    if connection.origin is not None:
        tally = connection_tally(connection.origin, list(connection.engine.sessions()))
        stats = tally_stats(tally, connection.origin.series, ranges)
    return {
        "name": connection.name(),
        "user": connection.user,
        "vhost": "" if vhost is None else vhost.name,
        "node": node.name,
        "type": "network",
        "auth_mechanism": connection.peer.mechanism,
        "state": _state(connection),
        "channels": len(connection.engine.sessions()),
        **connection.engine.details(),
        "connected_at": round((connection.times.opened + node.broker.wall_offset) * 1000),
        "peer_host": host,
        "peer_port": port,
        "host": ours,
        "port": at,
        **rabbitmq_fields(connection.peer.tls),
        "client_properties": plain(connection.peer.properties),
        "user_provided_name": plain(connection.peer.properties.get("connection_name")),
        "penstock": {
            "number": connection.number,
            "blocked": connection.blocks > 0,
            "paused": connection.may_pause() or connection.pausing.pieces.waiting,
            "held": {
                "messages": int(connection.pausing.budget.messages),
                "bytes": int(connection.pausing.budget.bytes),
            },
        },
        **_traffic_of(connection),
        **({} if stats is None else {"message_stats": stats}),
    }


def _traffic_of(connection: Connection) -> Shape:
    """Return the octets of a connection, with the rates of the last pass of the sampler."""
    traffic = connection.peer.traffic
    return {
        "recv_oct": int(traffic.received),
        "recv_oct_details": {"rate": round(traffic.received_rate, 3)},
        "recv_cnt": int(traffic.reads),
        "send_oct": int(traffic.sent),
        "send_oct_details": {"rate": round(traffic.sent_rate, 3)},
        "send_cnt": int(traffic.writes),
    }


def _state(connection: Connection) -> str:
    """Return RabbitMQ's state: `blocked` for a connection blocked by any gate."""
    if connection.state is ConnectionState.RUNNING and connection.blocks > 0:
        return "blocked"
    return connection.state.word()


def channel_of(session: Session, node: Node, ranges: SampleRanges | None = None) -> Shape:
    """Return a session as a channel, RabbitMQ's word for it; its state is `flow` while a gate blocks it."""
    connection = node.connections.get(session.connection_number)
    vhost = None if connection is None else connection.vhost
    producers = producers_of(session)
    confirming = any(producer.confirming for producer in producers)
    found: Shape = {
        "name": session.name,
        "number": int(session.number),
        "user": "" if connection is None else connection.user,
        "vhost": "" if vhost is None else vhost.name,
        "node": node.name,
        "connection_details": {} if connection is None else _connection_details(connection),
        "consumer_count": len(session.consumers),
        "prefetch_count": int(session.prefetch),
        "global_prefetch_count": int(session.credit.window),
        "confirm": confirming,
        "transactional": session.in_transaction(),
        "messages_unacknowledged": session.unsettled.count(),
        "messages_unconfirmed": sum(_unconfirmed(producer) for producer in producers),
        "state": "flow" if any(producer.gates for producer in producers) else "running",
        "penstock": _publishing_of(session, producers, node.broker.now),
    }
    stats = session_stats(session, ranges)
    if stats is not None:
        found["message_stats"] = stats
    return found


def _unconfirmed(producer: Producer) -> int:
    return sum(pending.publishes() for pending in producer.confirms.pending)


def _publishing_of(session: Session, producers: list[Producer], now: float) -> Shape:
    """Return the publishing side of a channel, or of the first link of a session, and then each of its links.

    A session without a link that sends has the same fields, with nothing in them.
    """
    if not producers:
        return dict(NOTHING_PUBLISHED)
    found = _publishing(producers[0], now)
    links = links_of(session)
    if links:
        shown = links[: views.PRODUCERS_SHOWN]
        found["links"] = [{"name": each.name, **_publishing(each, now)} for each in shown]
        found["more_links"] = len(links) - len(shown)
    return found


def _publishing(producer: Producer, now: float) -> Shape:
    view = views.producer_view(producer, now)
    return {name: view[name] for name in NOTHING_PUBLISHED} | ({"credit": view["credit"]} if "credit" in view else {})


def channel_in_full(session: Session, node: Node, ranges: SampleRanges | None = None) -> Shape:
    """Return a session with its consumers."""
    found = channel_of(session, node, ranges)
    consumers = islice(session.consumers.values(), CONSUMERS_DETAILED)
    found["consumer_details"] = [consumer_of(consumer, node) for consumer in consumers]
    return found


def exchange_types() -> list[Shape]:
    """Return the supported exchange types."""
    return [
        {"name": kind, "description": f"AMQP {kind} exchange, as per the AMQP specification", "enabled": True}
        for kind in EXCHANGE_TYPES
    ]


def _channel_details(session: Session, node: Node) -> Shape:
    connection = node.connections.get(session.connection_number)
    host, port = ("", 0) if connection is None else _split(connection.peer.address)
    return {
        "name": session.name,
        "number": int(session.number),
        "user": "" if connection is None else connection.user,
        "node": node.name,
        "connection_name": "" if connection is None else connection.name(),
        "peer_host": host,
        "peer_port": port,
    }


def _connection_details(connection: Connection) -> Shape:
    host, port = _split(connection.peer.address)
    return {"name": connection.name(), "peer_host": host, "peer_port": port}


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port) if port.isdecimal() else 0
