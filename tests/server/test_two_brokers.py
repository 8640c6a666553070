"""Two brokers in one data directory whose lock file was removed: one goes on, without loss.

Processes and files are real. Clients count the confirmed messages.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import pika
import pytest

from penstock.settings.start import NO_LOG
from penstock.store.sqlite import FILE
from tests.support.brokers import BrokerProcess, eventually, in_background, penstock_command, serving
from tests.support.disk_brokers import refused
from tests.support.pika_helpers import client_of, stopped


def ending(broker: BrokerProcess) -> str:
    """Wait until a broker ends by itself, with 1, and return its sentence."""
    assert eventually(lambda: broker.process.poll() is not None and [broker.process.poll()], "it stops") == [1]
    (said,) = [line for line in broker.log().splitlines() if line.startswith("penstock: ")]
    return said.removeprefix("penstock: ")


def publish_until_refused(broker: BrokerProcess, mark: str, confirmed: list[str]) -> None:
    """Publish to queue q, one message at a time, and note what is confirmed, until the broker is gone."""
    with contextlib.suppress(pika.exceptions.AMQPError, OSError), client_of(broker) as client:
        for number in range(100_000):
            client.publish("q", f"{mark}{number}")
            confirmed.append(f"{mark}{number}")


def is_refused(broker: BrokerProcess) -> None:
    """Publish one message that must not be confirmed."""
    confirmed: list[str] = []
    publish_until_refused(broker, "too late", confirmed)
    assert confirmed == []


def test_second_broker_after_a_removed_lock_takes_over_from_the_first(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data)) as first, client_of(first) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", *[f"a{number}" for number in range(50)])
        client.connection.close()  # A broker that ends waits for clients that do not answer.
        first.pause()
        (data / "lock").unlink()
        with serving(tmp_path, "--data", str(data)) as second, client_of(second) as other:
            other.publish("q", *[f"b{number}" for number in range(50)])
            with in_background(lambda: is_refused(first)):
                first.go_on()
            assert ending(first) == (
                f"data directory '{data}' is in use by another broker (process {second.pid}): its lock file was "
                "removed while this one held it; this one must stop"
            )
            other.publish("q", "b50")
            second.kill()
    with serving(tmp_path, "--data", str(data)) as third, client_of(third) as client:
        found = [body for body, _ in client.drain("q")]
    assert found == [*[f"a{number}" for number in range(50)], *[f"b{number}" for number in range(51)]]


def test_brokers_under_load_with_a_removed_lock_end_up_as_one(tmp_path: Path) -> None:
    """Whichever is first at the lock: the one that runs, with its next transaction, or the one that starts."""
    data = tmp_path / "data"
    confirmed: list[str] = []
    with serving(tmp_path, "--data", str(data)) as first:
        with client_of(first) as client:
            client.channel.queue_declare("q", durable=True)
        with in_background(lambda: publish_until_refused(first, "a", confirmed)):
            eventually(lambda: len(confirmed) > 20, "some are confirmed")
            (data / "lock").unlink()
            words = [sys.executable, "-m", "penstock", "serve", "--listen", "127.0.0.1:0", "--data", str(data)]
            with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as second:
                in_use = f"data directory '{data}' is in use by another broker (process {{}})"
                if second.stdout.readline():
                    assert ending(first).startswith(in_use.format(second.pid))
                    second.kill()
                else:
                    assert in_use.format(first.pid) in second.stderr.read()
                    known = len(confirmed)
                    eventually(lambda: len(confirmed) > known + 20, "the first goes on")
                    assert first.await_logged(
                        f"the lock file of data directory '{data}' was removed, and is taken again"
                    )
                    first.kill()
    with serving(tmp_path, "--data", str(data)) as third, client_of(third) as client:
        found = [body for body, _ in client.drain("q")]
    assert found[: len(confirmed)] == confirmed
    assert len(found) <= len(confirmed) + 1


def test_broker_whose_directory_was_used_by_another_stops(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data)) as first, client_of(first) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "a")
        client.connection.close()  # A broker that ends waits for clients that do not answer.
        first.pause()
        (data / "lock").unlink()
        with serving(tmp_path, "--data", str(data)) as second, client_of(second) as other:
            other.publish("q", "b")
            stopped(second, other.connection)
        (data / "lock").unlink()
        with in_background(lambda: is_refused(first)):
            first.go_on()
        assert ending(first) == (
            f"another broker has opened the store '{data}/{FILE}', which this one was using: one of the two was "
            "started where no lock file stopped it; this one must stop"
        )
    with serving(tmp_path, "--data", str(data)) as third, client_of(third) as client:
        assert [body for body, _ in client.drain("q")] == ["a", "b"]


def test_broker_that_is_idle_takes_its_lock_again_and_keeps_others_out(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data)) as broker:
        (data / "lock").unlink()
        eventually((data / "lock").exists, "the lock file is there again")
        assert eventually((data / "lock").read_text, "it says whose it is") == str(broker.pid)
        said = refused(data)
        assert said == f"data directory '{data}' is in use by another broker (process {broker.pid})"


def test_store_log_removed_at_run_time_is_written_back_without_loss(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with serving(tmp_path, "--data", str(data)) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", *[str(number) for number in range(20)])
        (data / f"{FILE}-wal").unlink()
        client.publish("q", *[str(number) for number in range(20, 30)])
        assert broker.await_logged(f"the log '{data}/{FILE}-wal' was removed")
        assert penstock_command("backup", str(copy), "--data", str(data)).returncode == 0
        broker.kill()
    for place in (data, copy):
        with serving(tmp_path, "--data", str(place)) as broker, client_of(broker) as client:
            assert [body for body, _ in client.drain("q")] == [str(number) for number in range(30)]


@pytest.mark.parametrize("what", ["directory", "store"])
def test_broker_whose_files_were_removed_confirms_nothing_more_and_says_why(tmp_path: Path, what: str) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data), "--flow-log", NO_LOG) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "a")
        client.connection.close()
        broker.pause()
        if what == "directory":
            shutil.rmtree(data)
            expected = f"data directory '{data}' was removed while a broker used it; it must stop"
        else:
            (data / FILE).rename(data / "moved")
            expected = f"the store '{data}/{FILE}' was removed or replaced while a broker used it; it must stop"
        with in_background(lambda: is_refused(broker)):
            broker.go_on()
        assert ending(broker).startswith(expected)
