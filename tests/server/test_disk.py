"""Disks that are short of room, full, slow or broken, under a whole broker: it blocks who must wait and loses nothing.

Real clients, real files; file systems that are really small; calls of the operating system that fail (tests/faults.py).
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest

from penstock.client import Connection
from penstock.client.control import Control
from tests.brokers import BrokerProcess, eventually, in_background, penstock_command, serving
from tests.faults import Disk, make_library, small_disk
from tests.server.test_durability import LOST, Client, client_of, killed
from tests.server.web import Web

PATIENCE_S = 60.0
SLOW_S = 2.0
"""How long a slow disk takes; see failing_disk.c."""
KIB_100 = "x" * 100_000


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the library that lets a disk fail."""
    return make_library(tmp_path_factory.mktemp("library"))


@pytest.fixture
def disk(library: Path, tmp_path: Path) -> Disk:
    return Disk(library, tmp_path / "failing")


@contextmanager
def kept(tmp_path: Path, disk: Disk | None = None, *options: str, data: Path | None = None) -> Iterator[BrokerProcess]:
    """Run a broker on a data directory, with a disk that may fail."""
    place = tmp_path / "data" if data is None else data
    environment = None if disk is None else disk.environment
    with serving(tmp_path, "--data", str(place), *options, environment=environment) as broker:
        yield broker
        assert "Traceback" not in broker.log()


def set_broker(broker: BrokerProcess, *settings: str) -> None:
    done = penstock_command("set", "broker", *settings, "--url", broker.url)
    assert done.returncode == 0, done.stderr


def status(broker: BrokerProcess) -> dict[str, Any]:
    """Return what the broker says of its disk."""
    with Connection(broker.url) as connection, Control(connection) as control:
        found = control.status()["disk"]
        assert isinstance(found, dict)
        return found


def closed(broker: BrokerProcess) -> list[str]:
    """Return the names of the gates before the disk that are closed."""
    return [gate["name"] for gate in status(broker)["gates"] if not gate["open"]]


def crossings(broker: BrokerProcess) -> list[str]:
    """Return the lines about gates before the disk that a broker has logged, from the id on."""
    return [line.partition("[ms(store)] ")[2] for line in broker.logged("[ms(store)] ")]


def take(client: Client, queue: str, count: int) -> list[str]:
    """Get and acknowledge so many messages."""
    found = []
    for _ in range(count):
        method, _, body = client.channel.basic_get(queue)
        assert method is not None
        client.channel.basic_ack(method.delivery_tag)
        found.append(body.decode())
    return found


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
def test_while_the_disk_fails_persistent_messages_wait_and_all_else_goes_on(
    tmp_path: Path, disk: Disk, words: str, why: str
) -> None:
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
            said = broker.why("q")
            assert "is blocked" in said
            assert f"by the disk (store): cannot write the store '{tmp_path}/data/messages.sqlite': {why}" in said
            assert "the store is tried again every second; consumers go on meanwhile" in said
            disk.work()
        eventually(lambda: closed(broker) == [], "the gate opens by itself")
        assert crossings(broker) == [
            "PST-1010 : Store cannot be written, flow control will be enforced : "
            f"cannot write the store '{tmp_path}/data/messages.sqlite': {why}",
            "PST-1011 : Store can be written again",
        ]
        killed(broker)
    with kept(tmp_path) as broker, client_of(broker) as client:
        found = [body for body, _ in client.drain("q")]
        assert found == [*[str(number) for number in range(5, 20)], "in flight", "held"]


def test_a_client_is_told_by_connection_blocked_and_a_held_publish_is_refused_at_its_deadline(
    tmp_path: Path, disk: Disk
) -> None:
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


def test_who_declares_while_the_disk_fails_hears_at_the_hold_deadline_that_nobody_knows(
    tmp_path: Path, disk: Disk
) -> None:
    with kept(tmp_path, disk, "--http", "127.0.0.1:0") as broker:
        set_broker(broker, "hold-deadline=1")
        with client_of(broker) as there:
            there.channel.queue_declare("there", durable=True)
            disk.fail("full")
            with client_of(broker) as client, pytest.raises(pika.exceptions.ConnectionClosedByBroker) as ended:
                client.channel.queue_declare("new", durable=True)
            assert ended.value.reply_code == 541
            assert ended.value.reply_text.startswith(
                "INTERNAL_ERROR - what was asked for is not on the disk after 1 s, and may or may not last: cannot "
            )
            there.channel.queue_declare("there", durable=True)  # It changes nothing, and waits for nothing.
            there.channel.queue_declare("transient")
            answer = Web(broker.http).ask("PUT", "/queues/%2F/other", {"durable": True})
            assert (answer.status, answer.json["error"]) == (503, "not_on_disk")
            disk.work()
            eventually(lambda: closed(broker) == [], "the store is written")
        with client_of(broker) as client:
            assert client.depth("new") == 0
        killed(broker)
    with kept(tmp_path) as broker, client_of(broker) as client:
        assert (client.depth("new"), client.depth("other"), client.depth("there")) == (0, 0, 0)


