"""Data directory of a node: its shards, and its refusal to a broker alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.cluster.adoption import FOLDER, prepare
from penstock.cluster.catalogue import FILE
from penstock.errors import StoreError
from penstock.store.node_folder import check_alone, folder_of, shard_folders

REFUSAL = (
    "data directory '{}' has 3 shards (1, 2, 3), and one broker would serve the virtual hosts of the first alone: "
    "start it with --shards 3"
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / FOLDER).mkdir()
    return tmp_path


def test_first_shard_has_the_directory_of_the_node() -> None:
    assert folder_of(Path("/data"), "1") == Path("/data")
    assert folder_of(Path("/data"), "west") == Path("/data/shards/west")


def test_shard_folders_follow_the_catalogue(data: Path) -> None:
    assert shard_folders(data) == []
    prepare(data, 2, ["/"])
    assert shard_folders(data) == [("1", data), ("2", data / "shards" / "2")]


def test_directory_with_more_shards_is_refused_to_a_broker_alone(data: Path) -> None:
    check_alone(data)
    prepare(data, 1, ["/"])
    check_alone(data)
    prepare(data, 3, ["/"])
    with pytest.raises(StoreError) as raised:
        check_alone(data)
    assert str(raised.value) == REFUSAL.format(data)


async def test_embedded_broker_refuses_a_directory_with_more_shards(data: Path) -> None:
    prepare(data, 3, ["/"])
    broker = penstock.Broker("127.0.0.1:0", data=data, http="off")
    with pytest.raises(StoreError) as raised:
        await broker.start()
    assert str(raised.value) == REFUSAL.format(data)
    assert not (data / "lock").exists()


def test_shards_without_a_catalogue_are_refused_to_a_broker_alone(data: Path) -> None:
    (data / "shards" / "2").mkdir(parents=True)
    with pytest.raises(StoreError) as raised:
        check_alone(data)
    assert str(raised.value) == (
        f"data directory '{data}' has shards (2) and no catalogue 'cluster/catalogue.sqlite': restore it from a backup "
        "of the directory"
    )


def test_catalogue_that_cannot_be_read_is_refused_to_a_broker_alone(data: Path) -> None:
    (data / FOLDER / FILE).write_bytes(b"no database, but longer than a header" * 100)
    with pytest.raises(StoreError) as raised:
        check_alone(data)
    assert str(raised.value) == f"cannot read the catalogue '{data / FOLDER / FILE}': file is not a database"
