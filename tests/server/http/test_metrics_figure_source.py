"""Figures of the process and of the store, as the metrics show them."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock import Broker
from penstock.server.http.metrics import FigureSource
from tests.support.brokers import in_process


async def test_figures_of_a_broker_with_a_store(tmp_path: Path) -> None:
    async with Broker(listen="127.0.0.1:0", data=tmp_path) as broker:
        event_loop = broker.shard.event_loop
        await event_loop.on_disk(-1)
        broker.driver.broker.vhosts["/"].declare_queue("q", {}, True, False, None, None)
        await event_loop.on_disk(0)
        source = FigureSource(event_loop)
        found = source.figures(source.process())
        assert (found.ready, found.store) == (True, "sqlite")
        assert found.transactions.cumulative()[-1] >= 1
        assert found.transaction_bytes > 0
        assert found.turns.cumulative()[-1] >= 1
        event_loop.readiness.obstacle = "it stops"
        assert not source.figures([]).ready
        event_loop.readiness.obstacle = ""


async def test_figures_of_the_process_are_those_of_the_library() -> None:
    async with in_process() as broker:
        source = FigureSource(broker.shard.event_loop)
        found = source.figures(source.process())
        assert (found.store, found.transactions) == ("", None)
        names = {family.name for family, _ in found.process}
        assert "python_gc_collections_total" in names
        if sys.platform == "linux":
            assert {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"} <= names
            assert found.open_files
            assert found.resident_bytes
