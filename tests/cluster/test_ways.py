"""Ways of a node to its shards: requests wait for a shard that starts, and not for one that is stopped."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cluster.shard_watch import ShardWatch
from penstock.cluster.ways import Place, Ways
from penstock.server.http.request import HttpError
from tests.support.inside_node import GUEST, KEY, new_name, serving


class Door:
    """A shard without supervision."""

    def __init__(self) -> None:
        self.watch: ShardWatch | None = ShardWatch("1", 0.0)
        self.changed = asyncio.Event()

    def serve(self) -> None:
        assert self.watch is not None
        self.watch.begin(0.0)
        self.watch.serve(0.0)
        self.change()

    def change(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


def ways(door: Door, name: str) -> Ways:
    return Ways({"/": "1"}, {"1": door}, lambda shard: Place(name, KEY))


async def status_of(found: Ways, wait_s: float = 60.0) -> int:
    request = await found.request("1", GUEST, b"GET", b"/api/whoami", [], wait_s)
    await request.end()
    await request.answer()
    request.close()
    return request.status


async def test_request_has_the_login_of_its_user() -> None:
    async with serving() as (_, name):
        door = Door()
        door.serve()
        assert await status_of(ways(door, name)) == 200
        with_other_key = Ways({}, {"1": door}, lambda shard: Place(name, "other"))
        assert await status_of(with_other_key) == 401


async def test_request_waits_for_a_shard_that_starts() -> None:
    async with serving() as (_, name):
        door = Door()
        waiting = asyncio.ensure_future(status_of(ways(door, name)))
        await asyncio.sleep(0)
        door.change()  # Another state that does not serve.
        await asyncio.sleep(0)
        assert not waiting.done()
        door.serve()
        assert await waiting == 200


async def test_request_for_a_shard_that_is_stopped_is_refused_at_once() -> None:
    door = Door()
    assert door.watch is not None
    door.watch.stop(0.0)
    with pytest.raises(HttpError, match=r"shard '1' has been stopped for \d+ s") as refused:
        await status_of(ways(door, new_name()))
    assert refused.value.status == 503


async def test_request_without_a_socket_is_refused_after_its_wait() -> None:
    door = Door()
    door.serve()
    with pytest.raises(HttpError, match="shard '1' does not take requests"):
        await status_of(ways(door, new_name()), 0.0)
    door.watch = None
    with pytest.raises(HttpError, match="shard '1' has not started"):
        await status_of(ways(door, new_name()), 0.0)


def test_virtual_hosts_are_found_by_their_shard() -> None:
    found = Ways({"/": "1", "a": "2", "b": "2"}, {"1": Door(), "2": Door()}, lambda shard: Place("", ""))
    assert found.names() == ["1", "2"]
    assert (found.shard_of("a"), found.shard_of("none")) == ("2", None)
    assert found.starts("1") == 0
