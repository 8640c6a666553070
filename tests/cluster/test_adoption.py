"""Catalogues of data directories: new ones, those of brokers, and nodes that get more shards."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
from penstock.access.password_hash import file_password
from penstock.cluster.adoption import FOLDER, prepare
from penstock.cluster.catalogue import BEGIN, FILE, CatalogueReader
from penstock.core.settings.table import Parameter
from penstock.errors import StartError, StoreError
from penstock.operations.parameters import put_parameter
from penstock.operations.vhosts import declare_vhost
from penstock.store.directory import DataDirectory


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / FOLDER).mkdir()
    return tmp_path


def shards_of(data: Path) -> list[str]:
    reader = CatalogueReader(data / FOLDER)
    names = [row.name for row in reader.shards()]
    reader.close()
    return names


def vhosts_of(data: Path) -> dict[str, str]:
    reader = CatalogueReader(data / FOLDER)
    found = reader.vhosts()
    reader.close()
    return found


async def fill(data: Path) -> None:
    """Let a broker have users, a virtual host, parameters and a queue in a data directory."""
    async with penstock.Broker("127.0.0.1:0", data=data, http="off") as broker:
        driver, event_loop = broker.driver, broker.shard.event_loop
        driver.begin(event_loop.loop.time())
        before = int(driver.broker.durable_changes.durable_declarations)
        driver.broker.access.put_user("alice", file_password("secret"), ["administrator"])
        declare_vhost(driver, "old")
        put_parameter(driver, Parameter("", "", "cluster_name", "north"))
        put_parameter(driver, Parameter("federation", "/", "local", "x"))
        event_loop.schedule()
        await event_loop.on_disk(before)


def test_new_node_has_its_first_vhost_in_its_first_shard(data: Path) -> None:
    prepare(data, 3, ["/"])
    assert shards_of(data) == ["1", "2", "3"]
    assert vhosts_of(data) == {"/": "1"}


def test_vhosts_of_the_settings_are_spread_over_the_shards_of_a_new_node(data: Path) -> None:
    prepare(data, 2, ["/", "west", "east"])
    assert vhosts_of(data) == {"/": "1", "west": "2", "east": "1"}


def test_node_gets_more_shards_and_never_fewer(data: Path) -> None:
    for wanted, present in ((2, 2), (1, 2), (4, 4)):
        prepare(data, wanted, ["/"])
        assert len(shards_of(data)) == present
    assert vhosts_of(data) == {"/": "1"}


def test_vhosts_of_the_settings_are_spread_over_the_shards_that_are_there(data: Path) -> None:
    prepare(data, 2, ["/"])
    prepare(data, 2, ["/", "west", "east"])
    assert vhosts_of(data) == {"/": "1", "west": "2", "east": "1"}


async def test_catalogue_has_what_a_node_owns_of_a_brokers_store(data: Path) -> None:
    await fill(data)
    prepare(data, 2, ["/"])
    reader = CatalogueReader(data / FOLDER)
    keys = {(row.kind, row.key) for row in reader.rows_after(BEGIN, 100)}
    reader.close()
    assert {("user", "alice"), ("user", "guest"), ("parameter", "//cluster_name")} <= keys
    assert ("parameter", "federation/%2F/local") not in keys
    assert vhosts_of(data)["old"] == "1"
    before = CatalogueReader(data / FOLDER)
    version = before.version()
    prepare(data, 2, ["/"])
    assert before.version() == version
    before.close()


async def test_store_that_a_broker_uses_is_not_adopted(data: Path) -> None:
    await fill(data)
    holder = DataDirectory(data)
    holder.lock()
    with pytest.raises(StartError, match="is in use by another broker"):
        prepare(data, 2, ["/"])
    holder.unlock()
    prepare(data, 2, ["/"])  # Nothing was half made.
    assert vhosts_of(data)["old"] == "1"


def test_node_without_its_catalogue_is_not_made_anew(data: Path) -> None:
    prepare(data, 1, ["/"])
    (data / "shards" / "2").mkdir(parents=True)
    prepare(data, 2, ["/"])
    (data / FOLDER / FILE).unlink()
    with pytest.raises(StoreError, match=r"has shards \(2\) and no catalogue 'cluster/catalogue.sqlite'"):
        prepare(data, 2, ["/"])
