"""Requests inside a node: logins, rights, answers of each kind, changes, and what reaches the audit log."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.cluster.asking import Peer
from penstock.connections.topology import Asker as DeclaredBy
from penstock.connections.topology import declare_queue
from penstock.errors import AccessRefused, NotFound, PreconditionFailed, ResourceError
from penstock.management.operation import name_of
from penstock.operations.table import OPERATIONS
from penstock.server.asker import Asker
from penstock.server.http.asks import ROWS_AT_ONCE, answer_lines, error_row
from penstock.server.inside import Ask
from penstock.server.shard import Shard
from penstock.settings.config import Settings
from tests.support.inside_node import GUEST, peer_at, serving


def declare(shard: Shard, *names: str) -> None:
    driver = shard.driver
    driver.begin(shard.event_loop.loop.time())
    for name in names:
        declare_queue(DeclaredBy(driver.broker, driver.services), driver.broker.vhosts["/"], name, {})


async def asked(peer: Peer, operation: str, vhost: str = "/", asker: Asker = GUEST, **fields: object) -> Any:
    return await peer.ask(Ask(operation, fields, vhost), asker)


def records_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for file in sorted(folder.iterdir()) for text in file.read_text().splitlines()]


async def test_answers_of_each_kind_arrive() -> None:
    async with serving() as (shard, name), peer_at(name) as peer:
        declare(shard, *[f"q{number:03}" for number in range(3 * ROWS_AT_ONCE)])
        page = await asked(peer, "list", kind="queues", columns=["name"])
        assert [row["name"] for row in page["items"]] == [f"q{number:03}" for number in range(3 * ROWS_AT_ONCE)]
        assert page["next"] is None
        every = await asked(peer, "GET /queues", whole=True, columns=["name"])
        assert len(every) == 3 * ROWS_AT_ONCE
        part = await asked(peer, "GET /queues", whole=True, page=2, page_size=60, columns=["name"])
        assert (part["page_count"], part["items"][0]["name"]) == (3, "q060")
        overview = await asked(peer, "GET /overview", "")
        assert overview["object_totals"]["queues"] == 3 * ROWS_AT_ONCE
        file = await asked(peer, "definitions.export", whole=True, everywhere=True)
        assert len(file["queues"]) == 3 * ROWS_AT_ONCE
        assert [each["name"] for each in file["vhosts"]] == ["/"]
        assert await asked(peer, "job.list") == {"jobs": []}


async def test_change_is_made_with_the_rights_of_the_asker() -> None:
    async with serving() as (shard, name), peer_at(name) as peer:
        await asked(peer, "user.declare", name="ada", password_hash="", tags=["monitoring"])
        assert shard.driver.broker.access.find("ada") is not None
        ada = Asker(user="ada")
        with pytest.raises(AccessRefused, match="needs the tag administrator, which user 'ada' does not have"):
            await asked(peer, "user.declare", asker=ada, name="eve")
        token = Asker(user="eve", scopes=("tag:administrator",))
        await asked(peer, "user.declare", asker=token, name="bob", password_hash="")
        assert (await asked(peer, "user.list", asker=token))["users"][0]["name"] == "ada"
        with pytest.raises(NotFound, match="no user 'nobody'"):
            await asked(peer, "user.delete", name="nobody")
        with pytest.raises(PreconditionFailed, match="'name' must be a string"):
            await asked(peer, "user.declare", nam="x")
        with pytest.raises(PreconditionFailed, match=r"no operation 'user\.make'"):
            await asked(peer, "user.make")
        with pytest.raises(PreconditionFailed, match="a string contains a lone surrogate"):
            await asked(peer, "user.delete", name="\ud800")


async def test_expired_login_and_a_wrong_key_are_refused() -> None:
    async with serving() as (_, name):
        async with peer_at(name) as peer:
            with pytest.raises(AccessRefused, match="the login of user 'guest' has expired"):
                await asked(peer, "user.list", asker=Asker(user="guest", expires_at=1.0))
        async with peer_at(name, "other") as stranger:
            with pytest.raises(AccessRefused, match="a request inside a node needs the key of the node"):
                await asked(stranger, "user.list")


async def test_virtual_host_of_another_process_is_empty_here() -> None:
    async with serving() as (shard, name), peer_at(name) as peer:
        declare(shard, "q")
        assert (await asked(peer, "list", "west", kind="queues"))["items"] == []
        assert len((await asked(peer, "list", "west", kind="queues", everywhere=True))["items"]) == 1
        assert list(shard.driver.broker.vhosts) == ["/"]


async def test_audit_log_has_one_record_with_user_and_origin(tmp_path: Path) -> None:
    settings = Settings(audit_log=str(tmp_path))
    async with serving(settings=settings) as (_, name), peer_at(name) as peer:
        await asked(peer, "user.declare", name="ada", password_hash="")
        await peer.ask(Ask("user.declare", {"name": "eve", "password_hash": ""}, "/", audited=False), GUEST)
        with pytest.raises(AccessRefused):
            await asked(peer, "user.delete", asker=Asker(user="ada", address="10.0.0.1:1"), name="eve")
    records = records_in(tmp_path)
    changes = [record for record in records if record["event"] == "change"]
    assert [(each["operation"], each["subject"]) for each in changes] == [("user.declare", "ada")]
    assert {name: changes[0][name] for name in ("user", "address", "protocol", "vhost", "connection")} == {
        "user": "guest", "address": "10.0.0.9:4711", "protocol": "AMQP 0-9-1", "vhost": "/", "connection": "7",
    }  # fmt: skip
    (refused,) = [record for record in records if record["event"] == "access-refused"]
    assert (refused["user"], refused["address"]) == ("ada", "10.0.0.1:1")


async def test_job_is_answered_with_its_row_at_once() -> None:
    async with serving() as (shard, name), peer_at(name) as peer:
        shard.driver.broker.add_vhost("west")
        job: Any = await peer.ask(Ask("vhost.delete", {"name": "west"}, "/", detached=True), GUEST)
        assert (job["kind"], job["vhost"]) == ("vhost.delete", "west")
        while (await asked(peer, "job.show", id=job["id"]))["state"] != "done":
            pass
        assert "west" not in shard.driver.broker.vhosts


async def test_request_of_http_reaches_the_broker_with_the_asker() -> None:
    async with serving() as (_, name), peer_at(name) as peer:
        assert await asked(peer, "GET /vhosts", "", whole=True, columns=["name"]) == [{"name": "/"}]
        assert isinstance(await asked(peer, "GET /version", ""), str)


async def test_many_requests_share_the_connections() -> None:
    async with serving() as (_, name), peer_at(name) as peer:
        answers = await asyncio.gather(*[asked(peer, "user.list") for _ in range(60)])
        assert len(answers) == 60
        assert all(each["users"][0]["name"] == "guest" for each in answers)


def test_long_lists_of_an_answer_leave_in_parts() -> None:
    rows: list[dict[str, object]] = [{"n": number} for number in range(2 * ROWS_AT_ONCE + 1)]
    lines = [json.loads(each) for each in answer_lines({"items": [*rows], "next": None, "few": [1, 2]})]
    assert [len(each.get("rows", [])) for each in lines] == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1, 0]
    assert lines[-1] == {"answer": {"items": [], "next": None, "few": [1, 2]}}
    assert [*answer_lines("text")] == [b'{"answer":"text"}\n']
    assert [*answer_lines([{"text": b"a\xc3\xa4"}])] == [b'{"answer":[{"text":"a\\u00e4"}]}\n']


def test_operation_has_a_name_of_its_own() -> None:
    assert len({name_of(row) for row in OPERATIONS}) == len(OPERATIONS)


def test_error_of_a_class_of_its_own_arrives_as_what_it_is_derived_from() -> None:
    class Derived(NotFound):
        """Error that only this module knows."""

    assert error_row(Derived("gone"))["kind"] == "NotFound"
    assert error_row(ResourceError("full"))["kind"] == "ResourceError"
