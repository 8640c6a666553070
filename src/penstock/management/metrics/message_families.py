"""Families of metrics that count messages: of the node, and of each channel, queue and exchange.

Those of the node never fall: channels and virtual hosts that end leave their counts to it. They are as of the last pass
of the sampler, seconds ago (management/stats_sampler.py); those of single objects are of now.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.core.routing.exchange_counters import ExchangeCounters
from penstock.flow.tally import Tally
from penstock.management.metrics.exposition import COUNTER, Exposition, Family
from penstock.management.metrics.queue_families import QueueFamily

if TYPE_CHECKING:
    from penstock.management.node import Node

PUBLISHING: Final = "channel_exchange_metrics"
CONSUMING: Final = "channel_queue_metrics"
QUEUE_DELIVERIES: Final = "queue_delivery_metrics"
EXCHANGES: Final = "exchange_metrics"
"""RabbitMQ's groups of `/metrics/detailed?family=`."""


class TallyFamily(Family):
    """Family of a count that every session has: a sample for each channel, and one of the node."""

    def __init__(self, group: str, name: str, value: Callable[[Tally], int], help: str) -> None:
        super().__init__(name, COUNTER, help)
        self.group = group
        self.value = value


class ExchangeFamily(Family):
    """Family with a sample for each exchange."""

    def __init__(self, name: str, value: Callable[[ExchangeCounters], int], help: str) -> None:
        super().__init__(name, COUNTER, help)
        self.value = value


def _deliveries(tally: Tally) -> int:
    return int(tally.deliver + tally.deliver_no_ack + tally.get + tally.get_no_ack)


def _routed(tally: Tally) -> int:
    return int(tally.publish - tally.return_unroutable - tally.drop_unroutable)


CHANNEL_COUNTS: Final[tuple[TallyFamily, ...]] = (
    TallyFamily(
        PUBLISHING, "rabbitmq_channel_messages_published_total", lambda tally: int(tally.publish),
        "Total number of messages published into an exchange on a channel",
    ),
    TallyFamily(
        PUBLISHING, "rabbitmq_channel_messages_confirmed_total", lambda tally: int(tally.confirm),
        "Total number of messages published into an exchange and confirmed on the channel",
    ),
    TallyFamily(
        PUBLISHING, "rabbitmq_channel_messages_unroutable_returned_total", lambda tally: int(tally.return_unroutable),
        "Total number of messages published as mandatory and returned to the publisher as unroutable",
    ),
    TallyFamily(
        PUBLISHING, "rabbitmq_channel_messages_unroutable_dropped_total", lambda tally: int(tally.drop_unroutable),
        "Total number of messages published as non-mandatory and dropped as unroutable",
    ),
    TallyFamily(
        CONSUMING, "rabbitmq_channel_get_ack_total", lambda tally: int(tally.get),
        "Total number of messages fetched with basic.get in manual acknowledgement mode",
    ),
    TallyFamily(
        CONSUMING, "rabbitmq_channel_get_total", lambda tally: int(tally.get_no_ack),
        "Total number of messages fetched with basic.get in automatic acknowledgement mode",
    ),
    TallyFamily(
        CONSUMING, "rabbitmq_channel_messages_delivered_ack_total", lambda tally: int(tally.deliver),
        "Total number of messages delivered to consumers in manual acknowledgement mode",
    ),
    TallyFamily(
        CONSUMING, "rabbitmq_channel_messages_delivered_total", lambda tally: int(tally.deliver_no_ack),
        "Total number of messages delivered to consumers in automatic acknowledgement mode",
    ),
    TallyFamily(
        CONSUMING, "rabbitmq_channel_messages_redelivered_total", lambda tally: int(tally.redeliver),
        "Total number of messages redelivered to consumers",
    ),
    TallyFamily(
        CONSUMING, "rabbitmq_channel_messages_acked_total", lambda tally: int(tally.ack),
        "Total number of messages acknowledged by consumers",
    ),
    TallyFamily(
        CONSUMING, "rabbitmq_channel_get_empty_total", lambda tally: int(tally.get_empty),
        "Total number of times basic.get operations fetched no message",
    ),
)  # fmt: skip
"""Counts of each channel; at `/metrics` those of the node, without labels."""

GLOBAL_COUNTS: Final[tuple[TallyFamily, ...]] = (
    TallyFamily(
        "", "rabbitmq_global_messages_received_total", lambda tally: int(tally.publish),
        "Total number of messages received from publishers",
    ),
    TallyFamily(
        "", "rabbitmq_global_messages_routed_total", _routed,
        "Total number of messages routed to queues; one that several queues took counts once",
    ),
    TallyFamily(
        "", "rabbitmq_global_messages_confirmed_total", lambda tally: int(tally.confirm),
        "Total number of messages confirmed to publishers",
    ),
    TallyFamily(
        "", "rabbitmq_global_messages_unroutable_returned_total", lambda tally: int(tally.return_unroutable),
        "Total number of messages published as mandatory and returned to the publisher as unroutable",
    ),
    TallyFamily(
        "", "rabbitmq_global_messages_unroutable_dropped_total", lambda tally: int(tally.drop_unroutable),
        "Total number of messages published as non-mandatory and dropped as unroutable",
    ),
    TallyFamily(
        "", "rabbitmq_global_messages_delivered_total", _deliveries, "Total number of messages delivered to consumers",
    ),
    TallyFamily(
        "", "rabbitmq_global_messages_delivered_consume_manual_ack_total", lambda tally: int(tally.deliver),
        "Total number of messages delivered to consumers using basic.consume with manual acknowledgment",
    ),
    TallyFamily(
        "", "rabbitmq_global_messages_delivered_consume_auto_ack_total", lambda tally: int(tally.deliver_no_ack),
        "Total number of messages delivered to consumers using basic.consume with automatic acknowledgment",
    ),
    TallyFamily(
        "", "rabbitmq_global_messages_delivered_get_manual_ack_total", lambda tally: int(tally.get),
        "Total number of messages delivered to consumers using basic.get with manual acknowledgment",
    ),
    TallyFamily(
        "", "rabbitmq_global_messages_delivered_get_auto_ack_total", lambda tally: int(tally.get_no_ack),
        "Total number of messages delivered to consumers using basic.get with automatic acknowledgment",
    ),
    TallyFamily(
        "", "rabbitmq_global_messages_get_empty_total", lambda tally: int(tally.get_empty),
        "Total number of times basic.get operations fetched no message",
    ),
    TallyFamily(
        "", "rabbitmq_global_messages_redelivered_total", lambda tally: int(tally.redeliver),
        "Total number of messages redelivered to consumers",
    ),
    TallyFamily(
        "", "rabbitmq_global_messages_acknowledged_total", lambda tally: int(tally.ack),
        "Total number of messages acknowledged by consumers",
    ),
)  # fmt: skip
"""Counts of the node only; RabbitMQ has them by protocol."""

