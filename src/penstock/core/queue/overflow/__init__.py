"""Overflow policies: the action of a queue at its capacity, chosen at declaration; stateless, one file each."""

from __future__ import annotations

from typing import Final

from penstock.core.queue.overflow.block import Block
from penstock.core.queue.overflow.drop_head import DropHead
from penstock.core.queue.overflow.drop_new import DropNew
from penstock.core.queue.overflow.page import PagePolicy, ReadBack
from penstock.core.queue.overflow.policy import OverflowPolicy
from penstock.core.queue.overflow.reject import Reject
from penstock.core.queue.overflow.reject_dead_letter import RejectDeadLetter
from penstock.core.queue.overflow.ring_strict import RingStrict
from penstock.core.queue.overflow.self_destruct import SelfDestruct

POLICIES: Final[dict[str, OverflowPolicy]] = {
    policy.name: policy
    for policy in (
        *(Block(), Reject(), RejectDeadLetter(), DropHead(), DropNew(), RingStrict(), SelfDestruct()),
        PagePolicy(Block()),
    )
}
"""The policies by the name in a queue's arguments."""
PAGE: Final[dict[str, OverflowPolicy]] = {
    "block": POLICIES["page"],
    "reject": PagePolicy(Reject()),
    "drop-new": PagePolicy(DropNew()),
}
"""The policies `page` by the policy for messages beyond the page limit."""
READ_BACK: Final[OverflowPolicy] = ReadBack()
