"""The policy `drop-new`: drop the new message."""

from __future__ import annotations

from penstock.core.queue.overflow.policy import OverflowPolicy


class DropNew(OverflowPolicy):
    """Drop the new message. Artemis' DROP, but never confirmed: a publisher with confirms gets a nack.

    A publisher without confirms gets no notice, and no returned mandatory message: the queue is configured to drop.
    """

    name = "drop-new"