def test_while_the_disk_is_slow_the_event_loop_is_not(
    tmp_path: Path, disk: Disk, record_property: pytest.RecordProperty
) -> None:
    """Round trips of transient messages, and `why`, while every fsync takes two seconds; and none is given up."""
    with kept(tmp_path, disk) as broker, client_of(broker) as writer, client_of(broker) as client:
        writer.channel.queue_declare("q", durable=True)
        client.channel.queue_declare("passing")
        disk.fail("slow")
        began = time.monotonic()
        trips: list[float] = []
        asked: list[float] = []
        with (
            in_background(lambda: writer.publish("q", "a", "b", "c")),
            Connection(broker.url) as connection,
            Control(connection) as control,
        ):
            while time.monotonic() - began < 2 * SLOW_S:
                at = time.monotonic()
                client.publish("passing", "x", properties=LOST)
                assert len(client.drain("passing")) == 1
                trips.append(time.monotonic() - at)
                at = time.monotonic()
                control.why("q")
                asked.append(time.monotonic() - at)
        assert time.monotonic() - began > 2 * SLOW_S, "the disk was slow, and the confirmations waited for it"
        record_property("transient_ms", [round(1000 * each, 1) for each in (max(trips), sum(trips) / len(trips))])
        record_property("why_ms", [round(1000 * each, 1) for each in (max(asked), sum(asked) / len(asked))])
        print(f"{len(trips)} trips: at most {max(trips) * 1000:.1f} ms; why: at most {max(asked) * 1000:.1f} ms")
        assert max(trips) < SLOW_S / 4
        assert max(asked) < SLOW_S / 4
        assert broker.logged("PST-1010") == [], "slow is not broken"
        disk.work()


# Clocks that are wrong


def test_a_clock_that_jumps_between_two_lives_shortens_or_renews_what_is_left_to_live(
    tmp_path: Path, library: Path
) -> None:
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
        killed(broker)
    with serving(tmp_path, "--data", data, environment=at(-3600)) as broker, client_of(broker) as client:
        assert client.depth("q") == 2
        client.publish("q", "short", properties=short)
        eventually(lambda: client.depth("q") == 2, "what is short-lived goes by the broker's own clock")
        killed(broker)
    with serving(tmp_path, "--data", data, environment=at(3600)) as broker, client_of(broker) as client:
        eventually(lambda: client.depth("q") == 1, "what is too old by this clock is gone")
        assert [body for body, _ in client.drain("q")] == ["immortal"]


def test_a_message_from_the_future_lives_no_longer_than_from_now_on(tmp_path: Path, library: Path) -> None:
    early = {"LD_PRELOAD": str(library), "CLOCK_OFF_S": "-3600"}
    data = str(tmp_path / "data")
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "mortal", properties=pika.BasicProperties(delivery_mode=2, expiration="2000"))
        killed(broker)
    with serving(tmp_path, "--data", data, environment=early) as broker, client_of(broker) as client:
        eventually(lambda: client.depth("q") == 0, "it has two seconds, not an hour and two seconds", 10.0)


# A disk that is short of room


