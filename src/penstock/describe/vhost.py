"""Virtual hosts, and sums over their queues and over connections: totals of the overview, and what came and went."""

from __future__ import annotations

from typing import Final

from penstock.access.rules import Rules
from penstock.core.vhost import VirtualHost
from penstock.describe.described_node import DescribedNode
from penstock.describe.message_stats import SUM_COUNTERS, Depths, SampleRanges, length_details, tally_stats
from penstock.describe.stats_sampler import Sum
from penstock.describe.table import ABSENT, Field, Reading, Row, Table
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
    "default_queue_type": "classic",
    "metadata": {"description": "", "tags": []},
}
"""Attributes of a virtual host to which nobody gave any."""
VHOST: Final[Table[VirtualHost]] = Table(
    Field("name", lambda vhost, at: vhost.name),
    Field("attributes.*", lambda vhost, at: {**ATTRIBUTES, **vhost.metadata}),
    Field("tracing", lambda vhost, at: False),
    Field("cluster_state", lambda vhost, at: {at.node.name: "running"}),
    Field("depths.*", _depths),
    Field("message_stats", _stats),
    Field("lengths.*", lambda vhost, at: _sum_details(at.node.stats.vhosts.get(vhost.name), at.ranges)),
)


def totals_steps(
    node: DescribedNode, rules: Rules | None = None, user: str = "", ranges: SampleRanges | None = None
) -> Steps[Row]:
    """Return the totals in the form of RabbitMQ's overview.

    With `rules` they are those of the virtual hosts that a user may enter, and of its own connections.
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
            work.done += 1 + len(connection.engine.sessions()) // CHANNELS_A_UNIT
        if work.used_up():
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

    `connected` is the number of all connections since the start; `channels` and `queues` are those that exist.
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
