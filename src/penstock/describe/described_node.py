"""Described node: what lists, metrics and maps read of the running broker. The driver provides it."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from penstock.core.broker import Broker
from penstock.describe.stats_sampler import StatsSampler
from penstock.protocols.common.audit_trail import AuditTrail
from penstock.protocols.common.connection import Connection


@mypyc_attr(allow_interpreted_subclasses=True)
class DescribedNode:
    """One node with its broker and its connections."""

    name: str
    """Name of the node: penstock@HOST."""
    broker: Broker
    connections: dict[int, Connection]
    """Connections by number."""
    audit: AuditTrail
    stats: StatsSampler

    @property
    def version(self) -> str:
        """Version of Penstock."""
        raise NotImplementedError

    def memory_alarm(self) -> bool:
        """Tell whether the gate of the node's memory is closed."""
        memory = self.broker.gates.memory
        return memory is not None and not memory.gate.open

    def disk_alarm(self) -> bool:
        """Tell whether a closed disk gate stops every producer of persistent messages."""
        disk = self.broker.gates.disk
        if disk.is_failing():
            return True
        quota, room = disk.quota, disk.room
        return (quota is not None and not quota.gate.open) or (room is not None and not room.gate.open)
