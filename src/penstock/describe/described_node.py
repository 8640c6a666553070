"""Described node: the interface by which lists, metrics and maps read the running broker and its cursors.

The driver implements it.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from penstock.core.broker import Broker
from penstock.core.queue.cursor_state import CursorState
from penstock.describe.stats_sampler import StatsSampler
from penstock.protocols.common.audit_trail import AuditTrail
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.log_line import LogLine


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
    has_users_elsewhere: bool
    """True if tokens or an HTTP back end may know users that the broker does not."""

    @property
    def version(self) -> str:
        """Version of Penstock."""
        raise NotImplementedError

    def log(self, line: LogLine) -> None:
        """Write a log line; its field `id` is one of log_ids.py."""
        raise NotImplementedError

    def record_query(self, query: str, cursor: CursorState, fields: dict[str, object]) -> None:
        """Record the progress of a query at one cursor; the last of a second counts."""
        raise NotImplementedError

    def check_user(self, name: str) -> None:
        """Check that there is a user: in the table, connected, or perhaps known to a token or a back end.

        Raises NotFound (404).
        """
        if not self.has_users_elsewhere and all(each.user != name for each in self.connections.values()):
            self.broker.access.user(name)

    def memory_alarm(self) -> bool:
        """Return whether the gate of the node's memory is closed."""
        memory = self.broker.gates.memory
        return memory is not None and not memory.gate.open

    def disk_alarm(self) -> bool:
        """Return whether a closed disk gate stops every producer of persistent messages."""
        disk = self.broker.gates.disk
        if disk.is_failing():
            return True
        quota, room = disk.quota, disk.room
        return (quota is not None and not quota.gate.open) or (room is not None and not room.gate.open)
