"""Way to a shard: clients wait for a process with their catalogue, and for the next one; given up, they get why."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest

from penstock.cluster.door import Door
from penstock.cluster.passing import Passer, Taker, new_channel
from penstock.cluster.shard_watch import Patience, ShardWatch
from penstock.server.login_record import LoginRecord
from tests.support.finished_logins import guest_record


class Shard:
    """Processes of a shard, one after the other, and the clients that each has."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.stack = ExitStack()

    def start(self, version: int) -> list[int]:
        """Start a process with this version of the catalogue; return the list of its clients."""
        taken: list[int] = []

        async def take(sock: socket.socket, record: LoginRecord) -> None:
            taken.append(record.number)
            sock.close()

        ours, theirs = new_channel()
        self.door.passer = Passer(ours, self.door.key)
        self.door.version = version
        self.stack.callback(Taker(theirs, self.door.key, take, asyncio.Event().set).close)
        self.door.change()
        return taken


@pytest.fixture
async def shard() -> AsyncIterator[Shard]:
    door = Door()
    door.key = b"k" * 32
    found = Shard(door)
    with found.stack:
        yield found
    door.close()


async def settle(door: Door) -> None:
    """Let all that is ready run, until the door has asked the process."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_client_waits_for_a_process_with_the_version_of_its_login(shard: Shard) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        old = shard.start(3)
        giving = asyncio.ensure_future(shard.door.give(4, guest_record(number=9), ours))
        await settle(shard.door)
        assert not giving.done()
        shard.door.version = 4
        shard.door.change()
        assert await giving == ""
        assert old == [9]


async def test_client_goes_to_the_next_process_if_one_ends(shard: Shard) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        giving = asyncio.ensure_future(shard.door.give(1, guest_record(number=9), ours))
        await settle(shard.door)
        shard.door.close()
        shard.door.change()
        taken = shard.start(1)
        assert await giving == ""
        assert taken == [9]


async def test_client_of_a_shard_that_is_given_up_gets_the_reason(shard: Shard) -> None:
    watch = ShardWatch("west", 0.0, Patience(pauses_s=()))
    watch.begin(0.0)
    shard.door.watch = watch
    ours, theirs = socket.socketpair()
    with ours, theirs:
        giving = asyncio.ensure_future(shard.door.give(1, guest_record(), ours))
        await settle(shard.door)
        watch.end(1.0, "was killed by signal 9")
        shard.door.change()
        assert (await giving).startswith("shard 'west' is stopped: it died once in 60 s")


async def test_client_beyond_the_bound_is_refused_until_another_has_left() -> None:
    door = Door(2)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        waiting = [asyncio.ensure_future(door.give(1, guest_record(number=number), ours)) for number in (1, 2)]
        await settle(door)
        refusal = await door.give(1, guest_record(number=3), ours)
        assert refusal == "2 clients wait for the shard of the virtual host already, the most that may"
        waiting[0].cancel()
        await settle(door)
        third = asyncio.ensure_future(door.give(1, guest_record(number=4), ours))
        await settle(door)
        assert not third.done()
        for each in (waiting[1], third):
            each.cancel()
        await asyncio.gather(*waiting, third, return_exceptions=True)
