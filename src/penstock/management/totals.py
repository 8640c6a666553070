"""Totals over all queues and connections, counted in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.access.rules import Rules
from penstock.flow.work import Steps
from penstock.management.message_stats import SampleRanges, tally_stats
from penstock.management.rabbitmq_json import SUMMED_A_UNIT, Shape, depths, sum_details

if TYPE_CHECKING:
    from penstock.management.node import Node

QUEUES_AT_ONCE: Final = 500
"""Queues summed up per step."""
CHANNELS_A_UNIT: Final = 5
"""Channels whose consumers are counted per unit of work."""


def totals_steps(
    node: Node, rules: Rules | None = None, user: str = "", ranges: SampleRanges | None = None
) -> Steps[Shape]:
    """Return the totals in the form of RabbitMQ's overview.

    With `rules` they are those of the virtual hosts that a user may enter, and of its own connections.
    """
    broker = node.broker
    work = broker.work
    ready, unacked, total = 0, 0, 0
    vhosts = [vhost for vhost in broker.vhosts.values() if rules is None or rules.enters(vhost.name)]
    for vhost in vhosts:
        for queues in vhost.roll.parts(QUEUES_AT_ONCE):
            part = depths(queues)
            ready, unacked, total = ready + part[0], unacked + part[1], total + part[2]
            work.done += QUEUES_AT_ONCE // SUMMED_A_UNIT
            if work.used_up():
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
    stats = None if counted is None else tally_stats(counted.tally, counted.series, ranges)
    return {
        "message_stats": {} if stats is None else stats,
        "queue_totals": {
            "messages": total,
            "messages_ready": ready,
            "messages_unacknowledged": unacked,
            **sum_details(counted, ranges),
        },
        "object_totals": {
            "channels": channels,
            "connections": connections,
            "consumers": consumers,
            "exchanges": sum([len(vhost.exchanges) for vhost in vhosts]),
            "queues": sum([len(vhost.queues) for vhost in vhosts]),
        },
    }
