"""Stores of a node: what a backup has, what a check finds, and what a repair saves."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from penstock.cluster.catalogue import FILE as CATALOGUE
from penstock.cluster.catalogue import CatalogueReader
from penstock.cluster.node_store import backup_node, check_node, repair_node
from penstock.errors import StartError, StoreError
from penstock.store.directory import DataDirectory
from penstock.store.node_folder import check_alone
from penstock.store.sqlite import FILE
from tests.support.node_folder import PLACES, fill_node


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A node that is stopped, with a message store in each of two shards."""
    data = tmp_path / "data"
    asyncio.run(fill_node(data))
    return data


def placed_in(data: Path) -> dict[str, str]:
    reader = CatalogueReader(data / "cluster")
    found = reader.vhosts()
    reader.close()
    return found


def messages_of(data: Path, target: Path) -> dict[str, int]:
    """Return the messages of each shard, by the report of a repair."""
    return {folder.name: 0 if done is None else done.messages for folder, done in repair_node(data, target)}


def ignored(shard: str, left: int, pages: int) -> None:
    """Report nothing."""


def damage(path: Path, text: bytes) -> None:
    """Change one bit of a body in a store."""
    octets = bytearray(path.read_bytes())
    octets[octets.index(text)] ^= 1
    path.write_bytes(octets)


def test_backup_of_a_node_has_each_shard_and_the_catalogue(data: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copied = backup_node(data, copy, ignored)
    assert list(copied) == list(PLACES)
    assert all(octets > 0 for octets in copied.values())
    assert placed_in(copy) == placed_in(data) == {vhost: shard for shard, vhost in PLACES.items()}
    checks, damaged = check_node(copy)
    assert [(each.found.damaged, each.found.losses) for each in checks] == [([], [])] * 2
    assert damaged == []
    assert messages_of(copy, tmp_path / "saved") == {"1": 3, "2": 3}
    assert [path.name for path in copy.iterdir() if path.name.endswith(".part")] == []


def test_backup_reports_the_progress_of_each_shard(data: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    backup_node(data, tmp_path / "copy", lambda shard, left, pages: told.append((shard, left)))
    assert {shard for shard, left in told if left == 0} == {"1", "2"}


def test_backup_that_is_cut_off_leaves_nothing(data: Path, tmp_path: Path) -> None:
    def stop(shard: str, left: int, pages: int) -> None:
        if shard == "2":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backup_node(data, tmp_path / "copy", stop)
    assert list((tmp_path / "copy").iterdir()) == []
    backup_node(data, tmp_path / "copy", ignored)
    assert placed_in(tmp_path / "copy") == placed_in(data)


def test_backup_without_its_catalogue_is_no_directory_of_a_broker(data: Path, tmp_path: Path) -> None:
    """So it is after a kill between the last shard and the catalogue."""
    copy = tmp_path / "copy"
    backup_node(data, copy, ignored)
    (copy / "cluster" / CATALOGUE).unlink()
    with pytest.raises(StoreError, match="and no catalogue"):
        check_alone(copy)


def test_backup_into_a_full_folder_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError) as raised:
        backup_node(data, tmp_path, ignored)
    assert str(raised.value) == f"cannot back up to '{tmp_path}': that folder is not empty"
    assert data.exists()


def test_backup_names_a_shard_without_a_store(data: Path, tmp_path: Path) -> None:
    (data / "shards" / "2" / FILE).unlink()
    with pytest.raises(StoreError) as raised:
        backup_node(data, tmp_path / "copy", ignored)
    assert str(raised.value) == (f"cannot back up shard '2': its data directory '{data / 'shards' / '2'}' has no store")
    assert not (tmp_path / "copy").exists()


def test_damage_of_one_shard_is_found_and_the_rest_saved(data: Path, tmp_path: Path) -> None:
    damage(data / "shards" / "2" / FILE, b"2-0000000001" * 50)
    checks, damaged = check_node(data)
    assert ([len(each.found.damaged) for each in checks], damaged) == ([0, 1], [])
    assert [str(loss) for loss in checks[1].found.losses] == ["queue 'q' in vhost 'b' has lost 1 of 3 messages"]
    saved = tmp_path / "saved"
    assert messages_of(data, saved) == {"1": 3, "2": 2}
    checks, damaged = check_node(saved)
    assert ([each.found.damaged for each in checks], damaged) == ([[], []], [])
    assert placed_in(saved) == placed_in(data)


def test_shard_whose_store_is_gone_is_damage_and_the_others_are_saved(data: Path, tmp_path: Path) -> None:
    (data / "shards" / "2" / FILE).unlink()
    checks, _ = check_node(data)
    (lost,) = checks[1].found.damaged
    assert (lost.what, lost.why) == ("shard '2'", f"its data directory '{data / 'shards' / '2'}' has no store")
    assert messages_of(data, tmp_path / "saved") == {"1": 3, "2": 0}


def test_vhost_in_a_shard_that_is_none_of_the_node_is_damage(data: Path) -> None:
    with sqlite3.connect(data / "cluster" / CATALOGUE) as catalogue:
        catalogue.execute("UPDATE vhosts SET shard = '9' WHERE name = 'b'")
    catalogue.close()
    _, (found,) = check_node(data)
    assert found.what == "vhost 'b' of the catalogue"
    assert found.why.startswith("it is in shard '9', and there is none; restore ")


def test_node_that_runs_is_not_checked_and_not_repaired(data: Path, tmp_path: Path) -> None:
    holder = DataDirectory(data / "cluster")
    holder.lock()
    for action in (lambda: check_node(data), lambda: repair_node(data, tmp_path / "saved")):
        with pytest.raises(StartError, match="is in use by another broker"):
            action()
    holder.unlock()
    assert not (tmp_path / "saved").exists()


def test_damaged_catalogue_stops_check_and_repair(data: Path, tmp_path: Path) -> None:
    path = data / "cluster" / CATALOGUE
    path.write_bytes(path.read_bytes()[:-4096])
    for action in (lambda: check_node(data), lambda: repair_node(data, tmp_path / "saved")):
        with pytest.raises(StoreError, match="restore the file from a backup of the data directory"):
            action()
    assert not (tmp_path / "saved").exists()
