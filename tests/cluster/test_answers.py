"""Answers of a node with two shards: what a client in one virtual host learns of the other, and changes there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.exceptions import ProbableAccessDeniedError

from penstock.access.password_hash import rabbitmq_hash
from penstock.client.errors import ControlError
from penstock.cluster.asking import Peer
from penstock.errors import ResourceError
from penstock.server.asker import Asker
from penstock.server.inside import Ask
from penstock.sync import connect
from tests.cluster.test_parent import Node, depth, put
from tests.support.brokers import eventually
from tests.support.commands import penstock_command
from tests.support.two_shards import HANGING, VHOSTS, client, named, two_shards


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with two_shards(tmp_path) as found:
        yield found


# What a client learns


def test_lists_and_overviews_are_of_all_shards_from_each_vhost(node: Node) -> None:
    for number, vhost in enumerate(VHOSTS):
        with node.pika(vhost, "alice", "secret") as connection:
            put(connection, "orders", 2 + number)
    for vhost in VHOSTS:
        with client(node, vhost) as asking:
            every = asking.request("list", kind="queues", everywhere=True, columns=["name", "vhost", "messages"])
            assert named(every["items"]) == [("/", "orders"), ("west", "orders")]
            own = asking.request("list", kind="queues", columns=["name", "vhost"])
            assert named(own["items"]) == [(vhost, "orders")]
            assert asking.request("top", everywhere=True)["sums"]["messages"] == 5
            assert asking.request("why")["sentences"] == ["no producer is blocked"]
            assert asking.request("status")["queue_count"] == 1  # The queue for answers is not counted.
            assert len(asking.request("watch", after=0)["next"]) == 2
            assert [row["name"] for row in asking.request("list", kind="vhosts")["items"]] == ["/", "west"]
            assert [user["name"] for user in asking.request("user.list")["users"]] == ["alice", "guest"]
            assert asking.request("health")["status"] == "ok"
            file = asking.request("definitions.export", everywhere=True, section="queues", after=0)
            assert named(file["items"]) == [(vhost, "orders")] or file["next"] == [1, 0]


def test_list_in_pages_goes_through_all_shards(node: Node) -> None:
    for vhost in VHOSTS:
        with node.pika(vhost, "alice", "secret") as connection:
            for number in range(30):
                connection.channel().queue_declare(f"q{number:02}", durable=True)
    found: list[tuple[str, str]] = []
    with client(node) as asking:
        after: object = 0
        while after is not None:
            page = asking.request("list", kind="queues", everywhere=True, columns=["name", "vhost"], count=7,
                                  after=after)  # fmt: skip
            assert len(page["items"]) <= 7
            found += named(page["items"])
            after = page["next"]
        numbered = asking.request("list", kind="queues", everywhere=True, columns=["name", "vhost"], page=5,
                                  page_size=13, sort=["name"])  # fmt: skip
    assert sorted(found) == sorted((vhost, f"q{number:02}") for vhost in VHOSTS for number in range(30))
    assert numbered["page_count"] == 5
    assert named(numbered["items"])[-1] == ("west", "q29")


def test_connection_is_shown_and_closed_by_name_from_another_shard(node: Node) -> None:
    other = connect(node.url("west", "alice", "secret"), name="far", reconnect=False)
    with client(node) as asking:
        rows = asking.request("list", kind="connections", everywhere=True)["items"]
        assert [(row["vhost"], row["user_provided_name"]) for row in rows] == [("west", "far")]
        assert asking.request("why", connection="far")["sentences"]
        with pytest.raises(ControlError, match="no connection 'nobody'"):
            asking.request("connection.close", connection="nobody")
        assert asking.request("connection.close", connection="far")["closed"].startswith("far")
        eventually(lambda: not asking.request("list", kind="connections", everywhere=True)["items"], "no connection")
    other.close()


def test_client_is_not_listed_as_the_one_that_asks(node: Node) -> None:
    with client(node) as asking:
        assert asking.request("list", kind="connections", everywhere=True)["items"] == []
        with pytest.raises(ControlError, match="user 'alice' has no connection besides the one that asks"):
            asking.request("why", user="alice")


# Changes


def test_user_and_permission_count_at_once_in_each_shard(node: Node) -> None:
    with client(node, "west") as asking:
        hashed = rabbitmq_hash("secret-of-bob", b"salt").text()
        asking.request("user.declare", name="bob", password_hash=hashed, tags=["management"])
        for vhost in VHOSTS:
            with pytest.raises(ProbableAccessDeniedError, match="530"):
                node.pika(vhost, "bob", "secret-of-bob")
            asking.request("permission.set", vhost=vhost, user="bob", configure=".*", write=".*", read=".*")
            with node.pika(vhost, "bob", "secret-of-bob") as connection:
                put(connection, "q", 1)
        with connect(node.url("/", "bob", "secret-of-bob"), reconnect=False) as bob:
            with pytest.raises(ControlError, match="needs the tag administrator, which user 'bob' does not have"):
                bob.request("user.delete", name="alice")
            assert named(bob.request("list", kind="queues", everywhere=True)["items"]) == [("/", "q"), ("west", "q")]
        asking.request("user.delete", name="bob")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        node.pika("/", "bob", "secret-of-bob")


def test_vhost_is_served_once_its_declaration_is_answered(node: Node) -> None:
    with client(node) as asking:
        for number in range(6):
            assert asking.request("vhost.declare", name=f"new{number}") == {"created": True}
            with node.pika(f"new{number}", "alice", "secret") as connection:
                put(connection, "q", 1)
        assert asking.request("vhost.declare", name="new0") == {"created": False}
    assert {node.do(look=True)["vhosts"][f"new{number}"] for number in range(6)} == {"1", "2"}


def test_vhost_that_is_deleted_leaves_its_shard_and_may_be_declared_again(node: Node) -> None:
    with node.pika("west", "alice", "secret") as connection:
        put(connection, "orders", 3)
    with client(node) as asking:
        with client(node, "west") as inside, pytest.raises(ControlError, match="cannot be deleted from inside"):
            inside.request("vhost.delete", name="west")
        asking.request("vhost.protect", name="west", protected=True)
        with pytest.raises(ControlError, match="vhost 'west' is protected from deletion"):
            asking.request("vhost.delete", name="west")
        asking.request("vhost.protect", name="west", protected=False)
        assert asking.request("vhost.delete", name="west") == {}
        with pytest.raises(ControlError, match="no vhost 'west'"):
            asking.request("vhost.delete", name="west")
        with pytest.raises(ProbableAccessDeniedError, match="530"):
            node.pika("west", "alice", "secret")
        asking.request("vhost.declare", name="west")
        with node.pika("west", "alice", "secret") as again, pytest.raises(pika.exceptions.ChannelClosedByBroker):
            depth(again, "orders")


def test_deletion_of_a_vhost_goes_on_as_a_job_of_its_shard(node: Node) -> None:
    with client(node) as asking:
        job = asking.request("vhost.delete", name="west", detach=True)
        assert (job["kind"], job["vhost"], job["id"] % 1000) == ("vhost.delete", "west", 2)
        assert asking.request("job.show", id=job["id"])["vhost"] == "west"
        assert [each["id"] for each in asking.request("job.list")["jobs"]] == [job["id"]]
        eventually(lambda: "west" not in node.do(look=True)["vhosts"], "a catalogue without the virtual host")
        with pytest.raises(ControlError, match="is done already: there is nothing to cancel"):
            asking.request("job.cancel", id=job["id"])
        with pytest.raises(ControlError, match="no job 77"):
            asking.request("job.show", id=77)


def test_settings_for_all_reach_each_shard(node: Node) -> None:
    for vhost in VHOSTS:
        with node.pika(vhost, "alice", "secret") as connection:
            put(connection, "orders", 1)
    with client(node, "west") as asking:
        made = asking.request("settings.set", scope="queue", pattern="orders", settings={"capacity-messages": 5},
                              everywhere=True)  # fmt: skip
        assert made["matches"] == 2
        for vhost in VHOSTS:
            with client(node, vhost) as there:
                shown = there.request("show", queue="orders")
                assert '"capacity-messages"' in json.dumps(shown)
        asking.request("settings.set", scope="queue", pattern="mine", settings={"capacity-messages": 6})
        assert len(asking.request("settings.list", everywhere=True)["settings"]) == 2


def test_control_exchange_answers_over_both_protocols(node: Node) -> None:
    for protocol in ("amqp091", "amqp10"):
        with connect(node.url("west", "alice", "secret"), protocol=protocol, reconnect=False) as asking:
            asking.request("vhost.declare", name=protocol)
            rows = asking.request("list", kind="vhosts")["items"]
            assert protocol in [row["name"] for row in rows]
            with pytest.raises(ControlError, match="no user 'nobody'"):
                asking.request("user.delete", name="nobody")


def test_name_of_the_cluster_is_shown_by_each_shard(node: Node) -> None:
    for name in ("south-east", "north"):
        asyncio.run(asked(node, "PUT /cluster-name", "", name=name))
        assert asyncio.run(asked(node, "GET /overview", ""))["cluster_name"] == name
        with node.pika("west", "alice", "secret") as connection:
            assert connection._impl.server_properties["cluster_name"] == name


# Shards that do not answer


def test_hanging_shard_is_named_and_delays_nobody_for_long(tmp_path: Path) -> None:
    with two_shards(tmp_path, **HANGING) as node:
        with node.pika("west", "alice", "secret") as connection:
            put(connection, "orders", 1)
        with client(node) as asking:
            os.kill(node.state("2")["pid"], signal.SIGSTOP)
            try:
                answer = asking.request("list", kind="queues", everywhere=True)
                assert answer["penstock.missing"] == [{"shard": "2", "reason": "it has not answered for 4 s"}]
                asking.request("user.declare", name="bob", password_hash="")  # The other shard has it.
                with pytest.raises(ControlError, match="no vhost 'nowhere'"):
                    asking.request("vhost.delete", name="nowhere")
                with pytest.raises(ResourceError, match="shard '2' has not answered: it has not answered for 4 s"):
                    asyncio.run(asked(node, "GET /queues/{vhost}/{name}", "west", vhost="west", name="orders"))
            finally:
                os.kill(node.state("2")["pid"], signal.SIGCONT)
            eventually(lambda: "penstock.missing" not in asking.request("top", everywhere=True), "an answer of both")


async def asked(node: Node, operation: str, where: str, **fields: object) -> Any:
    """Ask the node as a process of its own."""
    peer = Peer(node.inside["name"], node.inside["secret"])
    try:
        return await peer.ask(Ask(operation, fields, where), Asker(user="alice"), silence_s=60.0)
    finally:
        peer.close()


def test_shard_without_a_process_is_named_with_its_state(tmp_path: Path) -> None:
    with two_shards(tmp_path, pauses_s=[]) as node:
        os.kill(node.await_state("2", "serving")["pid"], signal.SIGKILL)
        node.await_state("2", "stopped")
        with client(node) as asking:
            (missing,) = asking.request("top", everywhere=True)["penstock.missing"]
            assert missing["shard"] == "2"
            assert missing["reason"].startswith("shard '2' is stopped: it died once")
            with pytest.raises(ControlError, match="shard '2' is stopped"):
                asking.request("vhost.delete", name="west")
        done = penstock_command("top", "--once", "--everywhere", "--url", node.url("/", "alice", "secret"))
        assert done.returncode == 0
        assert done.stderr.startswith("penstock: shard '2' is stopped: it died once")
        with pytest.raises(ResourceError, match="shard '2' is stopped"):
            asyncio.run(asked(node, "GET /queues", "west", vhost="west", whole=True))


# The audit log


def changes_in(folder: Path, operation: str) -> list[dict[str, Any]]:
    """Return the records of an operation in all audit logs of a node."""
    texts = [file.read_text() for file in folder.rglob("audit-log*/**/*") if file.is_file()]
    records = [json.loads(line) for text in texts for line in text.splitlines()]
    return [record for record in records if record.get("operation") == operation]


def test_change_for_all_is_one_record_with_the_user_and_the_address(tmp_path: Path) -> None:
    with two_shards(tmp_path) as node:
        with client(node, "west") as asking, client(node) as other:
            asking.request("user.declare", name="bob", password_hash="")
            asking.request("settings.set", scope="queue", pattern="x", settings={"capacity-messages": 5},
                           everywhere=True)  # fmt: skip
            asking.request("vhost.declare", name="south")
            asking.request("vhost.delete", name="south")
            other.request("user.tags", name="bob", tags=["monitoring"])
        node.end_input()
        node.await_row(stopped=True)
    for operation, subject in (("user.declare", "bob"), ("settings.set", "queue x"), ("vhost.declare", "south"),
                               ("vhost.delete", "south")):  # fmt: skip
        (record,) = changes_in(tmp_path, operation)
        assert (record["user"], record["subject"], record["vhost"]) == ("alice", subject, "west")
        assert record["address"].startswith("127.0.0.1:")
    (record,) = changes_in(tmp_path, "user.tags")
    assert record["vhost"] == "/"


def test_refusal_is_one_record(tmp_path: Path) -> None:
    with two_shards(tmp_path) as node:
        with client(node) as asking:
            hashed = rabbitmq_hash("secret-of-bob", b"salt").text()
            asking.request("user.declare", name="bob", password_hash=hashed, tags=["management"])
            asking.request("permission.set", vhost="/", user="bob", configure=".*", write=".*", read=".*")
        with connect(node.url("/", "bob", "secret-of-bob"), reconnect=False) as bob:
            for _ in range(2):
                with pytest.raises(ControlError, match="needs the tag administrator"):
                    bob.request("vhost.declare", name="x")
        node.end_input()
        node.await_row(stopped=True)
    assert sum(record.get("count", 1) for record in changes_in(tmp_path, "vhost.declare")) == 2
