"""Desk: clients that log in there and are served by shards in other processes, on bare sockets."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pamqp import commands

from penstock.access.password_hash import hash_password
from penstock.cluster.desk import Desk
from penstock.errors import StartError
from penstock.server.shard import Shard
from penstock.server.turn_loop import new_loop
from penstock.settings.config import Settings
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.frames import AMQP_HEADER
from tests.support.amqp10_dialogue import login, performative
from tests.support.brokers import PATIENCE, eventually, settings_file
from tests.support.desk_node import ALLOWANCE, SLOW, DeskNode, desk_node
from tests.support.logins_ahead import ANSWERS, ahead
from tests.support.raw_client import GREETING, HEARTBEAT, METHOD, GoneError, Peer, method_frame, raw_frame
from tests.support.tokens import pem, rsa_key, token

START_OK = commands.Connection.StartOk({"product": "bare socket"}, "PLAIN", "\0guest\0guest", "en_US")
TUNE_OK = commands.Connection.TuneOk(2047, 131072, 0)
LOGIN = GREETING + method_frame(0, START_OK)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskNode]:
    """A desk with two shards, for all tests that end none of them."""
    with desk_node(tmp_path_factory.mktemp("desk")) as node:
        yield node


@pytest.fixture(autouse=True)
def _forgets(request: pytest.FixtureRequest) -> Iterator[None]:
    """The desk has no connection left after a test."""
    yield
    if "node" in request.fixturenames:
        request.getfixturevalue("node").await_forgotten()


def octets(peer: Peer, count: int) -> bytes:
    """Return so many bytes that must come next."""
    while len(peer.data) < count:
        peer._fill(time.monotonic() + PATIENCE)
    found, peer.data = peer.data[:count], peer.data[count:]
    return found


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 20, 100, 400])
def test_input_ahead_of_the_login_is_answered_in_order(node: DeskNode, pieces: int) -> None:
    data = ahead()
    size = max(1, len(data) // pieces)
    with closing(Peer(node.address)) as peer:
        for at in range(0, len(data), size):
            peer.say(data[at : at + size])
            if pieces < 50:
                node.state()  # The desk has made a pass of its loop.
        for answer in ANSWERS:
            assert isinstance(peer.read_method()[1], answer)


@pytest.mark.parametrize("vhost", ["/", "t0", "t1", "t2", "t3"])
def test_virtual_host_is_served_by_its_shard(node: DeskNode, vhost: str) -> None:
    with closing(Peer(node.address)) as first, closing(Peer(node.address)) as second:
        for peer in (first, second):
            peer.open(vhost=vhost).channel()
        first.declare_shared("shared")
        first.put("shared", 1)
        assert second.get("shared") == (1, b"0")


def test_virtual_hosts_of_shards_are_apart(node: DeskNode) -> None:
    with closing(Peer(node.address).open(vhost="t0")) as first, closing(Peer(node.address).open(vhost="t1")) as second:
        for peer in (first, second):
            peer.channel()
        first.declare_shared("apart")
        first.put("apart", 3)
        second.declare_shared("apart")
        assert eventually(lambda: first.depth("apart"), "the messages") == 3
        assert second.depth("apart") == 0


def test_unknown_virtual_host_is_refused_by_the_desk(node: DeskNode) -> None:
    with closing(Peer(node.address)) as peer:
        peer.log_in()
        peer.expect(0, commands.Connection.Tune)
        peer.send(0, TUNE_OK, commands.Connection.Open("nowhere"))
        open_method = 10 << 16 | 40
        assert peer.close_of(0) == (530, "NOT_ALLOWED - vhost nowhere not found", open_method)
        peer.send(0, commands.Connection.CloseOk())
        assert peer.is_closed()


def test_wrong_password_is_refused_by_the_desk_and_not_passed_on(node: DeskNode) -> None:
    with closing(Peer(node.address)) as peer:
        peer.say(ahead(password="wrong"))
        peer.expect(0, commands.Connection.Start)
        assert peer.is_closed()


def test_heartbeats_between_tune_ok_and_open_are_taken(node: DeskNode) -> None:
    with closing(Peer(node.address)) as peer:
        peer.log_in()
        peer.expect(0, commands.Connection.Tune)
        beat = raw_frame(HEARTBEAT, 0, b"")
        peer.say(method_frame(0, TUNE_OK) + 40 * beat + method_frame(0, commands.Connection.Open("/")) + beat)
        peer.expect(0, commands.Connection.OpenOk)
        peer.channel()
        assert peer.is_well()


def test_agreed_limits_reach_the_shard(node: DeskNode) -> None:
    with closing(Peer(node.address).open(frame_max=8192, channel_max=1)) as peer:
        peer.channel()
        peer.send(2, commands.Channel.Open())
        assert peer.refused(0)[0] == 530
    with closing(Peer(node.address).open(frame_max=8192)) as peer:
        peer.channel()
        peer.say(raw_frame(METHOD, 1, bytes(9000)))
        assert peer.refused(0)[0] == 501


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (raw_frame(METHOD, 0, bytes(100_000)), 501),
        (raw_frame(METHOD, 0, b"", end=0), 501),
        (method_frame(1, commands.Channel.Open()), 503),
        (method_frame(0, commands.Connection.Open("/")), 503),
    ],
    ids=["frame too long", "frame without its end", "channel", "open"],
)
def test_frames_before_the_login_are_refused_as_by_a_broker(node: DeskNode, said: bytes, code: int) -> None:
    with closing(Peer(node.address)) as peer:
        peer.greet()
        peer.say(said)
        assert peer.refused(0)[0] == code


def test_frame_that_is_too_long_for_an_open_is_refused_and_not_served(node: DeskNode) -> None:
    payload = b"\x00\x0a\x00\x28\x01/\x00\x00" + bytes(10_000)
    with closing(Peer(node.address)) as peer:
        peer.log_in()
        peer.expect(0, commands.Connection.Tune)
        peer.say(method_frame(0, TUNE_OK) + raw_frame(METHOD, 0, payload))
        assert peer.refused(0)[0] == 501


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"AMQP\x05\x05\x05\x05"]
)
def test_unknown_protocols_are_answered_with_a_header(node: DeskNode, garbage: bytes) -> None:
    with closing(Peer(node.address)) as peer:
        peer.say(garbage)
        assert octets(peer, 8) == GREETING
        assert peer.is_closed()


@pytest.mark.parametrize("cut", [0, 3, 8, 20, len(LOGIN) - 1, len(LOGIN)])
def test_client_that_disconnects_while_it_logs_in_is_forgotten(node: DeskNode, cut: int) -> None:
    with closing(Peer(node.address)) as peer:
        peer.say(LOGIN[:cut])
    node.await_forgotten()


def test_client_that_closes_its_side_after_all_its_input_is_served(node: DeskNode) -> None:
    with closing(Peer(node.address)) as peer:
        peer.say(ahead("t1"))
        peer.socket.shutdown(socket.SHUT_WR)
        for answer in ANSWERS:
            assert isinstance(peer.read_method()[1], answer)


# AMQP 1.0


def opening(hostname: str | None) -> bytes:
    begin = performative(spec.BEGIN, next_outgoing_id=0, incoming_window=1, outgoing_window=1)
    opened = performative(spec.OPEN, container_id="c", hostname=hostname)
    return AMQP_HEADER + opened + begin + performative(spec.CLOSE)


def answers_of(peer: Peer) -> list[int]:
    """Return the codes of all performatives that come until the socket is closed, without SASL's."""
    found = b""
    try:
        while True:
            peer._fill(time.monotonic() + PATIENCE)
    except GoneError:
        found = peer.data
    codes, at = [], 0
    while at < len(found):
        if found[at : at + 4] == b"AMQP":
            at += 8
            continue
        size = int.from_bytes(found[at : at + 4], "big")
        body = found[at + 4 * found[at + 4] : at + size]
        if found[at + 5] == spec.FRAME_AMQP:
            codes.append(int(body[2]))
        at += size
    return codes


