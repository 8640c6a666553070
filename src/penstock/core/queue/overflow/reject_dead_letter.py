"""The policy `reject-dead-letter`: refuse, and dead-letter."""

from __future__ import annotations

from penstock.core.queue.overflow.reject import Reject


class RejectDeadLetter(Reject):
    """Refuse the publish and dead-letter its message. RabbitMQ's reject-publish-dlx; its publisher is notified too."""

    name = "reject-dead-letter"
    returns_refused = False
    dead_letters = True
