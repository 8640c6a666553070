"""Where a publish goes: an exchange and routing key, resolved once and kept for as long as the topology stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.message import Address

if TYPE_CHECKING:
    from penstock.core.queue import Queue
    from penstock.flow.gate import Gate


class Route:
    """The queues that a publish reaches, and the topology epoch in which that was found out."""

    __slots__ = ("address", "mandatory", "queues", "only", "epoch", "by_headers", "control", "gates")

    def __init__(self, address: Address, mandatory: bool) -> None:
        self.address = address
        self.mandatory = mandatory
        """Whether a message that reaches no queue goes back to its publisher (basic.return)."""
        self.queues: list[Queue] = []
        self.only: Queue | None = None
        """The queue, where there is just one whatever the headers and the address has no gates: the hot path."""
        self.epoch: i64 = -1
        self.by_headers: bool = False
        """Whether the queues depend on each message's headers, so that nothing may be kept."""
        self.control: bool = False
        """Whether it leads to the broker itself (control operations)."""
        self.gates: list[Gate] = []
        """The gates of its address; empty for most."""

    def lead_to(self, queues: list[Queue], epoch: i64) -> None:
        """Set the queues found in a topology epoch."""
        self.queues = queues
        self.only = queues[0] if len(queues) == 1 and not self.by_headers and not self.gates else None
        self.epoch = epoch