SERVED = [spec.OPEN & 0xFF, spec.BEGIN & 0xFF, spec.CLOSE & 0xFF]
REFUSED = [spec.OPEN & 0xFF, spec.CLOSE & 0xFF]


@pytest.mark.parametrize(
    ("hostname", "codes"),
    [
        ("vhost:t1", SERVED),
        ("vhost:/", SERVED),
        ("t3", SERVED),
        ("mq.example.com", SERVED),
        (None, SERVED),
        ("vhost:nowhere", REFUSED),
        ("vhost:", REFUSED),
    ],
)
def test_host_names_of_amqp_1_0_open_their_virtual_host(node: DeskNode, hostname: str | None, codes: list[int]) -> None:
    with closing(Peer(node.address)) as peer:
        peer.say(login() + opening(hostname))
        assert answers_of(peer) == codes


@pytest.mark.parametrize("pieces", [1, 2, 5, 40, 200])
def test_input_ahead_of_a_login_over_amqp_1_0_is_answered(node: DeskNode, pieces: int) -> None:
    data = login() + opening("vhost:t1")
    size = max(1, len(data) // pieces)
    with closing(Peer(node.address)) as peer:
        for at in range(0, len(data), size):
            peer.say(data[at : at + size])
        assert answers_of(peer) == SERVED


def test_client_of_amqp_1_0_without_sasl_is_anonymous(node: DeskNode) -> None:
    with closing(Peer(node.address)) as peer:
        peer.say(opening("vhost:t1"))
        assert answers_of(peer) == SERVED


# Logins that take time, and shards that end


@pytest.fixture(scope="module")
def late_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskNode]:
    """A desk with tokens, and a user whose password takes a thread's time."""
    folder = tmp_path_factory.mktemp("late")
    (folder / "key.pem").write_bytes(pem(rsa_key()))
    options = settings_file(
        folder,
        "[broker]\ninitial-frame-max = 16384\nhandshake-s = 3\n"
        f'[users]\nguest = "guest"\nslow = {{ password_hash = "{hash_password("guest", bytes(16)).text()}" }}\n'
        '[oauth]\nresource_server_id = "penstock"\nkeys = "key.pem"\n',
    )
    with desk_node(folder, *options) as node:
        yield node


