"""penstock backup, check and repair, on data directories that a real broker has written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.store.sqlite import FILE
from tests.support.brokers import penstock_command, serving
from tests.support.pika_helpers import client_of


def refused(*words: str) -> list[str]:
    """The lines with which a command ends that did not do what it was asked for."""
    done = penstock_command(*words)
    assert done.returncode == 1
    return [line.removeprefix("penstock: ") for line in done.stderr.splitlines() if not line.startswith("20")]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a queue of 200 messages."""
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data)) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", *[f"{number:010}" * 100 for number in range(200)])
    return data


def bodies(tmp_path: Path, data: Path) -> list[str]:
    with serving(tmp_path, "--data", str(data)) as broker, client_of(broker) as client:
        return [body for body, _ in client.drain("q")]


def test_backup_of_a_running_broker_is_a_data_directory(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with serving(tmp_path, "--data", str(data)) as broker, client_of(broker) as client:
        client.channel.queue_declare("q", durable=True)
        client.publish("q", "a", "b")
        done = penstock_command("backup", str(copy), "--data", str(data))
        assert done.stdout.startswith(f"backed up to {copy}: "), done.stderr
        client.publish("q", "c")
        assert client.depth("q") == 3
    assert bodies(tmp_path, copy) == ["a", "b"]


def test_backup_goes_into_an_empty_folder_only(data: Path, tmp_path: Path) -> None:
    said = refused("backup", str(tmp_path), "--data", str(data))
    assert said == [f"cannot back up to '{tmp_path}': that folder is not empty"]


def test_store_in_order_is_in_order(data: Path) -> None:
    assert penstock_command("check", "--data", str(data)).stdout == f"{data} is in order\n"


def test_store_that_a_broker_uses_is_not_checked(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with serving(tmp_path, "--data", data) as broker:
        said = refused("check", "--data", data)
        assert said == [f"data directory '{data}' is in use by another broker (process {broker.pid})"]


def test_damaged_store_is_refused_and_its_readable_messages_are_saved(data: Path, tmp_path: Path) -> None:
    file = data / FILE
    octets = bytearray(file.read_bytes())
    at = octets.index(b"0000000123" * 50)
    octets[at] ^= 1
    file.write_bytes(octets)
    (said,) = refused("serve", "--listen", "127.0.0.1:0", "--data", str(data))
    assert said.startswith("the store is damaged in 1 place, first row ")
    lost = said.partition("; ")[2].partition("; ")[0]
    assert re.fullmatch(r"queue 'q' in vhost '/' has lost \d+ of 200 messages", lost)
    which, where, all_of_it = refused("check", "--data", str(data))
    assert which == lost
    assert where.startswith("row ")
    assert all_of_it.startswith(f"{data} is damaged in 1 place: {lost}; ")
    saved = tmp_path / "saved"
    done = penstock_command("repair", str(saved), "--data", str(data))
    assert done.returncode == 0
    left = bodies(tmp_path, saved)
    assert lost == f"queue 'q' in vhost '/' has lost {200 - len(left)} of 200 messages"
    assert done.stdout == f"saved in {saved}: {len(left)} messages, 2 declarations; lost: 1 record, {lost}\n"
    assert 0 < len(left) < 200
    assert all(body == body[:10] * 100 for body in left)
    assert left == sorted(left)


def test_folder_without_a_store_has_nothing_to_save(tmp_path: Path) -> None:
    assert refused("check", "--data", str(tmp_path / "none")) == [f"there is no data directory '{tmp_path}/none'"]
    said = refused("backup", str(tmp_path / "b"), "--data", str(tmp_path))
    assert said == [f"there is no store '{tmp_path}/{FILE}' to back up"]
