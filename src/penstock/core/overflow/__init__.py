"""What a queue does at its capacity: one policy a file, chosen at declaration."""

from __future__ import annotations

from typing import Final

from penstock.core.overflow.block import Block
from penstock.core.overflow.drop_head import DropHead
from penstock.core.overflow.policy import ACCEPT, HOLD, REFUSE, OverflowPolicy
from penstock.core.overflow.reject import Reject

POLICIES: Final[dict[str, OverflowPolicy]] = {"block": Block(), "reject": Reject(), "drop-head": DropHead()}
"""The policies by the name in a queue's arguments; they hold no state of their own."""

__all__ = ["ACCEPT", "HOLD", "POLICIES", "REFUSE", "OverflowPolicy"]