def test_input_waits_for_a_password_that_a_thread_verifies(late_node: DeskNode) -> None:
    data = ahead("t1").replace(b"\0guest\0guest", b"\0slow\0guest")
    size = int.from_bytes(data[11:15], "big") - 1
    data = data[:11] + size.to_bytes(4, "big") + data[15:]
    at = data.index(b"\0slow") - 4
    data = data[:at] + (int.from_bytes(data[at : at + 4], "big") - 1).to_bytes(4, "big") + data[at + 4 :]
    with closing(Peer(late_node.address)) as peer:
        peer.say(data)
        for answer in ANSWERS:
            assert isinstance(peer.read_method()[1], answer)


def test_token_of_the_desk_has_its_rights_in_the_shard_and_is_renewed_there(late_node: DeskNode) -> None:
    first = token("penstock.configure:t1/mine*", "penstock.read:t1/mine*", exp=time.time() + 100)
    newer = token("penstock.configure:t1/*", exp=time.time() + 200)
    with closing(Peer(late_node.address)) as peer:
        peer.open(user="anna", password=first, vhost="t1").channel()
        peer.declare_shared("mine")
        peer.send(0, commands.Connection.UpdateSecret(newer, "renewed"))
        peer.expect(0, commands.Connection.UpdateSecretOk)
        peer.declare_shared("others")
    with closing(Peer(late_node.address)) as peer:
        peer.log_in(user="anna", password=first)
        peer.expect(0, commands.Connection.Tune)
        peer.send(0, TUNE_OK, commands.Connection.Open("t0"))
        assert peer.refused(0) == (530, "NOT_ALLOWED - access to vhost 't0' refused for user 'anna'")


