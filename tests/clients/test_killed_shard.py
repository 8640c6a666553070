"""Clients of a shard that is killed with signal 9 under load: they report and come back as at the kill of a broker.

Each test is done with a broker of one process and with a shard of a node. Clients of another shard notice nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pika
import pytest

from tests.clients.drivers.relay import LIBRARIES
from tests.clients.test_celery import called, worker
from tests.support.brokers import PATIENCE, eventually, some_name
from tests.support.client_hold import AMQP10_CLIENTS, CAPACITY, CLIENTS, Driver, driving
from tests.support.struck_broker import BROKER, NEIGHBOUR, SHARD, StruckBroker, struck_broker

pytestmark = [pytest.mark.clients, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = 60
STRUCK_AT = 20
"""Number of the message before which the kill comes."""
KINDS = (BROKER, SHARD)
SQUARES = """
import json
from tests.clients.celery_app import app, square
print(json.dumps({"values": [square.delay(number).get(timeout=300) for number in range(10)]}))
app.close()
"""
RELAYS = tuple(LIBRARIES)
REPORTING = [client for client in (*CLIENTS, *AMQP10_CLIENTS) if client.name in (
    "pika", "aio-pika", "py-amqp", "kombu", "RabbitMQ's Java client", "Qpid Proton",
)]  # fmt: skip
"""Clients whose drivers wait for confirmations, and tell the loss of the connection in the client's own words."""


@pytest.fixture(scope="module", params=KINDS)
def struck(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StruckBroker]:
    """A broker or node of which a part is killed, once for all clients together."""
    with struck_broker(tmp_path_factory.mktemp(request.param), request.param) as found:
        yield found
        assert "Traceback" not in found.process.log()


@contextmanager
def relaying(library: str, url: str, source: str, target: str) -> Iterator[Driver]:
    """Run a client that passes messages on."""
    words = [sys.executable, "-m", "tests.clients.drivers.relay", library, url, source, target]
    process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    driver = Driver(process)
    try:
        yield driver
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        driver.reader.join(PATIENCE)
        process.stdout.close()


def declare(url: str, *names: str, **arguments: int) -> None:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        for name in names:
            connection.channel().queue_declare(name, durable=True, arguments=arguments)


def feed(url: str, names: list[str], first: int, last: int) -> None:
    """Publish numbers to queues, and wait for their confirmations."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(first, last):
            for name in names:
                channel.basic_publish("", name, b"%d" % number, pika.BasicProperties(delivery_mode=2))


def drained(url: str, name: str) -> list[int]:
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel, found = connection.channel(), []
        while (got := channel.basic_get(name, auto_ack=True))[0] is not None:
            found.append(int(got[2]))
        return found


def test_clients_that_come_back_lose_nothing(struck: StruckBroker) -> None:
    queues = {library: (some_name("source"), some_name("target")) for library in RELAYS}
    declare(struck.url, *(name for pair in queues.values() for name in pair))
    sources = [source for source, _ in queues.values()]
    with ExitStack() as stack:
        relays = {
            library: stack.enter_context(relaying(library, struck.url, *pair)) for library, pair in queues.items()
        }
        feed(struck.url, sources, 0, STRUCK_AT)
        for relay in relays.values():
            relay.listen("passed", STRUCK_AT // 2)
        struck.strike()
        feed(struck.url, sources, STRUCK_AT, MESSAGES)
        for library, relay in relays.items():
            wanted = set(range(MESSAGES))
            while not wanted <= set(relay.told.get("passed", ())):
                relay.listen("passed", len(relay.told.get("passed", ())) + 1)
            relay.leave()
            _, target = queues[library]
            assert set(drained(struck.url, target)) == wanted, library


def outcome(driver: Driver, received: int) -> str:
    """Return whether a client goes on receiving after a kill, or reports the loss of its connection."""
    while driver.hear():
        if len(driver.told["received"]) > received:
            return "comes back"
        if "failed" in driver.told:
            return "reports"
    return "reports" if driver.process.wait(PATIENCE) else "ends"


def test_clients_report_the_loss_of_their_connection(struck: StruckBroker) -> None:
    clients = [client for client in REPORTING if not client.missing()]
    queues = {client.name: (some_name("held"), some_name("beside")) for client in clients}
    declare(struck.url, *(beside for _, beside in queues.values()))
    declare(struck.url, *(held for held, _ in queues.values()), **{"capacity-messages": CAPACITY})
    with ExitStack() as stack:
        drivers = {
            client.name: stack.enter_context(
                driving(client, client.ways[0], struck.url, *queues[client.name], count=MESSAGES, size=100)
            )
            for client in clients
        }
        besides = [beside for _, beside in queues.values()]
        feed(struck.url, besides, 0, 1)
        for driver in drivers.values():
            driver.listen("received")
        for held, _ in queues.values():
            eventually(lambda held=held: struck.process.queue(held)["blocked"], f"the publisher to {held} waits")
        struck.strike()
        feed(struck.url, besides, 1, 2)
        found = {name: outcome(driver, 1) for name, driver in drivers.items()}
    assert set(found.values()) == {"reports"}, found


def test_clients_of_another_shard_notice_nothing(tmp_path: Path) -> None:
    name = some_name("q")
    with struck_broker(tmp_path, SHARD) as struck:
        url = struck.url + NEIGHBOUR
        with pika.BlockingConnection(pika.URLParameters(url)) as connection:
            channel = connection.channel()
            channel.queue_declare(name, durable=True)
            channel.confirm_delivery()
            struck.strike()
            for _ in range(STRUCK_AT):
                channel.basic_publish("", name, b"x", pika.BasicProperties(delivery_mode=2))
            assert channel.queue_declare(name, passive=True).method.message_count == STRUCK_AT


def test_celery_worker_goes_on_after_its_shard_was_killed(struck: StruckBroker, tmp_path: Path) -> None:
    pytest.importorskip("celery")
    runs = tmp_path / "runs"
    environment = {**os.environ, "BROKER_URL": struck.url, "RUNS": str(runs)}
    with worker("one", tmp_path, environment):
        assert called(SQUARES, environment)["values"] == [n * n for n in range(10)]
        struck.strike()
        assert called(SQUARES, environment)["values"] == [n * n for n in range(10)]