QUEUE_COUNTS: Final[tuple[QueueFamily, ...]] = (
    QueueFamily(
        QUEUE_DELIVERIES, "rabbitmq_queue_messages_delivered_ack_total", COUNTER,
        lambda queue, now: int(queue.counters.delivered_to_ack()),
        "Total number of messages delivered from a queue to consumers in manual acknowledgement mode",
    ),
    QueueFamily(
        QUEUE_DELIVERIES, "rabbitmq_queue_messages_delivered_total", COUNTER,
        lambda queue, now: int(queue.counters.delivered_no_ack - queue.counters.gets_no_ack),
        "Total number of messages delivered from a queue to consumers in automatic acknowledgement mode",
    ),
    QueueFamily(
        QUEUE_DELIVERIES, "rabbitmq_queue_messages_redelivered_total", COUNTER,
        lambda queue, now: int(queue.counters.redelivered), "Total number of messages redelivered from a queue",
    ),
    QueueFamily(
        QUEUE_DELIVERIES, "rabbitmq_queue_messages_acked_total", COUNTER,
        lambda queue, now: int(queue.counters.acknowledged(queue)),
        "Total number of messages acknowledged by consumers on a queue",
    ),
    QueueFamily(
        QUEUE_DELIVERIES, "rabbitmq_queue_get_ack_total", COUNTER, lambda queue, now: int(queue.counters.gets),
        "Total number of messages fetched with basic.get in manual acknowledgement mode",
    ),
    QueueFamily(
        QUEUE_DELIVERIES, "rabbitmq_queue_get_total", COUNTER, lambda queue, now: int(queue.counters.gets_no_ack),
        "Total number of messages fetched with basic.get in automatic acknowledgement mode",
    ),
    QueueFamily(
        QUEUE_DELIVERIES, "rabbitmq_queue_get_empty_total", COUNTER, lambda queue, now: int(queue.counters.gets_empty),
        "Total number of times basic.get fetched no message",
    ),
)  # fmt: skip
"""Counts of each queue, for single queues only."""

EXCHANGE_COUNTS: Final[tuple[ExchangeFamily, ...]] = (
    ExchangeFamily(
        "rabbitmq_exchange_messages_published_total", lambda counters: int(counters.published),
        "Total number of messages published into an exchange",
    ),
    ExchangeFamily(
        "rabbitmq_exchange_messages_unroutable_returned_total", lambda counters: int(counters.returned),
        "Total number of messages published as mandatory into an exchange and returned as unroutable",
    ),
    ExchangeFamily(
        "rabbitmq_exchange_messages_unroutable_dropped_total", lambda counters: int(counters.dropped),
        "Total number of messages published as non-mandatory into an exchange and dropped as unroutable",
    ),
    ExchangeFamily(
        "penstock_exchange_messages_routed_total", lambda counters: int(counters.routed()),
        "Messages that an exchange led into queues: one that went into two counts twice",
    ),
)  # fmt: skip

PUBLISHED_TO_QUEUES: Final = Family(
    "rabbitmq_queue_messages_published_total",
    COUNTER,
    "Total number of messages published to queues; of the node one that several queues took counts once",
)
DROPPED: Final = Family("penstock_dropped_messages_total", COUNTER, "Messages that overflow policies dropped")
REFUSED: Final = Family("penstock_refused_messages_total", COUNTER, "Messages that overflow policies refused")
EXPIRED: Final = Family("penstock_expired_messages_total", COUNTER, "Messages that expired")
DEAD_LETTERED: Final = Family("penstock_dead_lettered_messages_total", COUNTER, "Messages that became dead letters")
DEAD_LETTERS_LOST: Final = Family("penstock_lost_dead_letters_total", COUNTER, "Dead letters that went nowhere")


def write_messages(out: Exposition, node: Node) -> None:
    """Write the counts of the node since its start."""
    tally = node.stats.node.tally
    for family in (*GLOBAL_COUNTS, *CHANNEL_COUNTS):
        out.single(family, family.value(tally))
    out.single(PUBLISHED_TO_QUEUES, _routed(tally))
    losses = node.broker.losses
    out.single(DROPPED, int(losses.dropped))
    out.single(REFUSED, int(losses.refused))
    out.single(EXPIRED, int(losses.expired))
    out.single(DEAD_LETTERED, int(losses.dead_lettered))
    out.single(DEAD_LETTERS_LOST, int(losses.dead_letters_lost))
