"""Two brokers on one PostgreSQL store: the standby takes over with all confirmed messages."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.support.brokers import GRACE, BrokerProcess, eventually, penstock_command, started
from tests.support.disk_brokers import take
from tests.support.http_client import Web
from tests.support.pika_helpers import Client, client_of
from tests.support.postgres import Cluster, needs_postgres

ROUNDS = int(os.environ.get("PENSTOCK_FAILOVERS", "3"))
"""Deaths of the active broker in a row; 50 were run."""
TAKE_OVER_S = 20.0
"""It takes a second or two; a machine may be slow, but not for all of the rounds."""

pytestmark = [needs_postgres, pytest.mark.slow, pytest.mark.timeout(400 + 10 * ROUNDS)]


class Standby:
    """A broker that waits for the store."""

    def __init__(self, folder: Path, url: str, name: str, *options: str) -> None:
        self.log = folder / f"{name}.log"
        words = ["serve", "--listen", "127.0.0.1:0", "--store", url, "--standby", *options]
        with self.log.open("w") as errors:
            self.process = started(words, errors)

    def stands_by(self) -> bool:
        return "standing by: the store is held by process" in self.log.read_text()

    def ready(self) -> BrokerProcess:
        """Wait until it has taken over."""
        line = self.process.stdout.readline().strip()
        assert line.startswith("ready "), self.log.read_text()
        return BrokerProcess(self.process, line, self.log)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Brokers:
    """Those of one test, on a database of their own."""

    def __init__(self, server: Cluster, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.started: list[Standby] = []
        self.database = f"store_{os.urandom(6).hex()}"
        server.ask(f"CREATE DATABASE {self.database}")
        self.url = server.url(self.database)

    def start(self, *options: str) -> Standby:
        self.started.append(Standby(self.folder, self.url, f"broker-{len(self.started)}", *options))
        return self.started[-1]

    def stand_by(self, *options: str) -> Standby:
        """Start another one, and wait until it waits for the store."""
        standby = self.start(*options)
        eventually(standby.stands_by, "it stands by")
        return standby

    def end_sessions_of(self, broker: Standby) -> None:
        """As the server does with sessions of a host that does not answer any more."""
        asked = "SELECT pg_terminate_backend(backend::int) FROM penstock.lease WHERE process = %s"
        assert self.server.ask(asked, broker.process.pid, database=self.database)


def publish_until_it_dies(client: Client, queue: str, first: int, least: int, broker: BrokerProcess) -> int:
    """Publish numbers, have the broker killed after so many confirmations; return the number that follows the last."""
    number = first
    try:
        while True:
            client.publish(queue, str(number))
            number += 1
            if number - first == least:
                broker.process.kill()
    except pika.exceptions.AMQPError:
        return number


@pytest.fixture
def brokers(server: Cluster, tmp_path: Path) -> Iterator[Brokers]:
    brokers = Brokers(server, tmp_path)
    yield brokers
    for each in brokers.started:
        each.end()


def test_standby_takes_over_within_seconds_and_nothing_confirmed_is_lost(brokers: Brokers) -> None:
    active = brokers.start().ready()
    number, took = 0, []
    for _ in range(ROUNDS):
        successor = brokers.stand_by()
        with client_of(active) as client:
            client.channel.queue_declare("q", durable=True)
            end = publish_until_it_dies(client, "q", number, 40, active)
        died = time.monotonic()
        active = successor.ready()
        with client_of(active) as client:
            took.append(time.monotonic() - died)
            found = [body for body, _ in client.drain("q")]
        confirmed = [str(each) for each in range(number, end)]
        assert found[: len(confirmed)] == confirmed
        assert found[len(confirmed) :] in ([], [str(end)])  # What was under way may be there.
        number = end + 1
    assert min(took) < TAKE_OVER_S


def test_broker_that_slept_through_a_takeover_writes_nothing_and_stops(brokers: Brokers) -> None:
    old = brokers.start()
    active = old.ready()
    successor = brokers.stand_by()
    with client_of(active) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "before")
        old.process.send_signal(signal.SIGSTOP)
        brokers.end_sessions_of(old)
        new = successor.ready()
        with client_of(new) as other:
            other.publish("q", "after")
            old.process.send_signal(signal.SIGCONT)
            with pytest.raises(pika.exceptions.AMQPError):
                client.publish("q", "asleep")
            assert old.process.wait(GRACE) == 1
            assert "another broker has taken" in old.log.read_text()
            assert [body for body, _ in other.drain("q")] == ["before", "after"]


def test_second_broker_that_is_no_standby_is_refused_with_the_owner_of_the_store(brokers: Brokers) -> None:
    active = brokers.start().ready()
    done = penstock_command("serve", "--listen", "127.0.0.1:0", "--store", brokers.url)
    assert done.returncode == 1
    assert f"process {active.pid} on host" in done.stderr


def test_standby_is_alive_but_not_ready_until_it_takes_over(brokers: Brokers) -> None:
    active = brokers.start()
    active.ready()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    standby = brokers.stand_by("--metrics-listen", f"127.0.0.1:{port}")
    web = Web(f"http://127.0.0.1:{port}")
    assert web.fetch("/live", login=False).status == 200
    waiting = eventually(
        lambda: "standing by" in (found := web.fetch("/ready", login=False)).reason and found, "it stands by"
    )
    assert (waiting.status, "the store is held by process" in waiting.reason) == (503, True)
    assert "penstock_ready 0" in web.fetch("/metrics", login=False).text
    active.end()
    standby.ready()
    assert eventually(lambda: web.fetch("/ready", login=False).status == 200, "it is ready")
    assert "penstock_ready 1" in web.fetch("/metrics", login=False).text


def test_standby_stops_on_request(brokers: Brokers) -> None:
    brokers.start().ready()
    standby = brokers.stand_by()
    standby.process.terminate()
    assert standby.process.wait(GRACE) == 0


def test_standby_outlives_a_restart_of_its_server(server: Cluster, brokers: Brokers) -> None:
    active = brokers.start().ready()
    standby = brokers.stand_by()
    with client_of(active) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "a")
        server.stop("immediate")
        active.process.kill()
    eventually(
        lambda: "is the server running there?; it is tried again every second" in standby.log.read_text(), "away"
    )
    server.start()
    with client_of(standby.ready()) as client:
        assert client.drain("q") == [("a", True)]


def test_standby_stops_on_request_when_its_server_does_not_answer(server: Cluster, brokers: Brokers) -> None:
    brokers.start().ready()
    standby = brokers.stand_by()
    server.pause()
    try:
        standby.process.terminate()
        assert standby.process.wait(GRACE) == 0
    finally:
        server.resume()


def test_orderly_stop_hands_over_at_once(brokers: Brokers) -> None:
    active = brokers.start().ready()
    standby = brokers.stand_by()
    with client_of(active) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "a")
    assert active.stop() == 0
    with client_of(standby.ready()) as client:
        assert client.drain("q") == [("a", False)]


@pytest.mark.parametrize(
    "arguments",
    [{}, {"x-max-priority": 5}, {"overflow": "page", "capacity-messages": 5}],
    ids=["plain", "priority", "paging"],
)
def test_messages_delivered_during_a_cut_off_come_back_as_redelivered(
    server: Cluster, brokers: Brokers, arguments: dict[str, object]
) -> None:
    active = brokers.start().ready()
    standby = brokers.stand_by()
    with client_of(active) as client:
        client.channel.queue_declare("q", durable=True, arguments=arguments)
        client.publish("q", *map(str, range(20)))
        server.stop("immediate")
        had = take(client, "q", 3)
        active.process.kill()
    server.start()
    new = standby.ready()
    with client_of(new) as client:
        back = dict(client.drain("q"))
    assert [body for body in had if not back[body]] == []
    assert len(back) == 20


def test_messages_published_to_the_new_broker_are_not_redelivered(brokers: Brokers) -> None:
    active = brokers.start().ready()
    standby = brokers.stand_by()
    with client_of(active) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "before")
        active.process.kill()
    new = standby.ready()
    third = brokers.stand_by()
    with client_of(new) as client:
        client.publish("q", "after")
    assert new.stop() == 0
    with client_of(third.ready()) as client:
        assert client.drain("q") == [("before", True), ("after", False)]