def test_a_quota_blocks_and_opens_again_when_consumers_have_drained(tmp_path: Path) -> None:
    """Measured on the file system; the store gives room back while its gate is closed."""
    with kept(tmp_path) as broker, client_of(broker) as client, client_of(broker) as reader:
        client.channel.queue_declare("q", durable=True)
        set_broker(broker, "disk-overfull=8MiB", "disk-underfull=4MiB")
        done = 0

        def publish() -> None:
            nonlocal done
            for number in range(150):
                client.publish("q", f"{number:03}{KIB_100}")
                done += 1

        with in_background(publish):
            eventually(lambda: closed(broker) == ["quota"], "the quota's gate closes")
            held = done
            assert 40 < held < 100
            place = tmp_path / "data" / "messages.sqlite"
            assert used(place) < 32 * 1024 * 1024, "the mark, and the log of 16 MiB"
            assert "bytes used > disk-overfull 8,388,608 (opens at 4,194,304)" in broker.why("q")
            found: list[str] = []
            while len(found) < 150:
                method, _, body = reader.channel.basic_get("q")
                if method is None:
                    time.sleep(0.001)
                    continue
                reader.channel.basic_ack(method.delivery_tag)
                found.append(body[:3].decode())
        assert found == [f"{number:03}" for number in range(150)]
        eventually(lambda: closed(broker) == [], "it opens")
        eventually(lambda: status(broker)["used"] < 4 * 1024 * 1024, "the room is given back")
        lines = crossings(broker)
        assert lines[:2] == [
            "MST-1008 : Store overfull, flow control will be enforced",
            "MST-1009 : Store overfull condition cleared",
        ]
        assert lines == lines[:2] * (len(lines) // 2), "each crossing once"


def used(place: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in place.parent.glob("messages.sqlite*"))


def test_a_quota_below_what_is_stored_closes_at_the_start(tmp_path: Path) -> None:
    with kept(tmp_path) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", *[f"{number}{KIB_100}" for number in range(5)])
        set_broker(broker, "disk-overfull=200KiB")
        eventually(lambda: closed(broker) == ["quota"], "it is judged at once")
        killed(broker)
    with kept(tmp_path) as broker, client_of(broker) as client:
        assert closed(broker) == ["quota"]
        assert len(client.drain("q")) == 5


def test_room_that_must_be_left_free_is_left(tmp_path: Path) -> None:
    """A file system of 24 MiB of which 8 must stay free; what else is on it counts, and goes."""
    with small_disk(tmp_path / "small", "24m") as small:
        ballast = small / "ballast"
        ballast.write_bytes(bytes(9 * 1024 * 1024))
        config = tmp_path / "settings.toml"
        config.write_text('[broker]\nmin-disk-free = "8MiB"\n')
        with (
            kept(tmp_path, None, "--config", str(config), data=small / "data") as broker,
            client_of(broker) as client,
        ):
            client.channel.queue_declare("q", durable=True)
            with in_background(lambda: client.publish("q", *[f"{number:03}{KIB_100}" for number in range(80)])):
                eventually(lambda: closed(broker) == ["room"], "the gate closes")
                assert status(broker)["free"] > 6 * 1024 * 1024
                assert "bytes free < min-disk-free 8,388,608 (opens at 9,227,468)" in broker.why("q")
                ballast.unlink()
            eventually(lambda: closed(broker) == [], "it opens by itself")
            assert client.depth("q") == 80
            lines = crossings(broker)
            assert lines[0] == "VHT-1006 : Filesystem is over 67 per cent full, enforcing flow control."
            assert lines[1] == "VHT-1007 : Filesystem is no longer over 67 per cent full."
            killed(broker)
        with kept(tmp_path, None, "--config", str(config), data=small / "data") as broker, client_of(broker) as client:
            assert [body[:3] for body, _ in client.drain("q")] == [f"{number:03}" for number in range(80)]


def test_a_file_system_that_is_really_full_loses_nothing_and_is_read_on(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "8m") as small:
        ballast = small / "ballast"
        ballast.write_bytes(bytes(4 * 1024 * 1024))
        config = tmp_path / "settings.toml"
        config.write_text('[broker]\nmin-disk-free = "none"\n')
        confirmed: list[str] = []
        options = ("--config", str(config))
        with kept(tmp_path, None, *options, data=small / "data") as broker, client_of(broker) as client:
            client.channel.queue_declare("q", durable=True)
            client.channel.queue_declare("passing")

            def publish() -> None:
                with contextlib.suppress(pika.exceptions.AMQPError, OSError):  # The broker is killed.
                    for number in range(60):
                        client.publish("q", f"{number:03}{KIB_100}")
                        confirmed.append(f"{number:03}")

            with in_background(publish):
                eventually(lambda: closed(broker) == ["store"], "the file system is full")
                with client_of(broker) as reader:
                    reader.publish("passing", "goes on")
                    assert len(reader.drain("passing")) == 1
                killed(broker)
        sure = len(confirmed)
        assert 5 < sure < 40
        with kept(tmp_path, None, *options, data=small / "data") as broker, client_of(broker) as client:
            assert client.depth("q") in (sure, sure + 1), "it starts on a full disk, and what it has can be read"
            found = take(client, "q", 3)
            assert [body[:3] for body in found] == confirmed[:3]
            ballast.unlink()
            client.publish("q", "afterwards")
            rest = [body[:3] for body, _ in client.drain("q")]
            assert rest[: sure - 3] == confirmed[3:]
            assert rest[-1] == "aft"


def test_a_disk_that_may_only_be_read_is_refused_at_the_start_with_a_sentence(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "64m") as small:
        with kept(tmp_path, data=small / "data") as broker, client_of(broker) as client:
            client.channel.queue_declare("q", durable=True)
            client.publish("q", "a")
            broker.stop()
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        done = penstock_command("serve", "--data", str(small / "data"), "--listen", "127.0.0.1:0")
        assert done.returncode == 1
        assert done.stderr.strip() == (
            f"penstock: cannot use data directory '{small}/data': its file system may only be read; "
            "have it mounted for writing, or name another with --data"
        )
