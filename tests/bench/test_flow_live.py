"""The scorecard over AMQP 1.0 with consumers: what counts as met, and that links publish, stop and go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import penstock
from bench import brokers, loadgen
from bench.flow import stops
from bench.flow.experiments import Stage
from bench.flow.live import BOTH, LINKS, Live, is_fair_to_both
from bench.flow.parties import Target, publishers

CELL = stops.Stops("compiled", "1 x 50, 720 places", 1000, 0, 97.0, 100.0, 0)
FORM = brokers.COMPILED if penstock.compiled() else brokers.INTERPRETED


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[brokers.Broker]:
    found = brokers.start_penstock(FORM, Path(tmp_path_factory.mktemp("broker")))
    yield found
    found.stop()


def test_stops_meet_the_goal_without_hangs_and_at_nearly_the_unlimited_rate() -> None:
    assert CELL.met()
    assert not replace(CELL, hangs=1).met()
    assert not replace(CELL, failed=1).met()
    assert not replace(CELL, rate=96.0).met()
    assert "(96%)   <- misses the goal" in replace(CELL, rate=96.0).words()


def test_links_and_channels_may_differ_by_a_tenth() -> None:
    found = {"unfairness": 1.1, "longest_block_cycles": 1.0}
    assert is_fair_to_both(found)
    assert not is_fair_to_both(found | {"unfairness": 1.11})
    assert "8 equal producers, 64 KiB: 1.100" in Live("compiled", "equal", "64 KiB", found, True).words()


def test_links_that_stop_again_and_again_all_go_on(broker: brokers.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        loadgen.build(loadgen.AMQP1)
    except loadgen.LoadError as reason:
        pytest.skip(str(reason))
    monkeypatch.setattr(stops, "RUNS_MAX", 2)
    found = stops.stops(broker, FORM, 4, 10_000, ("--argument", "capacity-messages=120"), "120 places", 0.2)
    assert (found.hangs, found.failed) == (0, 0)
    assert found.stops > 0


@pytest.mark.parametrize("protocols", [LINKS, BOTH], ids=["links", "links and channels"])
def test_parties_of_either_protocol_publish_and_consume(broker: brokers.Broker, protocols: tuple[type, ...]) -> None:
    async def play() -> tuple[list[int], int, int]:
        target = Target(f"amqp://guest:guest@127.0.0.1:{broker.port}/", True, protocols)
        stage = await Stage.set(target, target.bounded(64 * 1024))
        parties = await publishers(target, stage.queue, [20] * 4)
        for party in parties:
            party.start()
        consumer = await stage.consumer(1e6, 10)
        for _ in range(400):
            consumer.ack(await consumer.take())
        acked = sum(party.channel.acked for party in parties)
        await stage.strike(parties, consumer.channel.link)
        return consumer.order, consumer.out_of_order, acked

    order, out_of_order, acked = asyncio.run(play())
    assert (len(order), set(order), out_of_order) == (400, {0, 1, 2, 3}, 0)
    assert acked > 0
