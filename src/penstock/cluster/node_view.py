"""View of the shards of a node for its operations: their states, and the restart of one."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping
from typing import Final

from typing_extensions import override

from penstock.cluster.shard_watch import AWAY, SERVING, STOPPED, ShardWatch
from penstock.cluster.supervision import Supervision
from penstock.describe.table import Row
from penstock.errors import PreconditionFailed
from penstock.management.cluster import ClusterView
from penstock.server.shard import Shard

FAREWELL: Final = "shard '{}' is restarted: connect again"
"""Sentence for the clients of a shard that is restarted. Their next login waits for the next process."""
NODE_STOPS: Final = "the node stops"


class NodeView(ClusterView):
    """Shards of the node in whose process it is."""

    def __init__(self, supervision: Supervision, vhosts: Mapping[str, str], office: Shard) -> None:
        """Be the view of the office, the broker that asks. `vhosts` has the shard of each virtual host."""
        super().__init__()
        self._supervision = supervision
        self._vhosts = vhosts
        self._office = office
        office.driver.cluster = self
        self._loop = asyncio.get_running_loop()
        self._starts: dict[str, int] = {}
        """Number of processes that each restarted shard had before its restart."""
        self._software = _installed()

    @override
    def names(self) -> list[str]:
        return [watch.name for watch in self._supervision.watches()]

    @override
    def rows(self) -> list[Row]:
        now = self._loop.time()
        of_shards: dict[str, list[str]] = {}
        for vhost, shard in self._vhosts.items():
            of_shards.setdefault(shard, []).append(vhost)
        return [_row(watch, sorted(of_shards.get(watch.name, [])), now) for watch in self._supervision.watches()]

    @override
    def begin_restart(self, name: str) -> None:
        if self._supervision.stops:
            raise PreconditionFailed(NODE_STOPS)
        watch = self._supervision.watch(name)
        self._starts[name] = watch.starts - (1 if watch.is_starting else 0)
        self._supervision.restart(name, FAREWELL.format(name))

    @override
    def obstacle(self, name: str) -> str:
        if self._supervision.stops:
            raise PreconditionFailed(NODE_STOPS)
        watch = self._supervision.watch(name)
        sentence = watch.sentence(self._loop.time())
        if watch.starts > self._starts[name]:
            if watch.state == SERVING:
                return ""
            if watch.state in (AWAY, STOPPED):
                raise PreconditionFailed(f"shard '{name}' has not come back: {sentence}")
        return f"shard '{name}' is {watch.state}"

    @override
    def newer_software(self) -> str:
        return newer_software(self._software, _installed())

    def changed(self) -> None:
        """Wake the job that waits for a shard."""
        if self.wake is not None:
            self.wake()
            self._office.event_loop.schedule()


def newer_software(running: str, installed: str) -> str:
    """Return a sentence if the build on the disk is not the running one; empty if both are the same."""
    if installed == running:
        return ""
    return (
        f"shards run the software with which the node was started ({running}), and {installed} is installed: restart "
        "the node to run it"
    )


def _row(watch: ShardWatch, vhosts: list[str], now: float) -> Row:
    return {
        "shard": watch.name,
        "state": watch.state,
        "for_s": round(max(now - watch.since, 0.0), 1),
        "pid": watch.pid or None,
        "vhosts": vhosts,
        "starts": watch.starts,
        "restarts": watch.restarts,
        "cause": watch.cause or None,
        "sentence": watch.sentence(now),
    }


def _installed() -> str:
    """Return form and last change of the build on the disk."""
    build: Callable[[], str] = importlib.import_module("penstock").build.__wrapped__
    return build()
