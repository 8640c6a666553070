"""Metrics over HTTP: access, formats, and a scraper that does not read."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import threading

import pytest
from prometheus_client.metrics_core import Metric
from starlette.requests import Request

from penstock.describe.metrics import GROUPS
from penstock.flow.pool import STRANGER, Pools
from penstock.server.http import metrics
from penstock.server.http.metrics import Collector
from penstock.settings.pools import HTTP_SCRAPES
from tests.support.brokers import BrokerProcess, in_process
from tests.support.http_client import Web, disconnected
from tests.support.metrics import families_of, samples_of

OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def test_scraper_chooses_the_format(web: Web) -> None:
    plain = web.fetch("/metrics")
    assert (plain.status, plain.headers["content-type"]) == (200, metrics.PLAIN)
    assert ("rabbitmq_connections",) in samples_of(plain.text)
    other = web.fetch("/metrics", {"Accept": OPENMETRICS})
    assert other.headers["content-type"] == metrics.OPENMETRICS_TYPE
    assert ("rabbitmq_connections",) in samples_of(other.text, True)


def test_metrics_need_a_login_and_the_tag_monitoring(served: BrokerProcess, web: Web) -> None:
    assert web.fetch("/metrics", login=False).status == 401
    for tags, status in (("management", 401), ("monitoring", 200)):
        web.ask("PUT", "/users/scraper", {"password": "secret", "tags": tags})
        for path in metrics.PATHS:
            assert Web(served.http, "scraper", "secret").fetch(path).status == status
    web.do("DELETE", "/users/scraper")


def test_detailed_takes_the_families_of_rabbitmq_and_refuses_unknown_ones(web: Web) -> None:
    web.declare("detailed")
    text = web.fetch("/metrics/detailed?family=queue_coarse_metrics&vhost=/&family=ra_metrics").text
    assert ("rabbitmq_detailed_queue_messages_ready", "queue=detailed", "vhost=/") in samples_of(text)
    assert "penstock_queue" not in text
    unknown = web.fetch("/metrics/detailed?family=nothing")
    assert (unknown.status, "family 'nothing' is unknown; known are" in unknown.reason) == (400, True)
    assert all(name in unknown.reason for name in GROUPS)
    web.do("DELETE", "/queues/%2F/detailed")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool (Debian: prometheus) is not installed")
@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object"])
def test_promtool_finds_nothing_wrong(web: Web, path: str) -> None:
    web.declare("checked")
    text = web.fetch(path).body
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
    assert len(families_of(text.decode())) > 20
    web.do("DELETE", "/queues/%2F/checked")


async def test_open_files_are_counted_beside_the_event_loop() -> None:
    class Noting(Collector):
        def collect(self) -> list[Metric]:
            threads.append(threading.current_thread())
            return []

    async def pause() -> None:
        """Go on at once."""

    threads: list[threading.Thread] = []
    async with in_process() as broker:
        service = metrics.MetricsService(broker.shard.event_loop, 10, Pools())
        service.source._collectors.append(Noting())
        await service.answer(
            Request({"type": "http", "path": "/metrics", "headers": [], "query_string": b""}), pause, STRANGER
        )
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_scraper_that_does_not_read_is_cut_off_and_stops_no_other() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        pool = broker.driver.broker.pools.of(HTTP_SCRAPES)
        pool.set_limit(1)
        vhost = broker.driver.broker.vhosts["/"]
        for number in range(6000):
            vhost.declare_queue(f"q{number}", {}, False, False, None, None)
        with socket.socket() as silent:
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            silent.connect(broker.http_addresses[0])
            silent.sendall(Web(broker.http_url).whole("/metrics/per-object"))
            silent.setblocking(False)
            await asyncio.get_running_loop().sock_recv(silent, 1)
            refused = await asyncio.to_thread(Web(broker.http_url).fetch, "/metrics")
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            pool.set_limit(HTTP_SCRAPES.limit)
            assert (await asyncio.to_thread(Web(broker.http_url).fetch, "/metrics")).status == 200
    # The broker has stopped although the scraper never read.


async def test_answer_not_read_in_time_closes_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SCRAPE_S", 0.2)
    async with in_process(http="127.0.0.1:0") as broker:
        vhost = broker.driver.broker.vhosts["/"]
        for number in range(6000):
            vhost.declare_queue(f"q{number}", {}, False, False, None, None)
        reader, writer = await asyncio.open_connection(*broker.http_addresses[0], limit=1024)
        writer.write(Web(broker.http_url).whole("/metrics/per-object"))
        await disconnected(broker)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await reader.readexactly(100_000_000)
        writer.close()
