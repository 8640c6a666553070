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
    """Shares of one node, which sends each shard its share when that changes."""

    def __init__(self, machine: Allowance, send: Callable[[str, Allowance], bool]) -> None:
        """`send` sends a share to a shard, and returns False if that must be tried again later."""
        self._machine = machine
        self._send = send
        self._present: dict[str, Allowance | None] = {}
        """Share that each shard has; None for a new one."""

    def share(self) -> Allowance:
        """Return the present share of each shard."""
        return share_of(self._machine, len(self._present))

    def add(self, name: str) -> None:
        """Add a shard. The shares of others shrink; the new one begins with its own."""
        self._present[name] = None
        self._present[name] = self.share()
        self.send_all()

    def remove(self, name: str) -> None:
        """Remove a shard. The shares of others grow."""
        self._present.pop(name, None)
        self.send_all()

    def begin(self, name: str) -> None:
        """Record that a process of the shard starts with the present share."""
        self._present[name] = self.share()

    def send_all(self) -> None:
        """Send each shard its share if it has another; call this again until all have been sent."""
        share = self.share()
        for name, has in self._present.items():
            if has != share and self._send(name, share):
                self._present[name] = share
