"""reject-dead-letter: as reject, and the refused message goes to the queue's dead-letter exchange.

RabbitMQ's reject-publish-dlx. Its publisher gets the refusal too.
"""

from __future__ import annotations

from penstock.core.queue.overflow.reject import Reject


class RejectDeadLetter(Reject):
    """Refuse the publish and dead-letter its message."""

    name = "reject-dead-letter"
    returns_refused = False
    dead_letters = True
