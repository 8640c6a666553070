"""Bridges of a shard: their worker begins with the first bridge that is to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.server.shard import Shard

if TYPE_CHECKING:
    from penstock.server.bridge_worker import BridgeWorker


class ShardBridges:
    """Bridges of one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self.worker: BridgeWorker | None = None
        """Worker of bridges; None before the first bridge."""

    def serve(self) -> None:
        """Look once a second whether a bridge is to run, and let the worker run it."""
        self._shard.event_loop.on_tick = self._look

    async def stop(self) -> None:
        """End the bridges."""
        if self.worker is not None:
            await self.worker.stop()

    def _look(self) -> None:
        if self.worker is None:
            if not self._shard.driver.bridges.wanted():
                return
            from penstock.server.bridge_worker import BridgeWorker

            self.worker = BridgeWorker(self._shard)
        self.worker.tick()
