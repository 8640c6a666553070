"""Failing and slow disks, and wrong clocks, under a whole broker: publishers block, and nothing is lost.

Real clients, real files, and calls of the operating system that fail (tests/support/faults.py).
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import re
import threading
from pathlib import Path
from typing import Any

import pika
import pytest
from pamqp import commands, frame

from penstock.sync import connect
from tests.support.brokers import (
    PATIENCE,
    BrokerProcess,
    eventually,
    in_background,
    penstock_command,
    serving,
    some_name,
)
from tests.support.disk_brokers import closed, crossings, kept, set_broker, take
from tests.support.faults import Disk
from tests.support.http_client import Answer, Web
from tests.support.pika_helpers import LOST, Client, client_of
from tests.support.raw_client import HEARTBEAT, open_peer, raw_frame
from tests.support.stalls import undisturbed

TRIPS = 10
"""Round trips while a slow disk takes its two seconds for one call; see failing_disk.c. Each is four questions."""


def await_answer_that_waits(broker: BrokerProcess) -> None:
    """Wait until `why` tells of an answer that waits for the disk; asked in milliseconds, for it waits for seconds."""
    with connect(broker.url, protocol="amqp091") as control:
        eventually(lambda: "1 answer waits for the disk" in str(control.why(user="guest").raw["sentences"]), "why")


# A disk that fails


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("full", "there is no room left for it on its disk"),
        ("log write", "the disk fails (SQLITE_IOERR_WRITE)"),
        ("log sync", "the disk fails (SQLITE_IOERR_FSYNC)"),
        ("only-read", "the disk fails (SQLITE_IOERR_WRITE)"),
    ],
)
def test_persistent_messages_alone_wait_while_the_disk_fails(tmp_path: Path, disk: Disk, words: str, why: str) -> None:
    """What was confirmed is there after a kill, and what was not published is not."""
    with kept(tmp_path, disk) as broker, client_of(broker) as client, client_of(broker) as reader:
        client.channel.queue_declare("q", durable=True)
        client.channel.queue_declare("passing")
        client.publish("q", *[str(number) for number in range(20)])
        disk.fail(words)
        with in_background(lambda: client.publish("q", "in flight", "held")):
            eventually(lambda: closed(broker) == ["store"], "the gate before the store closes")
            assert take(reader, "q", 5) == ["0", "1", "2", "3", "4"]
            reader.publish("passing", "to a queue that is not kept")
            reader.publish("q", "transient", properties=LOST)
            assert reader.drain("passing") == [("to a queue that is not kept", False)]
            shown = penstock_command("status", "--url", broker.url).stdout
            [gate] = [line for line in shown.splitlines() if line.startswith("gate store ")]
            assert gate.split(maxsplit=3)[2:] == [
                "closed",
                f"cannot write the store '{tmp_path}/data/messages.sqlite': {why}",
            ]
            said = broker.why("q")
            assert "is blocked" in said
            assert f"by the disk (store): cannot write the store '{tmp_path}/data/messages.sqlite': {why}" in said
            assert "the store is tried again every second; consumers go on meanwhile" in said
            disk.work()
        eventually(lambda: closed(broker) == [], "the gate opens by itself")
        eventually(lambda: len(crossings(broker)) == 2, "both lines of the log, which a thread writes")
        assert crossings(broker) == [
            "PST-1012 : Store cannot be written, flow control will be enforced : "
            f"cannot write the store '{tmp_path}/data/messages.sqlite': {why}",
            "PST-1013 : Store can be written again",
        ]
        broker.kill()
    with kept(tmp_path) as broker, client_of(broker) as client:
        found = [body for body, _ in client.drain("q")]
        assert found == [*[str(number) for number in range(5, 20)], "in flight", "held"]


def test_client_is_blocked_while_the_disk_fails_and_refused_at_the_deadline(tmp_path: Path, disk: Disk) -> None:
    heard: list[str] = []
    with kept(tmp_path, disk, "--http", "127.0.0.1:0") as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True, arguments={"hold-deadline": 1})
        client.connection.add_on_connection_blocked_callback(lambda _, method: heard.append(method.method.reason))
        client.connection.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
        disk.fail("full")
        with client_of(broker) as first:
            first.channel.queue_declare("passing")
            unconfirmed: Any = first.connection.channel()
            unconfirmed.basic_publish("", "q", b"in flight", pika.BasicProperties(delivery_mode=2))
            eventually(lambda: closed(broker) == ["store"], "the gate closes")
            with pytest.raises(pika.exceptions.NackError):
                client.publish("q", "held too long")
        eventually(lambda: client.connection.process_data_events(0) or heard, "it is told")
        assert heard[0].startswith(f"the disk (store): cannot write the store '{tmp_path}/data/messages.sqlite': ")
        web = Web(broker.http)
        answer = web.ask("GET", "/health/checks/alarms")
        assert answer.status == 503
        assert [alarm["resource"] for alarm in answer.json["alarms"]] == ["disk"]
        assert web.get("/nodes")[0]["disk_free_alarm"] is True
        refused = web.ask(
            "POST",
            "/exchanges/%2F/amq.default/publish",
            {"properties": {"delivery_mode": 2}, "routing_key": "q", "payload": "p", "payload_encoding": "string"},
        )
        assert refused.status == 503
        assert "disk store: cannot write the store" in refused.json["reason"]
        disk.work()
        eventually(lambda: web.ask("GET", "/health/checks/alarms").status == 200, "the alarm ends")
        client.publish("q", "afterwards")
        assert [body for body, _ in client.drain("q")] == ["in flight", "afterwards"]
        eventually(lambda: client.connection.process_data_events(0) or heard[1:], "it is told that it is over")
        assert heard[1:] == ["unblocked"]


@pytest.mark.slow
def test_declaration_while_the_disk_fails_is_answered_at_the_hold_deadline(tmp_path: Path, disk: Disk) -> None:
    with kept(tmp_path, disk, "--http", "127.0.0.1:0") as broker:
        set_broker(broker, "hold-deadline=10")
        web = Web(broker.http)
        answers: list[Answer] = []
        with client_of(broker) as there:
            there.channel.queue_declare("there", durable=True)
            disk.fail("full")
            with (
                client_of(broker) as client,
                in_background(lambda: await_answer_that_waits(broker)),
                in_background(lambda: answers.append(web.ask("PUT", "/queues/%2F/other", {"durable": True}))),
                pytest.raises(pika.exceptions.ConnectionClosedByBroker) as ended,
            ):
                client.channel.queue_declare("new", durable=True)
            assert ended.value.reply_code == 541
            assert ended.value.reply_text.startswith(
                "INTERNAL_ERROR - the changes are not durable after 10 s, and their outcome is unknown: cannot "
            )
            there.channel.queue_declare("there", durable=True)  # It changes nothing, and waits for nothing.
            there.channel.queue_declare("transient")
            (answer,) = answers
            assert (answer.status, answer.json["error"]) == (503, "not_on_disk")
            disk.work()
            eventually(lambda: closed(broker) == [], "the store is written")
        with client_of(broker) as client:
            assert client.depth("new") == 0
        broker.kill()
    with kept(tmp_path) as broker, client_of(broker) as client:
        assert (client.depth("new"), client.depth("other"), client.depth("there")) == (0, 0, 0)


def test_list_request_does_not_wait_for_changes_while_the_disk_fails(tmp_path: Path, disk: Disk) -> None:
    """A long list is asked for, and sorted in many slices; between them others declare durable queues."""
    with kept(tmp_path, disk, "--http", "127.0.0.1:0") as broker, contextlib.ExitStack() as sockets:
        set_broker(broker, "hold-deadline=1")
        web = Web(broker.http)
        queues = [{"name": f"q{number}", "vhost": "/", "durable": False} for number in range(2_000)]
        web.do("POST", "/definitions", {"queues": queues})
        disk.fail("full")
        looking = sockets.enter_context(contextlib.closing(http.client.HTTPConnection(web.address, timeout=PATIENCE)))
        headers = {"Authorization": web.login}
        looking.request("GET", "/api/queues?sort=node&columns=name", headers=headers)
        answers: list[http.client.HTTPResponse] = []
        with in_background(lambda: answers.append(looking.getresponse())):
            for number in itertools.takewhile(lambda _: not answers, range(150)):
                asking = sockets.enter_context(contextlib.closing(http.client.HTTPConnection(web.address)))
                asking.request("PUT", f"/api/queues/%2F/new{number}", b'{"durable": true}', headers)
        (answer,) = answers
        assert answer.status == 200
        assert len(json.loads(answer.read())) >= 2_000
        disk.work()
        eventually(lambda: closed(broker) == [], "the store is written")


class SlowWriter:
    """Publishes messages that are kept, one after the other, until it is told to end."""

    def __init__(self, client: Client) -> None:
        self.confirmed = 0
        self.over = threading.Event()
        self._client = client

    def run(self) -> None:
        while not self.over.is_set():
            self._client.publish("q", str(self.confirmed))
            self.confirmed += 1


@pytest.mark.slow
def test_event_loop_is_not_slowed_by_a_slow_disk(tmp_path: Path, disk: Disk) -> None:
    """Round trips of transient messages, and `why`, while every fsync takes two seconds; and none is given up.

    Who waited for the disk would make a trip for each fsync. A machine may be slow for one or another of them.
    """
    with kept(tmp_path, disk) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.channel.queue_declare("passing")
        disk.fail("slow")
        with (
            client_of(broker) as writing,
            connect(broker.url, protocol="amqp091") as control,
        ):
            writer = SlowWriter(writing)

            def trips() -> int:
                """Make trips until the next confirmation, and return how many they were."""
                before, made = writer.confirmed, 0
                while writer.confirmed == before:
                    client.publish("passing", "x", properties=LOST)
                    assert len(client.drain("passing")) == 1
                    control.why("q")
                    made += 1
                return made

            with in_background(writer.run):
                try:
                    eventually(lambda: trips() > TRIPS, f"{TRIPS} trips while one message is written")
                finally:
                    writer.over.set()
        assert broker.logged("PST-1012") == [], "slow is not broken"
        disk.work()


@pytest.mark.slow
def test_connection_lives_while_an_answer_of_its_own_waits_for_a_slow_disk(tmp_path: Path, disk: Disk) -> None:
    """With heartbeats every second: they go out, though nothing else may."""
    with kept(tmp_path, disk) as broker:

        def wait() -> None:
            with open_peer(broker, heartbeat=1) as peer:
                disk.fail("slow")
                try:
                    peer.send(1, commands.Queue.Declare(queue=some_name("q"), durable=True))
                    beats = 0
                    while (heard := peer.read_frame())[0] == HEARTBEAT:
                        beats += 1
                        peer.say(raw_frame(HEARTBEAT, 0, b""))
                finally:
                    disk.work()
                assert frame.unmarshal(raw_frame(*heard))[2].name == commands.Queue.DeclareOk.name
                assert beats >= 2
                assert peer.is_well()

        undisturbed(wait, broker)


@pytest.mark.slow
def test_disk_that_does_not_answer_counts_as_one_that_fails_until_it_does(tmp_path: Path, disk: Disk) -> None:
    with kept(tmp_path, disk) as broker, client_of(broker) as client, client_of(broker) as reader:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "a")
        disk.fail("stuck")
        with in_background(lambda: client.publish("q", "in flight")):
            eventually(lambda: closed(broker) == ["store"], "the gate closes after ten seconds")
            said = re.search(r"by the disk \(store\): the store in (.*) has not answered for (\d+)", broker.why("q"))
            assert said[1] == f"{tmp_path}/data"
            assert int(said[2]) >= 10
            assert take(reader, "q", 1) == ["a"]
            disk.work()
        eventually(lambda: closed(broker) == [], "it answers")
        assert take(reader, "q", 1) == ["in flight"]


# Clocks that are wrong


def test_clock_that_jumps_between_two_starts_shortens_or_renews_the_time_to_live(tmp_path: Path, library: Path) -> None:
    """An hour on, a message with ten minutes is too old; an hour back, it has at most its ten minutes again."""

    def at(offset_s: int) -> dict[str, str]:
        return {"LD_PRELOAD": str(library), "CLOCK_OFF_S": str(offset_s)}

    mortal = pika.BasicProperties(delivery_mode=2, expiration="600000")
    short = pika.BasicProperties(delivery_mode=2, expiration="1000")
    data = str(tmp_path / "data")
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "immortal")
        client.publish("q", "mortal", properties=mortal)
        broker.kill()
    with serving(tmp_path, "--data", data, environment=at(-3600)) as broker, client_of(broker) as client:
        assert client.depth("q") == 2
        client.publish("q", "short", properties=short)
        eventually(lambda: client.depth("q") == 2, "what is short-lived goes by the broker's own clock")
        broker.kill()
    with serving(tmp_path, "--data", data, environment=at(3600)) as broker, client_of(broker) as client:
        eventually(lambda: client.depth("q") == 1, "what is too old by this clock is gone")
        assert [body for body, _ in client.drain("q")] == ["immortal"]


def test_message_from_the_future_lives_no_longer_than_from_now_on(tmp_path: Path, data: str, library: Path) -> None:
    early = {"LD_PRELOAD": str(library), "CLOCK_OFF_S": "-3600"}
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "mortal", properties=pika.BasicProperties(delivery_mode=2, expiration="2000"))
        broker.kill()
    with serving(tmp_path, "--data", data, environment=early) as broker, client_of(broker) as client:
        eventually(lambda: client.depth("q") == 0, "it has two seconds, not an hour and two seconds")
