"""Health checks over HTTP: 200 for one that is passed, 503 for one that failed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from penstock import Broker
from penstock.settings.config import Settings, load
from tests.support.brokers import BrokerProcess, eventually, in_process, serving, settings_file
from tests.support.certificates import localhost
from tests.support.http_client import Answer, Web


def test_health_is_checked(served: BrokerProcess, web: Web) -> None:
    for check in ("alarms", "local-alarms", "virtual-hosts", "node-is-quorum-critical", "protocol-listener/amqp091",
                  "protocol-listener/amqp", "protocol-listener/http", f"port-listener/{served.port}", "ready",
                  "ready-to-serve-clients", "is-in-service", "below-node-connection-limit",
                  "certificate-expiration/1/years"):  # fmt: skip
        assert web.get(f"/health/checks/{check}")["status"] == "ok"
    assert web.get("/aliveness-test/%2F") == {"status": "ok"}
    assert web.ask("GET", "/aliveness-test/nowhere").status == 404
    missing = web.ask("GET", "/health/checks/port-listener/1")
    assert (missing.status, missing.json["missing"]) == (503, 1)
    assert web.ask("GET", "/health/checks/protocol-listener/mqtt").status == 503
    assert web.ask("GET", "/health/checks/port-listener/x").status == 400


def test_full_memory_is_an_alarm(tmp_path: Path) -> None:
    options = settings_file(tmp_path, '[broker]\nhttp = "127.0.0.1:0"\nmemory-capacity = "64KiB"\n')
    with serving(tmp_path, *options) as broker:
        web = Web(broker.http)
        assert web.get("/health/checks/alarms") == {"status": "ok"}
        for number in range(3):
            web.declare(f"q{number}", hold_deadline=0.2)
            web.publish(f"q{number}", "x" * 18_000)
        alarm = eventually(lambda: (found := web.ask("GET", "/health/checks/alarms")).status == 503 and found, "alarm")
        assert alarm.json["alarms"][0]["resource"] == "memory"
        assert web.get("/nodes")[0]["mem_alarm"] is True


def asked(broker: Broker, path: str) -> Any:
    """Return the awaitable answer to a question, asked in a thread beside the loop of the broker."""
    return asyncio.to_thread(Web(broker.http_url).ask, "GET", f"/health/checks/{path}")


async def test_certificate_that_expires_within_the_time_fails_its_health_check(tmp_path: Path) -> None:
    localhost(tmp_path).issue("server", "localhost", days=20)
    file = tmp_path / "penstock.toml"
    file.write_text(
        '[broker]\nlisten-tls = ["127.0.0.1:0"]\nhttp = "127.0.0.1:0"\n'
        '[tls]\ncertificate = "server.pem"\nkey = "server-key.pem"\n'
    )
    async with Broker(settings=load(file)) as broker:
        for within, status in (("19/days", 200), ("21/days", 503), ("2/weeks", 200), ("1/months", 503)):
            answer: Answer = await asked(broker, f"certificate-expiration/{within}")
            assert answer.status == status, within
        (ending,) = answer.json["expired"]
        assert ending["certfile"].endswith("server.pem")
        for wrong in ("1/seconds", "x/days", "1234567890/days"):
            assert (await asked(broker, f"certificate-expiration/{wrong}")).status == 400


async def test_virtual_host_that_is_being_deleted_is_down() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        vhost = broker.driver.broker.add_vhost("old")
        assert (await asked(broker, "virtual-hosts")).status == 200
        vhost.deleting = True
        answer = await asked(broker, "virtual-hosts")
        assert (answer.status, answer.json["virtual-hosts"]) == (503, ["old"])


async def test_node_at_its_limit_of_connections_says_so() -> None:
    async with Broker(listen="127.0.0.1:0", http="127.0.0.1:0", settings=Settings(connections_max=1)) as broker:
        assert (await asked(broker, "below-node-connection-limit")).json["limit"] == 1
        _, writer = await asyncio.open_connection(*broker.addresses[0])
        while not broker.driver.connections:  # noqa: ASYNC110 - a pass of the loop is what is meant.
            await asyncio.sleep(0)
        assert (await asked(broker, "below-node-connection-limit")).status == 503
        writer.close()


async def test_broker_that_stops_is_not_ready() -> None:
    async with in_process(http="127.0.0.1:0") as broker:
        assert (await asked(broker, "ready")).status == 200
        broker.shard.event_loop.readiness.obstacle = "it is stopping"
        answer = await asked(broker, "ready")
        assert (answer.status, answer.reason) == (503, "it is stopping")
