"""Descriptions of virtual hosts, exchanges, bindings, users and policies: the tables of all fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote_plus

from penstock.access.password_hash import PLAIN, SHA256
from penstock.access.permission import Permission, TopicPermission
from penstock.access.rules import Rules
from penstock.access.user import User
from penstock.core.gates.operator import ADDRESS
from penstock.core.gates.operator import VHOST as OF_VHOST
from penstock.core.queue.queue import Queue
from penstock.core.queue.types import CLASSIC, DEFAULT_QUEUE_TYPE
from penstock.core.routing.exchange import Binding, Exchange, arguments_digest
from penstock.core.routing.exchange_types import DESCRIPTIONS, EXCHANGE_TYPES
from penstock.core.routing.route import CONTROL_EXCHANGE
from penstock.core.settings.policies import Policy, PolicyPair
from penstock.core.settings.table import Parameter
from penstock.core.vhost import VirtualHost
from penstock.describe.gate import gate_row
from penstock.describe.message_stats import (
    SUM_COUNTERS,
    Depths,
    SampleRanges,
    exchange_losses,
    exchange_stats,
    length_details,
    tally_stats,
)
from penstock.describe.stats_sampler import Sum
from penstock.describe.table import ABSENT, DescribedNode, Field, Reading, Row, Table, metric, plain
from penstock.flow.work import Steps

SUMMED_A_UNIT: Final = 10
"""Queues summed up per unit of work."""
QUEUES_AT_ONCE: Final = 500
"""Queues summed up per step."""
CHANNELS_A_UNIT: Final = 5
"""Channels whose consumers are counted per unit of work."""


def _sum_stats(counted: Sum | None, ranges: SampleRanges | None) -> Row | None:
    """Return the `message_stats` of a sum; None before the first message."""
    return None if counted is None else tally_stats(counted.tally, counted.series, ranges)


def _sum_details(counted: Sum | None, ranges: SampleRanges | None) -> Row:
    """Return the details of the lengths of a virtual host's queues, or of the node's."""
    if counted is None or counted.series is None:
        return {}
    return length_details(counted.series, SUM_COUNTERS, ranges)


def _depths(vhost: VirtualHost, at: Reading) -> object:
    sums = Depths()
    for queue in vhost.queues.values():
        sums.add(queue)
    return sums.row()


def _stats(vhost: VirtualHost, at: Reading) -> object:
    return _sum_stats(at.node.stats.vhosts.get(vhost.name), at.ranges) or ABSENT


ATTRIBUTES: Final[Row] = {
    "description": "",
    "tags": [],
    DEFAULT_QUEUE_TYPE: CLASSIC.name,
    "metadata": {"description": "", "tags": []},
    "protected_from_deletion": False,
}
"""Attributes of a virtual host without any."""


def _host_gate(vhost: VirtualHost, at: Reading) -> object:
    """Return the limit of the queues of a virtual host, with its gate; None without one."""
    limit = at.broker.gates.vhosts.get(vhost.name)
    return None if limit is None else gate_row(limit.gate, at.now)


VHOST: Final[Table[VirtualHost]] = Table(
    Field("name", lambda vhost, at: vhost.name),
    Field("attributes.*", lambda vhost, at: {**ATTRIBUTES, **vhost.metadata}),
    Field("tracing", lambda vhost, at: False),
    Field("cluster_state", lambda vhost, at: {at.node.name: "running"}),
    Field("depths.*", _depths),
    Field("message_stats", _stats),
    Field("lengths.*", lambda vhost, at: _sum_details(at.node.stats.vhosts.get(vhost.name), at.ranges)),
    Field("penstock.queues", lambda vhost, at: len(vhost.queues)),
    Field("penstock.exchanges", lambda vhost, at: len(vhost.exchanges)),
    Field("penstock.deleting", lambda vhost, at: vhost.deleting),
    Field("penstock.held", lambda vhost, at: held_by_operator(at, OF_VHOST, vhost.name, vhost.name)),
    Field("penstock.gate", _host_gate),
)


def totals_steps(
    node: DescribedNode, rules: Rules | None = None, user: str = "", ranges: SampleRanges | None = None
) -> Steps[Row]:
    """Return the totals in the form of RabbitMQ's overview.

    With `rules`, only virtual hosts that a user may enter, and the user's own connections, are included.
    """
    broker = node.broker
    work = broker.work
    depths = Depths()
    vhosts = [vhost for vhost in broker.vhosts.values() if rules is None or rules.enters(vhost.name)]
    for vhost in vhosts:
        for queues in vhost.roll.parts(QUEUES_AT_ONCE):
            for queue in queues:
                depths.add(queue)
            if work.spend(QUEUES_AT_ONCE // SUMMED_A_UNIT):
                yield
    connections, channels, consumers = 0, 0, 0
    for connection in list(node.connections.values()):
        if connection.vhost is not None and (rules is None or connection.user == user):
            connections += 1
            channels += len(connection.engine.sessions())
            for channel in connection.engine.sessions():
                consumers += len(channel.consumers)
            if work.spend(1 + len(connection.engine.sessions()) // CHANNELS_A_UNIT):
                yield
    counted = node.stats.node if rules is None else None
    return {
        "message_stats": _sum_stats(counted, ranges) or {},
        "queue_totals": {**depths.row(), **_sum_details(counted, ranges)},
        "object_totals": {
            "channels": channels,
            "connections": connections,
            "consumers": consumers,
            "exchanges": sum([len(vhost.exchanges) for vhost in vhosts]),
            "queues": sum([len(vhost.queues) for vhost in vhosts]),
        },
    }


def churn(node: DescribedNode, connected: int, channels: int, queues: int) -> dict[str, int]:
    """Return the counters of created and deleted objects, under RabbitMQ's names.

    `connected` is the number of all connections since the start; `channels` and `queues` are the existing ones.
    """
    vhosts = node.broker.vhosts.values()
    opened = sum([int(vhost.churn.channels_opened) for vhost in vhosts])
    created = sum([int(vhost.churn.queues_created) for vhost in vhosts])
    return {
        "connection_created": connected,
        "connection_closed": connected - len(node.connections),
        "channel_created": opened,
        "channel_closed": max(opened - channels, 0),
        "queue_declared": sum([int(vhost.churn.queues_declared) for vhost in vhosts]),
        "queue_created": created,
        "queue_deleted": max(created - queues, 0),
    }


EXCHANGES: Final = "exchange_metrics"
"""RabbitMQ's group of `/metrics/detailed?family=`."""


