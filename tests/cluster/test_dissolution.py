"""Node with one shard that becomes a broker again: the store gets what the catalogue has, and the catalogue goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import penstock
from penstock.access.password_hash import file_password
from penstock.access.permission import Permission
from penstock.cluster.adoption import FOLDER, prepare
from penstock.cluster.catalogue import Catalogue
from penstock.cluster.dissolution import dissolve
from penstock.core.settings.table import Parameter
from penstock.driver.driver import BrokerDriver
from penstock.errors import StartError
from penstock.operations.parameters import put_parameter
from penstock.operations.vhosts import declare_vhost
from penstock.server.node import whole_machine
from penstock.server.shard import Shard
from penstock.settings.config import Settings
from penstock.store.directory import DataDirectory
from penstock.store.node_folder import CATALOGUE
from tests.support.catalogue_node import started, stopped


def change(driver: BrokerDriver) -> None:
    """Change users, virtual hosts and global parameters, as an administrator of a node does."""
    access = driver.broker.access
    access.put_user("alice", file_password("secret"), ["administrator"])
    access.delete_user("guest")
    declare_vhost(driver, "west")
    access.set_permission("alice", "west", Permission("^a", ".*", ".*"))
    put_parameter(driver, Parameter("", "", "cluster_name", "rabbits"))


@pytest.fixture
async def node(tmp_path: Path) -> Path:
    """Data directory of a node with one shard, killed before the shard had a change of its catalogue."""
    async with penstock.Broker("127.0.0.1:0", data=tmp_path, http="off"):
        pass
    directory = DataDirectory(tmp_path / FOLDER)
    directory.lock()
    prepare(tmp_path, 1, ["/"])
    directory.unlock()
    office = Shard("node", Settings(vhosts=[]), None, whole_machine(), store=Catalogue(tmp_path / FOLDER, print))
    await started(office)
    office.driver.begin(office.event_loop.loop.time())
    change(office.driver)
    office.event_loop.schedule()
    await stopped(office)
    return tmp_path


async def test_broker_has_all_that_the_catalogue_had(node: Path) -> None:
    await dissolve(node)
    assert not (node / FOLDER / CATALOGUE).exists()
    async with penstock.Broker("127.0.0.1:0", data=node, http="off") as broker:
        driver = broker.driver
        assert driver.broker.access.names() == ["alice"]
        assert set(driver.broker.vhosts) == {"/", "west"}
        user = driver.broker.access.find_stored("alice")
        assert user is not None
        assert user.permissions["west"].texts() == ("^a", ".*", ".*")
        assert driver.broker.table.parameters.cluster_name("none") == "rabbits"


async def test_dissolution_of_a_broker_does_nothing(tmp_path: Path) -> None:
    await dissolve(tmp_path)
    assert os.listdir(tmp_path) == []


async def test_node_that_runs_is_not_dissolved(node: Path) -> None:
    directory = DataDirectory(node / FOLDER)
    directory.lock()
    with pytest.raises(StartError, match="is in use by another broker"):
        await dissolve(node)
    directory.unlock()
    assert (node / FOLDER / CATALOGUE).exists()


async def test_dissolution_that_fails_leaves_the_catalogue(node: Path) -> None:
    directory = DataDirectory(node)
    directory.lock()
    with pytest.raises(StartError, match="is in use by another broker"):
        await dissolve(node)
    directory.unlock()
    assert (node / FOLDER / CATALOGUE).exists()
    await dissolve(node)
    assert not (node / FOLDER / CATALOGUE).exists()
