"""Where a publish goes: an exchange and routing key, resolved once and kept for as long as the topology stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.message import Address

if TYPE_CHECKING:
    from penstock.core.exchange import Exchange
    from penstock.core.queue import Queue
    from penstock.flow.gate import Gate


class Route:
    """The queues that a publish reaches, and the topology epoch in which that was found out."""

    __slots__ = (
        "address",
        "mandatory",
        "copies",
        "queues",
        "only",
        "epoch",
        "by_headers",
        "control",
        "gates",
        "_through",
        "_versions",
        "_era",
    )

    def __init__(self, address: Address, mandatory: bool, copies: list[str] | None = None) -> None:
        self.address = address
        self.mandatory = mandatory
        """Whether a message that reaches no queue goes back to its publisher (basic.return)."""
        self.copies = copies
        """Routing keys besides that of the address (CC and BCC), of one message only; None for nearly all."""
        self.queues: list[Queue] = []
        self.only: Queue | None = None
        """The queue, where there is just one whatever the headers and the address has no gates: the hot path."""
        self.epoch: i64 = -1
        """In which change of the topology it was looked at last."""
        self.by_headers: bool = False
        """Whether the queues depend on each message's headers, so that nothing may be kept."""
        self.control: bool = False
        """Whether it leads to the broker itself (control operations)."""
        self.gates: list[Gate] = []
        """The gates of its address; empty for most."""
        self._through: list[Exchange] = []
        """The exchanges that had a part in it."""
        self._versions: i64 = 0
        """Sum of their versions: each only grows, so the sum is the same while none has changed."""
        self._era: i64 = -1

    def lead_to(self, queues: list[Queue], through: list[Exchange], epoch: i64, era: i64) -> None:
        """Set the queues found through these exchanges; `era` counts the comings and goings of exchanges."""
        self.queues = queues
        self.only = queues[0] if len(queues) == 1 and not self.by_headers and not self.gates else None
        self.epoch = epoch
        self._through = through
        self._versions = _versions(through)
        self._era = era

    def stands(self, epoch: i64, era: i64) -> bool:
        """Tell whether it was found already and still is right: what changed since did not concern it."""
        if self._era != era or not self._through or _versions(self._through) != self._versions:
            return False
        self.epoch = epoch
        return True


def _versions(exchanges: list[Exchange]) -> i64:
    total: i64 = 0
    for exchange in exchanges:
        total += exchange.version
    return total
