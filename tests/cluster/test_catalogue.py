"""Catalogue: the file, its versions, and what of a node's broker becomes a row."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from penstock.access.password_hash import PasswordHash, file_password
from penstock.access.permission import Permission
from penstock.cluster.catalogue import BEGIN, FILE, Catalogue, CatalogueReader, ShardRow, shards_in
from penstock.core.settings.table import Parameter
from penstock.driver.driver import BrokerDriver
from penstock.errors import StoreError
from penstock.operations.parameters import put_parameter
from penstock.operations.vhosts import declare_vhost, delete_vhost
from penstock.persistence.metadata_records import unpack
from penstock.settings.start import SHARDS_MOST
from penstock.store.records import MessageRow, MetadataRecord, StoreTransaction
from tests.support.catalogue_node import CatalogueNode

HASH: PasswordHash | None = file_password("secret")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[CatalogueNode]:
    found = CatalogueNode(tmp_path / "cluster")
    await found.start()
    yield found
    await found.stop()


def catalogue_in(folder: Path) -> Catalogue:
    return Catalogue(folder, lambda version: None)


def opened(folder: Path) -> Catalogue:
    catalogue = catalogue_in(folder)
    catalogue.open()
    return catalogue


def made(folder: Path) -> Path:
    """Make a catalogue and close it; return its file."""
    opened(folder).close()
    return folder / FILE


def refusal(folder: Path) -> str:
    with pytest.raises(StoreError) as raised:
        opened(folder)
    return str(raised.value)


def test_new_catalogue_has_version_0_and_no_shard(tmp_path: Path) -> None:
    made(tmp_path)
    reader = CatalogueReader(tmp_path)
    assert (reader.version(), reader.shards(), reader.vhosts(), reader.rows_after(BEGIN, 10)) == (0, [], {}, [])
    reader.close()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_shards_keep_their_order_and_their_names_are_unique(tmp_path: Path) -> None:
    catalogue = opened(tmp_path)
    for name in ("west", "1", "east"):
        catalogue.add_shard(ShardRow(name, "postgresql://db/west" if name == "west" else ""))
    with pytest.raises(StoreError, match="there is a shard 'east' already"):
        catalogue.add_shard(ShardRow("east", ""))
    catalogue.close()
    reader = CatalogueReader(tmp_path)
    assert reader.shards() == [ShardRow("west", "postgresql://db/west"), ShardRow("1", ""), ShardRow("east", "")]
    assert reader.version() == 3
    reader.close()


def test_shard_is_added_with_its_records_or_not_at_all(tmp_path: Path) -> None:
    catalogue = opened(tmp_path)
    with pytest.raises(StoreError, match="stores no queue"):
        catalogue.add_shard(ShardRow("1", ""), [vhost_record("a"), MetadataRecord("queue", "%2F/q", b"")])
    assert shards_in(catalogue.connection) == []
    catalogue.add_shard(ShardRow("1", ""), [vhost_record("a")])
    assert [record.key for record in catalogue.metadata()] == ["a"]
    catalogue.close()


def test_shards_above_the_bound_are_refused(tmp_path: Path) -> None:
    catalogue = opened(tmp_path)
    for number in range(SHARDS_MOST):
        catalogue.add_shard(ShardRow(str(number), ""))
    with pytest.raises(StoreError, match="there are 100 shards, the most that a node may have"):
        catalogue.add_shard(ShardRow("more", ""))
    catalogue.close()


async def test_users_permissions_and_vhosts_are_there_after_a_restart(node: CatalogueNode) -> None:
    def fill(driver: BrokerDriver) -> None:
        declare_vhost(driver, "tenants/é")
        driver.broker.access.put_user("alice", HASH, ["management"])
        driver.broker.access.set_permission("alice", "tenants/é", Permission("a", "b", "c"))
        driver.broker.access.set_vhost_limits("tenants/é", {"max-queues": 5})
        put_parameter(driver, Parameter("", "", "cluster_name", "north"))

    await node.change(fill)
    await node.stop()
    again = CatalogueNode(node.folder)
    await again.start()
    broker = again.broker.driver.broker
    alice = broker.access.user("alice")
    assert alice.tags == ["management"]
    assert alice.permissions["tenants/é"].configure == "a"
    assert broker.access.vhost_limit("tenants/é", "max-queues") == 5
    assert "tenants/é" in broker.vhosts
    parameter = broker.table.parameters.get("", "", "cluster_name")
    assert parameter is not None
    assert parameter.value == "north"
    reader = again.reader()
    assert reader.vhosts() == {"tenants/é": "1"}
    reader.close()
    await again.stop()
    await node.start()


async def test_change_has_the_next_version_and_rows_keep_that_of_their_last(node: CatalogueNode) -> None:
    first = await version_after(node, lambda driver: driver.broker.access.put_user("alice", HASH, []))
    second = await version_after(node, lambda driver: driver.broker.access.put_user("bob", HASH, []))
    third = await version_after(node, lambda driver: driver.broker.access.delete_user("alice"))
    assert first < second < third == node.versions[-1]
    reader = node.reader()
    rows = {row.key: row for row in reader.rows_after(BEGIN, 10)}
    assert rows["bob"].version == second
    assert (rows["alice"].version, rows["alice"].value) == (third, None)
    assert [row.key for row in reader.rows_after((second, "user", "bob"), 10)] == ["alice"]
    assert len(reader.rows_after(BEGIN, 2)) == 2
    reader.close()


async def version_after(node: CatalogueNode, action: Callable[[BrokerDriver], object]) -> int:
    await node.change(action)
    reader = node.reader()
    version = reader.version()
    reader.close()
    return version


async def test_deleted_vhost_leaves_the_catalogue(node: CatalogueNode) -> None:
    await node.change(lambda driver: declare_vhost(driver, "west"))
    await node.change(lambda driver: delete_vhost(driver, "west"))
    reader = node.reader()
    assert reader.vhosts() == {}
    reader.close()


def vhost_record(name: str, deleted: bool = False) -> MetadataRecord:
    data = b'\x01{"name":"%s","metadata":{}}' % name.encode()
    return MetadataRecord("vhost", name, None if deleted else data)


def test_vhosts_go_to_the_emptiest_shard_and_stay_there(tmp_path: Path) -> None:
    catalogue = opened(tmp_path)
    for name in ("1", "2", "3"):
        catalogue.add_shard(ShardRow(name, ""))
    for name in ("a", "b", "c", "d", "a"):
        commit = StoreTransaction()
        commit.metadata = [vhost_record(name)]
        catalogue.commit(commit)
    commit = StoreTransaction()
    commit.metadata = [vhost_record("b", deleted=True)]
    catalogue.commit(commit)
    commit.metadata = [vhost_record("e")]
    catalogue.commit(commit)
    catalogue.close()
    reader = CatalogueReader(tmp_path)
    assert reader.vhosts() == {"a": "1", "c": "3", "d": "1", "e": "2"}
    rows = [(row.kind, row.key, row.value is None) for row in reader.rows_after(BEGIN, 10, "2")]
    assert rows == [("vhost", "b", True), ("vhost", "e", False)]
    reader.close()


def test_vhost_without_a_shard_is_refused(tmp_path: Path) -> None:
    catalogue = opened(tmp_path)
    commit = StoreTransaction()
    commit.metadata = [vhost_record("a")]
    with pytest.raises(StoreError, match="has no shard for a virtual host"):
        catalogue.commit(commit)
    catalogue.close()


@pytest.mark.parametrize("kind", ["queue", "exchange", "policy"])
def test_definition_of_a_shard_is_refused_and_nothing_of_its_transaction_stays(tmp_path: Path, kind: str) -> None:
    catalogue = opened(tmp_path)
    commit = StoreTransaction()
    commit.metadata = [MetadataRecord("user", "alice", b"\x01{}"), MetadataRecord(kind, "%2F/orders", b"\x01{}")]
    with pytest.raises(StoreError, match=f"stores no {kind}: it belongs to a shard"):
        catalogue.commit(commit)
    assert list(catalogue.metadata()) == []
    catalogue.close()


def test_messages_are_refused(tmp_path: Path) -> None:
    catalogue = opened(tmp_path)
    commit = StoreTransaction()
    commit.rows = [MessageRow(1, b"x")]
    with pytest.raises(StoreError, match="stores no messages"):
        catalogue.commit(commit)
    catalogue.close()


def test_empty_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"")
    assert refusal(tmp_path) == (
        f"the catalogue '{tmp_path / FILE}' is empty: something has cut it off; "
        "restore the file from a backup of the data directory"
    )


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("users\n" * 100)
    assert "is not a catalogue of Penstock" in refusal(tmp_path)


def test_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("CREATE TABLE shards (name)")
    connection.close()
    assert "is a database of another program (application id 0)" in refusal(tmp_path)


def test_catalogue_of_another_version_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    file = made(tmp_path)
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    before = file.read_bytes()
    assert refusal(tmp_path) == (
        f"the catalogue '{file}' has version 7; this Penstock reads version 1, so start the Penstock that has written "
        "it"
    )
    assert file.read_bytes() == before


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_catalogue_that_is_cut_is_refused(tmp_path: Path, part: float) -> None:
    file = made(tmp_path)
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * part)])
    assert refusal(tmp_path).startswith(f"the catalogue '{file}' is damaged: its end is missing")


def test_catalogue_with_a_page_of_something_else_is_refused(tmp_path: Path) -> None:
    file = made(tmp_path)
    data = bytearray(file.read_bytes())
    data[4096:8192] = b"x" * 4096
    file.write_bytes(data)
    assert f"the catalogue '{file}'" in refusal(tmp_path)
    assert "damaged" in refusal(tmp_path)


def test_half_made_catalogue_is_made_again(tmp_path: Path) -> None:
    (tmp_path / (FILE + ".new")).write_bytes(b"SQLite format 3\x00 and no more")
    made(tmp_path)
    reader = CatalogueReader(tmp_path)
    assert reader.version() == 0
    reader.close()


def test_reader_of_a_missing_catalogue_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"cannot open the catalogue '{tmp_path / FILE}': No such file"):
        CatalogueReader(tmp_path)


async def test_stored_user_is_a_record_of_the_broker(node: CatalogueNode) -> None:
    await node.change(lambda driver: driver.broker.access.put_user("alice", HASH, ["management"]))
    reader = node.reader()
    values = {row.key: row.value for row in reader.rows_after(BEGIN, 10)}
    reader.close()
    assert values["alice"] is not None
    assert unpack(values["alice"]).names("tags") == ["management"]
