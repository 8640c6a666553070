"""The policy `reject`: refuse."""

from __future__ import annotations

from penstock.core.queue.overflow.policy import OverflowPolicy


class Reject(OverflowPolicy):
    """Refuse the publish, and notify its publisher. RabbitMQ's reject-publish, Broker-J's REJECT.

    The notice is a nack in confirm mode; without confirms a mandatory message is returned.
    """

    name = "reject"
    counts_ready = True
    returns_refused = True
