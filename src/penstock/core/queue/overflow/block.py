"""The policy `block`: hold."""

from __future__ import annotations

from penstock.core.queue.overflow.policy import HOLD, OverflowPolicy


class Block(OverflowPolicy):
    """Hold the publish until there is room. Penstock's default; Broker-J calls it PRODUCER_FLOW_CONTROL."""

    name = "block"
    has_thresholds = True
    reserves = True
    at_capacity = HOLD
