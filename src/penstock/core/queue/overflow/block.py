"""block: the publish is held until there is room. Penstock's default; Broker-J calls it PRODUCER_FLOW_CONTROL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.queue.overflow.policy import HOLD, OverflowPolicy

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue


class Block(OverflowPolicy):
    """Hold the publish."""

    name = "block"
    has_thresholds = True
    reserves = True

    @override
    def verdict(self, queue: Queue, charge: i64) -> int:
        return HOLD
