"""Shares: what each shard of a node may take of the machine, divided again whenever a shard comes or goes.

Memory is divided equally: without that, ten shards would promise four machines, because each would take 40 % of one.
A limit in bytes, which a setting gives, is the node's too and divided alike. Descriptors are not divided: the system
limits them for each process. Neither are threads, of which a shard has few (shard_process.py).
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.server.shard import Allowance


def share_of(machine: Allowance, shards: int) -> Allowance:
    """Return the share of one of these shards; a node without shards counts as one."""
    parts = max(1, shards)
    return Allowance(machine.memory_bytes // parts, machine.open_files, parts)


class Shares:
    """Shares of one node, which tells each shard when its share changes."""

    def __init__(self, machine: Allowance, tell: Callable[[str, Allowance], bool]) -> None:
        """`tell` sends a share to a shard, and returns False if that must be tried again later."""
        self._machine = machine
        self._tell = tell
        self._told: dict[str, Allowance | None] = {}
        """Share that each shard has; None for one that is to be told."""

    def share(self) -> Allowance:
        """Return the present share of each shard."""
        return share_of(self._machine, len(self._told))

    def add(self, name: str) -> None:
        """Add a shard. The shares of others shrink; the new one begins with its own."""
        self._told[name] = None
        self._told[name] = self.share()
        self.tell_all()

    def remove(self, name: str) -> None:
        """Remove a shard. The shares of others grow."""
        self._told.pop(name, None)
        self.tell_all()

    def begin(self, name: str) -> None:
        """Record that a process of the shard starts with the present share."""
        self._told[name] = self.share()

    def tell_all(self) -> None:
        """Tell each shard whose share is another one than it has; call this again until all have been told."""
        share = self.share()
        for name, told in self._told.items():
            if told != share and self._tell(name, share):
                self._told[name] = share
