"""reject-dead-letter: as reject, and the refused message goes to the queue's dead-letter exchange.

RabbitMQ's reject-publish-dlx. Its publisher is told that it was refused all the same.
"""

from __future__ import annotations

from penstock.core.queue.overflow.reject import Reject


class RejectDeadLetter(Reject):
    """Refuse it, and bury it."""

    name = "reject-dead-letter"
    returns_refused = False
    dead_letters = True
