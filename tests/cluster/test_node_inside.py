"""Sockets inside a node: names of their own, one client a process, and no answers after the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.cluster.asking import Peer, Unanswered
from penstock.cluster.node_inside import NodeInside
from penstock.errors import NotFound
from penstock.server.inside import Ask
from penstock.server.shard import Shard
from penstock.settings.config import Settings
from tests.support.desk_node import ALLOWANCE, begin
from tests.support.inside_node import GUEST


class Still:
    """A catalogue that does not change."""

    def catalogue(self) -> int:
        return 3

    def desk(self) -> int:
        return 3


@pytest.fixture
async def office() -> AsyncIterator[Shard]:
    shard = Shard("penstock@node", Settings(vhosts=[]), None, ALLOWANCE)
    await begin(shard)
    yield shard
    await shard.close()
    await shard.release()


async def test_node_without_shards_answers_what_is_its_own(office: Shard) -> None:
    inside = NodeInside(office, Settings(), {}, {}, Still())
    inside.start()
    try:
        peer = Peer(inside.name, inside.secret)
        users = await peer.ask(Ask("user.list", {}, "/"), GUEST)
        assert isinstance(users, dict)
        with pytest.raises(NotFound, match="no vhost 'west'"):
            await peer.ask(Ask("list", {"kind": "queues"}, "west"), GUEST)
        peer.close()
        assert await inside.answers.settled() == []
    finally:
        await inside.stop()
    with pytest.raises(Unanswered, match="it cannot be asked: Connection refused"):
        await Peer(inside.name, inside.secret).ask(Ask("user.list", {}, "/"), GUEST)


async def test_names_and_key_of_a_node_are_its_own(office: Shard) -> None:
    one, other = [NodeInside(office, Settings(), {}, {}, Still()) for _ in range(2)]
    assert one.secret != other.secret
    assert one.name != other.name
    assert one.name_of("1") == f"{one.name}-1"
    assert one.name_of("") not in (one.name, one.name_of("office2"))


async def test_process_of_a_shard_has_one_client_until_another_one_follows(office: Shard) -> None:
    inside = NodeInside(office, Settings(), {}, {}, Still())
    first = inside.peer("1")
    assert inside.peer("1") is first
    assert inside.peer("2") is not first
    inside.changed("1")
    assert inside.peer("1") is not first
    await asyncio.sleep(0)
