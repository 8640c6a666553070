"""Channel between the process that logs clients in and the process of a shard."""

from __future__ import annotations

import array
import asyncio
import os
import resource
import signal
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from penstock.cluster import passing
from penstock.cluster.passing import (
    HEAD,
    UNANSWERED_MOST,
    ClientRefused,
    NotTaken,
    Passer,
    StillPassing,
    Take,
    Taker,
    new_channel,
    new_key,
    seal,
)
from penstock.errors import PenstockError
from penstock.server.login_record import PACKET_OCTETS_MOST, LoginRecord, RecordError
from penstock.server.turn_loop import new_loop
from tests.support.brokers import PATIENCE
from tests.support.finished_logins import guest_record

T = TypeVar("T")
RECORD = guest_record(b"open")


class Shard:
    """Clients that a shard has taken; each is greeted with its user and its input."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.taken: list[LoginRecord] = []

    async def take(self, sock: socket.socket, record: LoginRecord) -> None:
        self.taken.append(record)
        sock.send(record.user.encode() + record.rest)
        sock.close()

    async def take_stranger(self, sock: socket.socket, number: int) -> None:
        sock.send(b"stranger %d" % number)
        sock.close()


class Scene:
    """Both ends of a channel in one loop, and clients."""

    def __init__(self) -> None:
        self.key = new_key()
        self.shard = Shard()
        self.ours, self.theirs = new_channel()
        self.passer = Passer(self.ours, self.key)
        self.stack = ExitStack()
        self.stack.callback(self.passer.close)
        self.stack.enter_context(self.theirs)

    def listen(self, key: bytes = b"", take: Take | None = None) -> Taker:
        taker = Taker(self.theirs, key or self.key, take or self.shard.take, self.shard.ended.set)
        self.stack.callback(taker.close)
        return taker

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """Return a client and the socket that it has connected to."""
        client, sock = socket.socketpair()
        self.stack.enter_context(client)
        self.stack.enter_context(sock)
        return client, sock


def play(scene: Callable[[Scene], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        both = Scene()
        with both.stack:
            return await scene(both)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(run())


async def answer(client: socket.socket) -> bytes:
    client.setblocking(False)
    return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 100), PATIENCE)


def packet_of(key: bytes, number: int, record: bytes) -> bytes:
    octets = number.to_bytes(8, "big")
    return octets + seal(key, octets, record) + record


def raw_send(channel: socket.socket, packet: bytes, *socks: socket.socket) -> None:
    rights = array.array("i", [sock.fileno() for sock in socks])
    channel.sendmsg([packet], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if socks else [])


def test_client_is_served_by_the_other_end_after_its_answer() -> None:
    async def scene(both: Scene) -> None:
        both.listen()
        for number in range(3):
            client, sock = both.pair()
            await both.passer.pass_on(replace(RECORD, user=f"ada{number}"), sock)
            sock.close()
            assert await answer(client) == b"ada%dopen" % number
        assert both.passer.waiting() == 0

    play(scene)


@pytest.mark.parametrize("taken", [False, True])
def test_client_without_a_record_is_passed_on_as_a_stranger(taken: bool) -> None:
    async def scene(both: Scene) -> None:
        take = both.shard.take_stranger if taken else None
        both.stack.callback(Taker(both.theirs, both.key, both.shard.take, both.shard.ended.set, take).close)
        client, sock = both.pair()
        if taken:
            await both.passer.pass_on(17, sock)
            assert await answer(client) == b"stranger 17"
            return
        with pytest.raises(ClientRefused, match="the shard takes no client that has not logged in"):
            await both.passer.pass_on(17, sock)

    play(scene)


def test_end_of_the_channel_is_told_to_the_shard_once() -> None:
    async def scene(both: Scene) -> None:
        both.listen()
        both.passer.close()
        both.passer.close()
        await asyncio.wait_for(both.shard.ended.wait(), PATIENCE)
        assert both.theirs.fileno() < 0

    play(scene)


def child_that(reads: bool, channel: socket.socket, key: bytes) -> int:
    """Fork a process that takes one client, or never reads its channel; return its number."""
    pid = os.fork()
    if pid:
        return pid
    with suppress(BaseException):
        if reads:
            packet, descriptors, _, _ = socket.recv_fds(channel, 1 << 18, 1)
            record = LoginRecord.of(packet[HEAD:])
            assert packet == packet_of(key, 1, packet[HEAD:])
            channel.send(b"T" + packet[:8])
            socket.socket(fileno=descriptors[0]).sendall(b"served " + record.rest)
        signal.pause()
    os._exit(1)


@pytest.mark.parametrize("answered", [False, True])
def test_shard_that_is_killed_loses_no_client_that_it_has_not_taken(answered: bool) -> None:
    async def scene(both: Scene) -> None:
        client, sock = both.pair()
        both.theirs.setblocking(True)
        pid = child_that(answered, both.theirs, both.key)
        both.theirs.close()
        passed = asyncio.create_task(both.passer.pass_on(RECORD, sock))
        await asyncio.sleep(0)
        if answered:
            await passed
            sock.close()
            assert await answer(client) == b"served open"
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(os.waitpid, pid, 0)
        if answered:
            assert await answer(client) == b""
            return
        with pytest.raises(NotTaken, match="the process of the shard has ended"):
            await passed
        with pytest.raises(NotTaken):
            await both.passer.pass_on(RECORD, sock)
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        following = Scene()
        with following.stack:
            following.listen()
            await following.passer.pass_on(RECORD, sock)
            assert await answer(client) == b"guestopen"

    play(scene)


def test_answer_of_a_shard_that_has_ended_still_counts() -> None:
    async def scene(both: Scene) -> None:
        sock = both.pair()[1]
        first = asyncio.create_task(both.passer.pass_on(RECORD, sock))
        second = asyncio.create_task(both.passer.pass_on(RECORD, sock))
        await asyncio.sleep(0)
        packet = both.theirs.recv(1 << 18)
        both.theirs.send(b"T" + packet[:8])
        both.theirs.close()  # The second packet is unread: the system reports a reset before the answer.
        await first
        with pytest.raises(NotTaken):
            await second
        assert not both.passer.is_open()

    play(scene)


def refused(*packets: tuple[bytes, int], key: bytes) -> list[bytes]:
    """Return the answers to packets, each with so many sockets, without their first nine bytes."""

    async def scene(both: Scene) -> list[bytes]:
        asyncio.get_running_loop().remove_reader(both.ours)
        both.listen(key)
        found = []
        for packet, count in packets:
            pairs = [both.pair() for _ in range(count)]
            raw_send(both.ours, packet, *[pair[1] for pair in pairs])
            for pair in pairs:
                pair[1].close()
            said = await answer(both.ours)
            assert said[1:9] == packet[:8].ljust(8, b"\x00")
            found.append(said[:1] + said[9:])
            if said.startswith(b"R"):
                for pair in pairs:
                    assert await answer(pair[0]) == b""  # No copy of the socket is left open.
        return found

    return play(scene)


def test_packets_that_are_altered_replayed_or_of_another_version_are_refused() -> None:
    key, record = new_key(), RECORD.packet()
    altered = packet_of(key, 1, record)[:-1] + b"!"
    assert refused(
        (altered, 1),
        (packet_of(new_key(), 1, record), 1),
        (packet_of(key, 2, record), 1),
        (packet_of(key, 1, record), 1),
        (packet_of(key, 1, record), 1),
        (packet_of(key, 2, b"\x02" + record[1:]), 1),
        (packet_of(key, 3, record), 0),
        (packet_of(key, 4, record), 2),
        (packet_of(key, 5, record[:9]), 1),
        (packet_of(key, 6, record), 1),
        (b"short", 1),
        key=key,
    )[:10] == [
        b"Rrecord of a login has an invalid seal",
        b"Rrecord of a login has an invalid seal",
        b"Rrecord of a login has number 2; number 1 is due",
        b"T",
        b"Rrecord of a login has number 1; number 2 is due",
        b"Rrecord of a login has version 2; this process reads version 1",
        b"Rrecord of a login came with 0 sockets",
        b"Rrecord of a login came with 2 sockets",
        b"Rrecord of a login ends after 9 of %d bytes" % (5 + int.from_bytes(record[1:5], "big")),
        b"T",
    ]


def test_refusal_reaches_the_waiting_process_with_its_reason() -> None:
    async def scene(both: Scene) -> None:
        both.listen(new_key())
        sock = both.pair()[1]
        with pytest.raises(ClientRefused, match="has an invalid seal"):
            await both.passer.pass_on(RECORD, sock)
        assert both.passer.is_open()

    play(scene)


def test_shard_without_room_for_open_files_refuses_and_the_client_stays() -> None:
    async def scene(both: Scene) -> None:
        both.listen()
        client, sock = both.pair()
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, before[1]))
        spare = []
        try:
            with suppress(OSError):
                while True:
                    spare.append(os.dup(0))
            with pytest.raises(ClientRefused, match="the shard has no room for another open file"):
                await both.passer.pass_on(RECORD, sock)
        finally:
            for each in spare:
                os.close(each)
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        await both.passer.pass_on(RECORD, sock)
        sock.close()
        assert await answer(client) == b"guestopen"

    play(scene)


def test_shard_that_does_not_read_makes_clients_wait_in_order_and_within_bounds() -> None:
    async def scene(both: Scene) -> None:
        pairs = [both.pair() for _ in range(3 * UNANSWERED_MOST)]
        records = [guest_record(b"x" * 3000, user=f"user{number}") for number in range(len(pairs))]
        tasks = [
            asyncio.create_task(both.passer.pass_on(record, pair[1]))
            for record, pair in zip(records, pairs, strict=True)
        ]
        await asyncio.sleep(0)
        assert both.passer.waiting() == len(pairs)
        assert len(both.passer._unanswered) <= UNANSWERED_MOST
        both.listen()
        await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
        assert both.shard.taken == records

    play(scene)


def test_client_that_waits_beyond_the_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "WAITING_MOST", 2)

    async def scene(both: Scene) -> None:
        sock = both.pair()[1]
        tasks = [asyncio.create_task(both.passer.pass_on(RECORD, sock)) for _ in range(UNANSWERED_MOST + 2)]
        await asyncio.sleep(0)
        with pytest.raises(ClientRefused, match="2 clients wait for the shard"):
            await both.passer.pass_on(RECORD, sock)
        both.passer.close()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(end) for end in ends} == {NotTaken}

    play(scene)


def test_wait_cancelled_before_its_packet_sends_nothing_and_later_says_so() -> None:
    async def scene(both: Scene) -> None:
        sock = both.pair()[1]
        tasks = [asyncio.create_task(both.passer.pass_on(RECORD, sock)) for _ in range(UNANSWERED_MOST + 1)]
        await asyncio.sleep(0)
        for task in (tasks[0], tasks[-1]):
            task.cancel()
        with pytest.raises(StillPassing):
            await tasks[0]
        with pytest.raises(asyncio.CancelledError):
            await tasks[-1]
        both.listen()
        await asyncio.wait_for(asyncio.gather(*tasks[1:-1]), PATIENCE)
        await both.passer.pass_on(RECORD, sock)
        assert len(both.shard.taken) == UNANSWERED_MOST + 1

    play(scene)


def test_record_that_is_too_long_is_refused_before_it_is_sent() -> None:
    async def scene(both: Scene) -> None:
        sock = both.pair()[1]
        with pytest.raises(RecordError, match="the most is"):
            await both.passer.pass_on(guest_record(bytes(PACKET_OCTETS_MOST)), sock)
        assert both.passer.waiting() == 0

    play(scene)


def test_longest_record_arrives_whole() -> None:
    async def scene(both: Scene) -> None:
        both.listen()
        room = PACKET_OCTETS_MOST - len(guest_record(b"").packet())
        sock = both.pair()[1]
        await both.passer.pass_on(guest_record(bytes(room)), sock)
        assert len(both.shard.taken[0].rest) == room

    play(scene)


def test_closed_socket_is_refused_and_others_are_passed_on() -> None:
    async def scene(both: Scene) -> None:
        both.listen()
        client, sock = both.pair()
        closed = both.pair()[1]
        closed.close()
        with pytest.raises(ClientRefused, match="the socket cannot be passed on"):
            await both.passer.pass_on(RECORD, closed)
        await both.passer.pass_on(RECORD, sock)
        sock.close()
        assert await answer(client) == b"guestopen"

    play(scene)


@pytest.mark.parametrize("error", [OSError("gone"), RecordError("of another protocol"), ValueError("a bug")])
def test_client_that_cannot_be_served_is_disconnected(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(sock: socket.socket, record: LoginRecord) -> None:
        raise error

    async def scene(both: Scene) -> None:
        both.listen(take=fail)
        client, sock = both.pair()
        await both.passer.pass_on(RECORD, sock)
        sock.close()
        assert await answer(client) == b""

    play(scene)
    logged = "could not be served" in caplog.text
    assert logged is not isinstance(error, (OSError, PenstockError))


def test_answers_without_room_wait_and_clients_with_them() -> None:
    async def scene(both: Scene) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(both.ours)
        filled = 0
        with suppress(BlockingIOError):
            while True:
                both.theirs.send(b"filling" * 50)
                filled += 1
        taker = both.listen()
        clients = []
        for number in (1, 2):
            client, sock = both.pair()
            raw_send(both.ours, packet_of(both.key, number, RECORD.packet()), sock)
            sock.close()
            clients.append(client)
        taker._on_packets()
        assert taker._pending_answer is not None
        assert both.shard.taken == []
        for _ in range(filled):
            both.ours.recv(1000)
        for client in clients:
            assert await answer(client) == b"guestopen"
        assert len(both.shard.taken) == 2

    play(scene)


def test_client_of_an_pending_answer_answer_is_left_to_the_other_process() -> None:
    async def scene(both: Scene) -> None:
        with suppress(BlockingIOError):
            while True:
                both.theirs.send(b"filling" * 50)
        taker = both.listen()
        client, sock = both.pair()
        raw_send(both.ours, packet_of(both.key, 1, RECORD.packet()), sock)
        taker._on_packets()
        taker.close()
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        sock.close()
        assert await answer(client) == b""
        assert both.shard.taken == []

    play(scene)
