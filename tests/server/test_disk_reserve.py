"""A disk with a small reserve, or filled by others: the broker starts, consumers drain, the gate opens.

The file systems are really small, and really full.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pika
import pytest

from penstock.logs import flowlog
from penstock.server.record_log import RecordLog
from penstock.store.space import RESERVE_BYTES, RESERVE_FILE, STOPPED_BYTES, WHOLE_BYTES
from tests.support.brokers import BrokerProcess, eventually, in_background, settings_file
from tests.support.disk_brokers import closed, kept
from tests.support.faults import fill, small_disk
from tests.support.pika_helpers import client_of, stopped

MIB = 1024 * 1024
KIB_100 = "x" * 100_000
LARGE = {"capacity-bytes": 1 << 30, "hold-deadline": 0}
SIZE = 48 * MIB


def free(place: Path) -> int:
    system = os.statvfs(place)
    return system.f_bavail * system.f_frsize


def settings(tmp_path: Path, min_free: str) -> tuple[str, str]:
    return settings_file(tmp_path, f'[broker]\nmin-disk-free = "{min_free}"\n')


def reserved(small: Path) -> int:
    """Return how many bytes of the file system the reserve really has."""
    path = small / "data" / RESERVE_FILE
    return path.stat().st_blocks * 512 if path.exists() else 0


def publish_until_killed(broker: BrokerProcess, confirmed: list[str]) -> None:
    with contextlib.suppress(pika.exceptions.AMQPError, OSError), client_of(broker) as client:
        for number in range(750):
            client.publish("q", f"{number:04}{KIB_100}")
            confirmed.append(f"{number:04}")


def drained(broker: BrokerProcess) -> list[str]:
    """Take all messages, and return their numbers when it is on the disk that they are gone."""
    with client_of(broker) as client:
        found = [body[:4] for body, _ in client.drain("q")]
        client.channel.queue_declare("answered when all before it is written", durable=True)
    return found


@pytest.mark.parametrize("min_free", ["none", pytest.param("1MiB", marks=pytest.mark.long), "8MiB"])
def test_broker_that_filled_its_disk_starts_and_drains_with_any_reserve(tmp_path: Path, min_free: str) -> None:
    options = settings(tmp_path, min_free)
    confirmed: list[str] = []
    marks = {"none": 0, "1MiB": MIB, "8MiB": 8 * MIB}
    with small_disk(tmp_path / "small", f"{SIZE}") as small:
        with kept(tmp_path, None, *options, data=small / "data") as broker:
            with client_of(broker) as client:
                client.channel.queue_declare("q", durable=True, arguments=LARGE)
            with in_background(lambda: publish_until_killed(broker, confirmed)):
                eventually(lambda: closed(broker) == ["room"], "the gate closes, and the store never fails", 200.0)
                assert free(small) >= marks[min_free]
                assert reserved(small) == RESERVE_BYTES * SIZE // WHOLE_BYTES
                assert len(confirmed) > 200
                broker.kill()
        with kept(tmp_path, None, *options, data=small / "data") as broker:
            assert free(small) >= marks[min_free]
            found = drained(broker)
            assert found[: len(confirmed)] == confirmed
            assert len(found) <= len(confirmed) + 1
            eventually(lambda: closed(broker) == [], "it opens by itself")
            with client_of(broker) as client:
                client.publish("q", "afterwards")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
@pytest.mark.parametrize("min_free", ["none", "8MiB"])
def test_disk_that_is_full_to_the_last_byte_at_the_start_is_taken_and_drained(
    tmp_path: Path, how: signal.Signals, min_free: str
) -> None:
    """What was acknowledged on it is gone for good, and it opens by what its consumers have freed."""
    options = settings(tmp_path, min_free)
    numbers = [f"{number:04}" for number in range(200)]
    with small_disk(tmp_path / "small", f"{SIZE}") as small:
        with kept(tmp_path, None, *options, data=small / "data") as broker, client_of(broker) as client:
            client.channel.queue_declare("q", durable=True, arguments=LARGE)
            client.publish("q", *[f"{number}{KIB_100}" for number in numbers])
            if how == signal.SIGTERM:
                stopped(broker, client.connection)
            else:
                broker.kill()
        if how == signal.SIGTERM:
            assert reserved(small) == STOPPED_BYTES
        fill(small / "ballast")
        assert free(small) == 0
        with kept(tmp_path, None, *options, data=small / "data") as broker:
            assert closed(broker) == ["room"]
            with client_of(broker) as client:
                assert client.depth("q") == 200
            assert drained(broker) == numbers
            eventually(lambda: closed(broker) == [], "it opens")
            eventually(lambda: reserved(small) == RESERVE_BYTES * SIZE // WHOLE_BYTES, "it has its reserve again")
            broker.kill()
        with kept(tmp_path, None, *options, data=small / "data") as broker, client_of(broker) as client:
            assert client.depth("q") == 0
            client.publish("q", "afterwards")


def test_disk_that_others_fill_to_the_last_byte_while_the_broker_runs_is_drained(tmp_path: Path) -> None:
    options = settings(tmp_path, "8MiB")
    numbers = [f"{number:04}" for number in range(200)]
    with small_disk(tmp_path / "small", f"{SIZE}") as small:
        with kept(tmp_path, None, *options, data=small / "data") as broker:
            with client_of(broker) as client:
                client.channel.queue_declare("q", durable=True, arguments=LARGE)
                client.publish("q", *[f"{number}{KIB_100}" for number in numbers])
            fill(small / "ballast")
            eventually(lambda: closed(broker) == ["room"], "the gate closes")
            assert drained(broker) == numbers
            eventually(lambda: closed(broker) == [], "it opens by what was consumed")
            assert broker.logged("PST-1012") == [], "the store could always be written"
            broker.kill()
        with kept(tmp_path, None, *options, data=small / "data") as broker, client_of(broker) as client:
            assert client.depth("q") == 0


def test_flow_log_without_room_at_the_start_is_reported_and_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with small_disk(tmp_path / "small", "1m,nr_inodes=2") as small:
        (small / "last").touch()
        flow_log = RecordLog(flowlog.FILES, small / "flow-log", 2, 1 << 20)
        flow_log.start()
        flow_log.stop()
    assert "cannot be written: No space left on device" in caplog.text
