"""Users, permissions and limits in shards: they follow the catalogue, and who may not be there any more is cut off."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

import penstock
from penstock.access.access_table import AccessTable
from penstock.access.password_hash import file_password
from penstock.access.permission import Permission, TopicPermission
from penstock.client.errors import ClientError, LoginRefused
from penstock.cluster.access_pages import ROWS_MOST
from penstock.persistence.metadata_records import pack
from penstock.server.listener import Listener
from penstock.server.logins import Logins
from penstock.settings.config import Settings
from tests.support.catalogue_node import CatalogueNode, CopyingShard

Pair = tuple[CatalogueNode, CopyingShard]


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """A node, and a shard that has its users."""
    node = CatalogueNode(tmp_path / "cluster")
    await node.start()
    await changed(node, add_admin)
    shard = CopyingShard(node, tmp_path / "shard")
    await shard.start()
    yield node, shard
    await shard.stop()
    await node.stop()


async def changed(node: CatalogueNode, action: Callable[[AccessTable], object]) -> None:
    """Change the table of the node."""
    await node.change(lambda driver: action(driver.broker.access))


def add_admin(table: AccessTable) -> None:
    """Add an administrator, so that others may be deleted."""
    table.put_user("admin", file_password("secret"), ["administrator"])


def add_alice(table: AccessTable) -> None:
    table.put_user("alice", file_password("secret"), ["management"])
    table.set_permission("alice", "/", Permission(".*", ".*", ".*"))


def table_of(shard: CopyingShard) -> AccessTable:
    return shard.shard.driver.broker.access


def rows_of(table: AccessTable) -> dict[str, object]:
    """Return all that a table has of the store, in a form that can be compared."""
    users = {
        user.name: (
            sorted(user.tags),
            None if user.password_hash is None else user.password_hash.digest,
            {vhost: (each.configure, each.write, each.read) for vhost, each in user.permissions.items()},
            {
                (vhost, exchange): (each.write, each.read)
                for vhost, topics in user.topic_permissions.items()
                for exchange, each in topics.items()
            },
            dict(user.limits),
        )
        for user in table.stored()
    }
    return {**users, "limits of vhosts": {vhost: dict(limits) for vhost, limits in table.vhost_limits.items()}}


async def test_users_permissions_and_limits_follow_the_node(pair: Pair) -> None:
    node, shard = pair

    def fill(table: AccessTable) -> None:
        add_alice(table)
        table.set_topic_permission("alice", "/", "amq.topic", TopicPermission("a.*", "b.*"))
        table.set_user_limits("alice", {"max-connections": 3})
        table.set_vhost_limits("/", {"max-queues": 7})

    await changed(node, fill)
    await shard.follow()
    assert rows_of(table_of(shard)) == rows_of(node.broker.driver.broker.access)
    assert rows_of(table_of(shard))["alice"] is not None

    def change(table: AccessTable) -> None:
        table.set_password("alice", file_password("other"))
        table.set_tags("alice", [])
        table.clear_topic_permissions("alice", "/")
        table.set_vhost_limits("/", {"max-queues": -1})

    await changed(node, change)
    await shard.follow()
    assert rows_of(table_of(shard)) == rows_of(node.broker.driver.broker.access)
    await changed(node, lambda table: table.clear_permission("alice", "/"))
    await shard.follow()
    assert not table_of(shard).may_enter("alice", "/")
    await changed(node, lambda table: table.delete_user("alice"))
    await shard.follow()
    assert sorted(table_of(shard).names()) == ["admin", "guest"]


async def test_permission_whose_user_changed_later_arrives(tmp_path: Path) -> None:
    node = CatalogueNode(tmp_path / "cluster")
    await node.start()
    await changed(node, add_admin)
    await changed(node, add_alice)
    await changed(node, lambda table: table.set_tags("alice", ["monitoring"]))  # Its row is behind its permission.
    shard = CopyingShard(node, tmp_path / "shard")
    await shard.start()
    assert table_of(shard).may_enter("alice", "/")
    await shard.stop()
    await node.stop()


async def test_users_of_another_time_leave_a_shard_that_starts(pair: Pair, tmp_path: Path) -> None:
    node, shard = pair
    await changed(node, add_alice)
    await shard.follow()
    await shard.stop()
    await changed(node, lambda table: table.delete_user("alice"))
    stray = CopyingShard(node, tmp_path / "shard")
    await stray.start()
    assert sorted(table_of(stray).names()) == ["admin", "guest"]
    table_of(stray).put_user("mallory", None, ["administrator"])  # As if an older store had been put back.
    table_of(stray).set_permission("admin", "/", Permission("x", "x", "x"))
    table_of(stray).set_vhost_limits("/", {"max-queues": 1})
    await stray.stop()
    again = CopyingShard(node, tmp_path / "shard")
    await again.start()
    assert rows_of(table_of(again)) == rows_of(node.broker.driver.broker.access)
    await again.stop()


async def test_store_of_a_shard_has_the_users_for_a_broker_without_a_node(pair: Pair, tmp_path: Path) -> None:
    node, shard = pair
    await changed(node, add_alice)
    await shard.follow()
    expected = rows_of(table_of(shard))
    await shard.stop()
    async with penstock.Broker("127.0.0.1:0", data=tmp_path / "shard", http="off") as alone:
        assert rows_of(alone.driver.broker.access) == expected


async def test_many_users_come_in_pages(pair: Pair) -> None:
    node, shard = pair

    def fill(table: AccessTable) -> None:
        for number in range(2 * ROWS_MOST):
            table.put_user(f"user{number}", None, ["x" * 200])

    before = shard.pages
    await changed(node, fill)
    await shard.follow()
    assert len(table_of(shard).names()) == 2 * ROWS_MOST + 2
    assert shard.pages - before > 2
    after = shard.pages
    await shard.follow()
    assert shard.pages == after  # Nothing has changed, so nothing is asked for.


async def test_lost_request_is_made_good_by_the_next_question(pair: Pair) -> None:
    node, shard = pair
    await changed(node, add_alice)
    shard.is_deaf = True
    shard.question()
    shard.is_deaf = False
    assert table_of(shard).find("alice") is None
    await shard.follow()
    assert table_of(shard).find("alice") is not None


async def test_page_that_comes_twice_is_applied_once(pair: Pair) -> None:
    node, shard = pair
    await changed(node, add_alice)
    shard.question()
    shard.question()
    await shard.follow()
    await changed(node, lambda table: table.delete_user("alice"))
    await shard.follow()
    assert sorted(table_of(shard).names()) == ["admin", "guest"]


async def test_connection_is_cut_off_when_its_permission_ends(pair: Pair) -> None:
    node, shard = pair
    await changed(node, add_alice)
    await shard.follow()
    logins = Logins(Settings(), shard.shard.driver)
    logins.start(shard.shard.event_loop)
    listener = Listener(shard.shard.driver, shard.shard.event_loop.loop, shard.shard.take)
    ((host, port),) = await listener.start("127.0.0.1", 0, "listen")
    connecting = partial(penstock.connect, reconnect=False)
    with pytest.raises(LoginRefused):
        async with connecting(f"amqp://admin:secret@{host}:{port}/"):
            pass
    connection = connecting(f"amqp://alice:secret@{host}:{port}/")
    async with connection:
        await connection.declare_queue("q")
        await changed(node, lambda table: table.clear_permission("alice", "/"))
        await shard.follow()
        with pytest.raises(ClientError, match="user 'alice' may not use vhost '/' any more: permissions have changed"):
            await connection.declare_queue("r")
    listener.close()
    logins.stop()


async def test_vhost_that_is_declared_during_its_deletion_is_there_afterwards(pair: Pair) -> None:
    _, shard = pair
    pull, driver = shard.pull, shard.shard.driver
    record = base64.b64encode(pack({"name": "west", "metadata": {"description": "new"}})).decode()

    def apply(version: int, value: str | None) -> None:
        """Apply a page with one row of the virtual host."""
        place = list(pull._copy.place)
        rows = [[version, "vhost", "west", value]]
        pull.apply({"after": place, "rows": rows, "place": place, "last": True, "version": pull.version})

    apply(1_000, record)
    for number in range(2_000):
        driver.broker.vhosts["west"].declare_queue(f"q{number}", {}, False, False, None, None)
    apply(1_001, None)
    driver.run_turn()
    assert driver.broker.vhosts["west"].deleting
    apply(1_002, record)
    while driver.run_turn():
        pass
    west = driver.broker.vhosts["west"]
    assert (west.deleting, len(west.queues), west.metadata) == (False, 0, {"description": "new"})
