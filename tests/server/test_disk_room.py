"""Disks that are short of room, under a whole broker: small real file systems, with measured usage."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from pathlib import Path

import pika

from penstock.logs import flowlog
from tests.support.brokers import BrokerProcess, eventually, in_background, penstock_command, settings_file
from tests.support.disk_brokers import closed, crossings, kept, set_broker, status, take
from tests.support.faults import small_disk
from tests.support.pika_helpers import client_of, stopped

KIB_100 = "x" * 100_000


def used(place: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in place.parent.glob("messages.*"))


def crossings_of_an_open_gate(broker: BrokerProcess) -> list[str]:
    """Return the lines about a gate that is open: as many closings as openings, when the log has them all."""
    return eventually(lambda: (lines := crossings(broker)) and len(lines) % 2 == 0 and lines, "its opening in the log")


def test_quota_blocks_and_opens_again_when_consumers_have_drained(tmp_path: Path) -> None:
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
            assert 20 < held < 100
            place = tmp_path / "data" / "messages.sqlite"
            assert used(place) < 32 * 1024 * 1024, "the mark, and the log of 16 MiB"
            assert re.search(r"disk-overfull \(?8,388,608\)? (\(|and )opens at 4,194,304", broker.why("q"))
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
        lines = crossings_of_an_open_gate(broker)
        assert lines[:2] == [
            "MST-1008 : Store overfull, flow control will be enforced",
            "MST-1009 : Store overfull condition cleared",
        ]
        assert lines == lines[:2] * (len(lines) // 2), "each crossing once"
    records = [record for record in flowlog.read(tmp_path / "data" / "flow-log") if record.get("kind") == "disk"]
    crossed = [(each["event"], each["id"], each["gate"]) for each in records if each["event"].startswith("gate-")]
    assert crossed[:2] == [("gate-closed", "MST-1008", "quota"), ("gate-opened", "MST-1009", "quota")]
    assert ("blocked", "CHN-1005") in [(each["event"], each["id"]) for each in records]


def test_quota_below_the_stored_bytes_closes_at_the_start(tmp_path: Path) -> None:
    with kept(tmp_path) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", *[f"{number}{KIB_100}" for number in range(5)])
        set_broker(broker, "disk-overfull=200KiB")
        eventually(lambda: closed(broker) == ["quota"], "it is judged at once")
        broker.kill()
    with kept(tmp_path) as broker, client_of(broker) as client:
        assert closed(broker) == ["quota"]
        assert len(client.drain("q")) == 5


def test_underfull_above_the_overfull_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with kept(tmp_path) as broker:
        set_broker(broker, "disk-overfull=8MiB", "disk-underfull=4MiB")
        for scope in (["broker"], ["vhost", "/"]):
            said = broker.refusal("set", *scope, "disk-overfull=1MiB", "disk-underfull=2MiB")
            assert "disk-underfull=2MiB" in said
            assert "is above disk-overfull=1MiB" in said
        shown = broker.command("settings")
        assert "disk-overfull=8MiB" in shown
        assert "disk-underfull=4MiB" in shown
        assert "1MiB" not in shown


def test_room_that_must_be_left_free_is_left(tmp_path: Path) -> None:
    """A file system of 24 MiB of which 8 must stay free; what else is on it counts, and goes."""
    with small_disk(tmp_path / "small", "24m") as small:
        ballast = small / "ballast"
        ballast.write_bytes(bytes(9 * 1024 * 1024))
        options = settings_file(tmp_path, '[broker]\nmin-disk-free = "8MiB"\n')
        with (
            kept(tmp_path, None, *options, data=small / "data") as broker,
            client_of(broker) as client,
        ):
            client.channel.queue_declare("q", durable=True)
            with in_background(lambda: client.publish("q", *[f"{number:03}{KIB_100}" for number in range(80)])):
                eventually(lambda: closed(broker) == ["room"], "the gate closes")
                assert status(broker)["free"] > 6 * 1024 * 1024
                assert re.search(  # The store gives room back by then, perhaps enough to be above the mark again.
                    r"bytes free( <|; it was below) min-disk-free \(?8,388,608\)? (\(|and )opens at 9,227,468",
                    broker.why("q"),
                )
                ballast.unlink()
            eventually(lambda: closed(broker) == [], "it opens by itself")
            assert client.depth("q") == 80
            lines = crossings_of_an_open_gate(broker)
            assert lines[0] == "VHT-1006 : Filesystem is over 67 per cent full, enforcing flow control."
            assert lines[1] == "VHT-1007 : Filesystem is no longer over 67 per cent full."
            broker.kill()
        with kept(tmp_path, None, *options, data=small / "data") as broker, client_of(broker) as client:
            assert [body[:3] for body, _ in client.drain("q")] == [f"{number:03}" for number in range(80)]


def test_file_system_that_is_full_for_the_broker_loses_nothing_and_is_read_on(tmp_path: Path) -> None:
    """Where nothing must be left free it is full when what is left is the store's own reserve."""
    with small_disk(tmp_path / "small", "8m") as small:
        ballast = small / "ballast"
        ballast.write_bytes(bytes(4 * 1024 * 1024))
        options = settings_file(tmp_path, '[broker]\nmin-disk-free = "none"\n')
        confirmed: list[str] = []
        with kept(tmp_path, None, *options, data=small / "data") as broker, client_of(broker) as client:
            client.channel.queue_declare("q", durable=True)
            client.channel.queue_declare("passing")

            def publish() -> None:
                with contextlib.suppress(pika.exceptions.AMQPError, OSError):  # The broker is killed.
                    for number in range(60):
                        client.publish("q", f"{number:03}{KIB_100}")
                        confirmed.append(f"{number:03}")

            with in_background(publish):
                eventually(lambda: closed(broker) == ["room"], "the file system is full")
                assert re.search(
                    r"min-disk-free 0 \(opens at 0\), besides [\d,]+ for the store itself", broker.why("q")
                )
                with client_of(broker) as reader:
                    reader.publish("passing", "goes on")
                    assert len(reader.drain("passing")) == 1
                broker.kill()
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


def test_disk_that_may_only_be_read_is_refused_at_the_start_with_a_sentence(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "64m") as small:
        with kept(tmp_path, data=small / "data") as broker, client_of(broker) as client:
            client.channel.queue_declare("q", durable=True)
            client.publish("q", "a")
            stopped(broker, client.connection)
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        done = penstock_command("serve", "--data", str(small / "data"), "--listen", "127.0.0.1:0")
        assert done.returncode == 1
        assert done.stderr.strip() == (
            f"penstock: cannot use data directory '{small}/data': its file system may only be read; "
            "have it mounted for writing, or name another with --data"
        )