def policies_of(policies: PolicyPair) -> Row:
    """Return the names of the policies of a queue or exchange, and their common definition."""
    return {
        "policy": policies.name(),
        "operator_policy": policies.operator_name(),
        "effective_policy_definition": policies.definition(),
    }


def held_by_operator(at: Reading, scope: str, vhost: str, name: str) -> Row | None:
    """Return since when and why the operator holds an object; None for one that is not held."""
    found = at.broker.gates.operator_gates.get((scope, vhost, name))
    since = None if found is None else found.gate.stats.since
    if found is None or since is None:
        return None
    return {
        "reason": found.reason,
        "since": round((since + at.broker.wall_offset) * 1000),
        "for_s": round(at.now - since, 1),
        "blocked": len(found.gate.blocked),
    }


def _of_exchange(exchange: Exchange, at: Reading) -> object:
    losses = {} if exchange.counters.published == 0 else exchange_losses(exchange.counters)
    return {
        **losses,
        "bindings": len(exchange.bindings),
        "alternate": exchange.alternate,
        "held": held_by_operator(at, ADDRESS, exchange.vhost, exchange.name),
    }


EXCHANGE: Final[Table[Exchange]] = Table(
    Field("name", lambda exchange, at: exchange.name),
    Field("vhost", lambda exchange, at: exchange.vhost),
    Field("type", lambda exchange, at: exchange.kind),
    Field("durable", lambda exchange, at: exchange.durable),
    Field("auto_delete", lambda exchange, at: exchange.auto_delete),
    Field("internal", lambda exchange, at: exchange.internal or exchange.name == CONTROL_EXCHANGE),
    Field("arguments", lambda exchange, at: plain(exchange.arguments)),
    Field("message_stats", lambda exchange, at: exchange_stats(exchange.counters, at.ranges) or ABSENT),
    Field("penstock", _of_exchange),
    Field("penstock.bindings", lambda exchange, at: len(exchange.bindings), "bindings"),
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
"""The binding of every queue to the default exchange, by the queue's name."""


def properties_key(key: str, digest: str) -> str:
    """Return the name of a binding in RabbitMQ's URLs: its key, and the digest of its arguments, if any.

    `~` alone is the empty key, and separates key and digest, so a `~` in a key is quoted.
    """
    quoted = quote_plus(key, errors="surrogatepass").replace("~", "%7E")
    return f"{quoted}~{digest}" if digest else quoted or "~"


def exchange_types() -> list[Row]:
    """Return the supported exchange types."""
    return [
        {
            "name": kind,
            "description": DESCRIPTIONS.get(kind, f"AMQP {kind} exchange, as per the AMQP specification"),
            "enabled": True,
        }
        for kind in EXCHANGE_TYPES
    ]


def permission_row(permission: Permission) -> Row:
    """Return the expressions of a permission."""
    return {"configure": permission.configure, "write": permission.write, "read": permission.read}


def topic_row(permission: TopicPermission) -> Row:
    """Return the expressions of a topic permission."""
    return {"write": permission.write, "read": permission.read}


def permissions_of(user: User) -> list[Row]:
    """Return the permissions of a user, with their virtual hosts."""
    return [{"vhost": vhost, **permission_row(each)} for vhost, each in user.permissions.items()]


def topics_of(user: User, only: str | None = None) -> list[Row]:
    """Return the topic permissions of a user, with virtual hosts and exchanges; for one virtual host, or all."""
    return [
        {"vhost": vhost, "exchange": exchange, **topic_row(each)}
        for vhost, topics in user.topic_permissions.items()
        for exchange, each in topics.items()
        if only is None or vhost == only
    ]


def user_permissions(user: User, vhosts: Iterable[str], only: str | None = None) -> list[Row]:
    """Return the permissions of a user with its name, in one virtual host, or in all; `vhosts` are all hosts."""
    names = [only] if only is not None else vhosts if user.everywhere else user.permissions
    own = [(name, user.permission(name)) for name in names]
    return [{"user": user.name, "vhost": name, **permission_row(each)} for name, each in own if each is not None]


def user_topics(user: User, only: str | None = None) -> list[Row]:
    """Return the topic permissions of a user with its name, in one virtual host, or in all."""
    return [{"user": user.name, **topic} for topic in topics_of(user, only)]


def _hash(user: User, at: Reading) -> object:
    """Return the hash of the password. A user without a password has an empty hash, as in RabbitMQ, whose tools need
    both.
    """
    hashed = user.password_hash
    if hashed is None or hashed.algorithm == PLAIN:
        return {"password_hash": "", "hashing_algorithm": SHA256}
    return {"password_hash": hashed.text(), "hashing_algorithm": hashed.algorithm}


USER: Final[Table[User]] = Table(
    Field("name", lambda user, at: user.name),
    Field("tags", lambda user, at: user.tags),
    Field("limits", lambda user, at: dict(user.limits)),
    Field("hash.*", _hash),
    Field("penstock.password", lambda user, at: user.password_hash is not None),
    Field("penstock.source", lambda user, at: user.source),
)
"""Field `penstock.password` is true if a user has a password, even if its hash is not shown."""


def user_row(user: User) -> Row:
    """Return a user with its permissions, without its password."""
    return {
        "name": user.name,
        "tags": user.tags,
        "limits": dict(user.limits),
        **USER.own(user, Reading(0.0)),
        "everywhere": user.everywhere,
        "permissions": permissions_of(user),
        "topic_permissions": topics_of(user),
    }


def policy_row(policy: Policy) -> Row:
    """Return a policy in RabbitMQ's form."""
    return {"vhost": policy.vhost, "name": policy.name, **policy.fields()}


def parameter_row(parameter: Parameter) -> Row:
    """Return a parameter in RabbitMQ's form; a global parameter has neither component nor virtual host."""
    row: Row = {"name": parameter.name, "value": parameter.value}
    return {**row, "component": parameter.component, "vhost": parameter.vhost} if parameter.component else row