def test_client_of_a_shard_that_does_not_serve_gets_a_sentence(late_node: DeskNode) -> None:
    with closing(Peer(late_node.address)) as peer:
        peer.say(ahead(SLOW))
        peer.expect(0, commands.Connection.Start)
        peer.expect(0, commands.Connection.Tune)
        sentence = "virtual host 'slow' is not served yet; the client has waited for most of 3 s"
        assert peer.refused(0) == (320, f"CONNECTION_FORCED - {sentence}")
        assert peer.is_closed()
    eventually(lambda: sentence in late_node.log(), "the sentence in the log")
    with closing(Peer(late_node.address)) as peer:
        peer.say(login() + opening("vhost:slow"))
        assert answers_of(peer) == REFUSED


def test_client_that_disconnects_while_it_waits_is_forgotten(late_node: DeskNode) -> None:
    files, refused = late_node.state()["files"], late_node.log().count("is not served yet")
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(closing(Peer(late_node.address))).say(ahead(SLOW))
        eventually(lambda: late_node.state()["connections"] == 20, "the waiting clients")
    late_node.await_forgotten()
    assert late_node.log().count("is not served yet") == refused
    assert late_node.state()["files"] == files


def test_shard_that_is_killed_is_followed_by_its_next_process(tmp_path: Path) -> None:
    with desk_node(tmp_path, "--shards", "1", "--processes", "2") as node:
        with closing(Peer(node.address).open()) as peer:
            peer.channel()
            os.kill(node.pids[0], signal.SIGSTOP)
            with ExitStack() as stack:
                waiting = [stack.enter_context(closing(Peer(node.address))) for _ in range(30)]
                for each in waiting:
                    each.say(ahead())
                eventually(lambda: node.state()["waiting"] == 30, "clients on their way")
                os.kill(node.pids[0], signal.SIGKILL)
                for each in waiting:
                    for answer in ANSWERS:
                        assert isinstance(each.read_method()[1], answer)
            assert peer.is_closed()
        os.kill(node.pids[1], signal.SIGKILL)
        with closing(Peer(node.address)) as peer:
            peer.log_in()
            peer.expect(0, commands.Connection.Tune)
            peer.send(0, TUNE_OK, commands.Connection.Open("/"))
            assert peer.refused(0) == (320, "CONNECTION_FORCED - its shard has no process left")


def served(node: DeskNode, vhost: str) -> bool:
    """Return whether a new client is served."""
    with closing(Peer(node.address)) as peer:
        try:
            peer.open(vhost=vhost).channel()
        except GoneError:
            return False
        return peer.is_well()


def test_strangers_who_never_log_in_keep_nobody_out(tmp_path: Path) -> None:
    options = settings_file(tmp_path, "[broker]\nhandshakes-address-max = 400\n")
    with desk_node(tmp_path, *options) as node, ExitStack() as stack:
        for number in range(1000):
            stranger = stack.enter_context(closing(socket.create_connection(node.address, PATIENCE)))
            stranger.sendall(LOGIN[: number % len(LOGIN)])
        eventually(lambda: served(node, "t1"), "a client that is served beside strangers")
        assert node.state()["connections"] <= 400


@pytest.mark.parametrize(
    ("vhosts", "make_loop", "sentence"),
    [
        (["/"], new_loop, "the broker of a desk serves no virtual hosts"),
        ([], asyncio.new_event_loop, "only on a system with epoll"),
    ],
)
def test_desk_without_its_conditions_is_refused(
    vhosts: list[str], make_loop: Callable[[], asyncio.AbstractEventLoop], sentence: str
) -> None:
    shard = Shard("desk", Settings(vhosts=vhosts), None, ALLOWANCE)

    async def begin() -> None:
        shard.begin()
        with pytest.raises(StartError, match=sentence):
            Desk(shard.event_loop, lambda vhost: False, lambda *client: asyncio.sleep(0, ""))
        await shard.close()
        await shard.release()

    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(begin())
