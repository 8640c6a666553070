"""Metrics and probes at a separate address, without a login, before and while the broker serves clients."""

from __future__ import annotations

import asyncio
import http.client
import json
from pathlib import Path

import pytest

from penstock import Broker
from penstock.errors import StartError
from penstock.settings.config import Settings
from tests.server.http.test_metrics import OPENMETRICS
from tests.support.http_client import Answer, Web
from tests.support.metrics import samples_of

PROBED = Settings(metrics_listen="127.0.0.1:0")


async def fetched(broker: Broker, path: str, **headers: str) -> Answer:
    """Return the answer at the address of metrics to somebody who does not log in."""
    web = Web("http://{}:{}".format(*broker.metrics_addresses[0]))
    return await asyncio.to_thread(web.fetch, path, headers, False)


async def test_metrics_at_their_own_address_need_no_login() -> None:
    async with Broker(listen="127.0.0.1:0", settings=PROBED) as broker:
        for path in ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_coarse_metrics"):
            answer = await fetched(broker, path, Accept=OPENMETRICS)
            assert answer.status == 200
            assert samples_of(answer.text, True)[("penstock_ready",)] == 1
        bad = await fetched(broker, "/metrics/detailed?family=nothing")
        assert bad.status == 400
        for path, status in (("/live", 200), ("/ready", 200), ("/api/overview", 404), ("/", 404)):
            assert (await fetched(broker, path)).status == status
        rebound = await fetched(broker, "/metrics", Host="attacker.example")
        assert rebound.status == 421
        assert ("http/prometheus", *broker.metrics_addresses[0]) in broker.node.listeners


async def test_probes_are_answered_from_the_start_to_the_stop(tmp_path: Path) -> None:
    broker = Broker(listen="127.0.0.1:0", data=tmp_path, settings=PROBED)
    starting = asyncio.ensure_future(broker.start())
    while not broker.metrics_addresses:  # noqa: ASYNC110 - a pass of the loop is what is meant.
        await asyncio.sleep(0)
    found = [await fetched(broker, path) for path in ("/live", "/ready")]
    await starting
    assert found[0].status == 200
    assert found[1].status in (200, 503)  # The store may be open already.
    assert (await fetched(broker, "/ready")).status == 200
    connection = http.client.HTTPConnection(*broker.metrics_addresses[0])
    connection.connect()
    await broker.stop()
    assert broker.shard.event_loop.readiness.obstacle == "it is stopping"
    with pytest.raises(OSError):
        await fetched(broker, "/ready")
    connection.close()


async def test_address_in_use_is_an_error_of_the_start() -> None:
    async with Broker(listen="127.0.0.1:0", settings=PROBED) as broker:
        taken = "{}:{}".format(*broker.metrics_addresses[0])
        with pytest.raises(StartError, match=taken.split(":")[1]):
            await Broker(listen="127.0.0.1:0", settings=Settings(metrics_listen=taken)).start()


async def test_reason_for_not_being_ready_is_reported() -> None:
    async with Broker(listen="127.0.0.1:0", settings=PROBED) as broker:
        broker.shard.event_loop.readiness.obstacle = "standing by: the store is held by process 1 on host a"
        answer = await fetched(broker, "/ready")
        assert (answer.status, json.loads(answer.body)["reason"]) == (503, broker.shard.event_loop.readiness.obstacle)
        text = (await fetched(broker, "/metrics")).text
        assert samples_of(text)[("penstock_ready",)] == 0
