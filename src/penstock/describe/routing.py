"""Exchanges and bindings: everything that is said of one."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote_plus

from penstock.core.queue.queue import Queue
from penstock.core.routing.binding import Binding, arguments_digest
from penstock.core.routing.exchange import EXCHANGE_TYPES, Exchange
from penstock.core.routing.route_lookup import CONTROL_EXCHANGE
from penstock.core.settings.policies import PolicyPair
from penstock.describe.message_stats import exchange_losses, exchange_stats
from penstock.describe.table import ABSENT, Field, Reading, Row, Table, metric, plain

EXCHANGES: Final = "exchange_metrics"
"""RabbitMQ's group of `/metrics/detailed?family=`."""


def policies_of(policies: PolicyPair) -> Row:
    """Return the names of the policies of a queue or exchange, and their common definition."""
    return {
        "policy": policies.name(),
        "operator_policy": policies.operator_name(),
        "effective_policy_definition": policies.definition(),
    }


def _losses(exchange: Exchange, at: Reading) -> object:
    return ABSENT if exchange.counters.published == 0 else exchange_losses(exchange.counters)


EXCHANGE: Final[Table[Exchange]] = Table(
    Field("name", lambda exchange, at: exchange.name),
    Field("vhost", lambda exchange, at: exchange.vhost),
    Field("type", lambda exchange, at: exchange.kind),
    Field("durable", lambda exchange, at: exchange.durable),
    Field("auto_delete", lambda exchange, at: exchange.auto_delete),
    Field("internal", lambda exchange, at: exchange.internal or exchange.name == CONTROL_EXCHANGE),
    Field("arguments", lambda exchange, at: plain(exchange.arguments)),
    Field("message_stats", lambda exchange, at: exchange_stats(exchange.counters, at.ranges) or ABSENT),
    Field("penstock", _losses),
    Field("policies.*", lambda exchange, at: (
        ABSENT if exchange.policy is None else policies_of(PolicyPair(exchange.policy)))),
    metric("rabbitmq_exchange_messages_published_total", lambda exchange, at: int(exchange.counters.published),
           "Total number of messages published into an exchange", EXCHANGES),
    metric("rabbitmq_exchange_messages_unroutable_returned_total", lambda exchange, at: int(exchange.counters.returned),
           "Total number of messages published as mandatory into an exchange and returned as unroutable", EXCHANGES),
    metric("rabbitmq_exchange_messages_unroutable_dropped_total", lambda exchange, at: int(exchange.counters.dropped),
           "Total number of messages published as non-mandatory into an exchange and dropped as unroutable", EXCHANGES),
    metric("penstock_exchange_messages_routed_total", lambda exchange, at: int(exchange.counters.routed()),
           "Messages that an exchange led into queues: one that went into two counts twice", EXCHANGES),
)  # fmt: skip


def _destination(binding: Binding, at: Reading) -> object:
    if binding.exchange is not None:
        return binding.exchange.name
    return "" if binding.queue is None else binding.queue.name


BINDING: Final[Table[Binding]] = Table(
    Field("source", lambda binding, at: binding.source.name),
    Field("vhost", lambda binding, at: binding.source.vhost),
    Field("destination", _destination),
    Field("destination_type", lambda binding, at: "queue" if binding.exchange is None else "exchange"),
    Field("routing_key", lambda binding, at: binding.key),
    Field("arguments", lambda binding, at: plain(binding.arguments)),
    Field("properties_key", lambda binding, at: properties_key(binding.key, arguments_digest(binding))),
)
DEFAULT_BINDING: Final[Table[Queue]] = Table(
    Field("source", lambda queue, at: ""),
    Field("vhost", lambda queue, at: queue.vhost),
    Field("destination", lambda queue, at: queue.name),
    Field("destination_type", lambda queue, at: "queue"),
    Field("routing_key", lambda queue, at: queue.name),
    Field("arguments", lambda queue, at: {}),
    Field("properties_key", lambda queue, at: properties_key(queue.name, "")),
)
"""The binding of every queue to the default exchange, by its name."""


def properties_key(key: str, digest: str) -> str:
    """Return the name of a binding in RabbitMQ's URLs: its key, and the digest of its arguments if it has any."""
    quoted = quote_plus(key, errors="surrogatepass")
    return f"{quoted}~{digest}" if digest else quoted or "~"


def exchange_types() -> list[Row]:
    """Return the supported exchange types."""
    return [
        {"name": kind, "description": f"AMQP {kind} exchange, as per the AMQP specification", "enabled": True}
        for kind in EXCHANGE_TYPES
    ]
