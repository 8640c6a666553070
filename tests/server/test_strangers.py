"""Clients without a login: the log stays short, on its lines, and without secrets, whatever they send."""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.client.errors import ConnectError
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, penstock_command, serving, settings_file
from tests.support.http_client import Web
from tests.support.raw_channel import Connection

MORE = re.compile(r"\(and ([\d,]+) more since the last such line\)$")
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")


@pytest.fixture
def both(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of one's own, with its HTTP API and a flow log."""
    with serving(tmp_path, "--http", "127.0.0.1:0", "--flow-log", str(tmp_path / "flow")) as process:
        yield process
        assert "Traceback" not in process.log()


def told(broker: BrokerProcess, text: str) -> int:
    """Return how many refusals the log tells of: those with a line, and those that lines count."""
    lines = broker.logged(text)
    return len(lines) + sum(int(found[1].replace(",", "")) for line in lines if (found := MORE.search(line)))


def test_refused_logins_are_counted_in_one_line_a_second(both: BrokerProcess) -> None:
    begun = time.monotonic()
    web = Web(both.http, "guest", "wrong")
    for _ in range(100):  # What cannot be read is no guess, and is answered at once.
        assert web.ask("GET", "/overview", headers={"Authorization": "Basic !!"}, login=False).status == 401
    for _ in range(2):
        assert web.ask("GET", "/overview").status == 401
        with pytest.raises(ConnectError), Connection(both.url.replace(":guest@", ":wrong@")):
            pass
    eventually(lambda: told(both, "login refused") == 104, "all of them are told")
    assert len(both.logged("login refused")) <= time.monotonic() - begun + 2


def test_client_of_another_protocol_is_logged_at_most_once_a_second(both: BrokerProcess) -> None:
    begun = time.monotonic()
    for _ in range(100):
        with socket.create_connection((both.host, both.port)) as client:
            client.sendall(b"AMQP\x00\x00\x09\x01")
            assert client.recv(8)
            client.sendall(b"\x09\x00\x00\x00\x00\x00\x00\x00")
            assert client.recv(4096)
    eventually(lambda: told(both, "closed by the broker") == 100, "all of them are told")
    assert len(both.logged("closed by the broker")) <= time.monotonic() - begun + 2


@pytest.mark.parametrize("when", ["before the start", "while it runs"])
def test_connections_at_the_file_limit_are_refused_and_open_ones_go_on(tmp_path: Path, when: str) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    early = when == "before the start"
    if early:
        resource.setrlimit(resource.RLIMIT_NOFILE, (80, limits[1]))
    try:
        with serving(tmp_path, "--http", "127.0.0.1:0") as broker:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            with Connection(broker.url) as connection, contextlib.ExitStack() as sockets:
                if not early:
                    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (60, limits[1]))
                host, port = broker.http.removeprefix("http://").split(":")
                begun = time.monotonic()
                strangers = [
                    sockets.enter_context(socket.create_connection(place, timeout=PATIENCE))
                    for place in [(broker.host, broker.port), (host, int(port))] * 60
                ]
                eventually(lambda: broker.logged("no more sockets are accepted"), "it is told")
                for stranger in strangers[-20:]:
                    with contextlib.suppress(ConnectionResetError):
                        assert stranger.recv(1) == b""  # Hung up on, at the limit or after its time.
                connection.channel().queue_declare(exclusive=True)
                assert len(broker.logged("no more sockets")) <= time.monotonic() - begun + 2
            eventually(broker.alive, "newcomers are taken again")
            assert "Traceback" not in broker.log()
            assert all(LINE.match(line) for line in broker.log().splitlines())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_names_with_line_feeds_and_terminal_escapes_are_escaped_in_the_log(both: BrokerProcess) -> None:
    Web(both.http).do("PUT", "/vhosts/a%0A2026-01-01%20forged%1B%5B31m%E2%80%AE", status=201)
    with pytest.raises(ConnectError), Connection(both.url.replace("guest:guest", "eve%0Aforged%1B%5B2J:x")):
        pass
    eventually(lambda: both.logged("eve"), "it is told")
    assert both.await_logged("created")[0].endswith(r"[vh(a\n2026-01-01 forged\x1b[31m\u202e)] created")
    assert all(LINE.match(line) and line.isprintable() for line in both.log().splitlines())


def test_names_are_escaped_in_the_flow_log_and_by_commands(both: BrokerProcess, tmp_path: Path) -> None:
    name = "q\x1b[31m\x9b2J\u202e\x7f"
    with Connection(both.url) as connection:
        channel = connection.channel()
        channel.queue_declare(name, arguments={"capacity-messages": 10, "stop-messages": 1})
        for _ in range(3):
            channel.publish(b"x", routing_key=name)
        eventually(lambda: both.logged("QUE-1003"), "its gate closes")
        asked = ("list queues", "list queues --json", "why NAME", "why NAME --json", "status", "definitions export")
        shown = [
            penstock_command(*(name if word == "NAME" else word for word in words.split()), "--url", both.url)
            for words in asked
        ]
    for done in shown:
        assert done.returncode == 0, done.stderr
        assert "q" in done.stdout
        assert all(line.isprintable() for line in done.stdout.splitlines()), done.stdout
    both.stop()
    records = [line for file in sorted((tmp_path / "flow").glob("*.jsonl")) for line in file.read_text().split("\n")]
    assert any("31m" in line for line in records)
    assert all(line.isprintable() for line in records)


@pytest.mark.parametrize(
    "settings",
    [
        'users = "s3cr3t"',
        '[users]\nguest = 1\nother = "s3cr3t"',
        '[broker]\nstore = ["postgresql://u:s3cr3t@h/d"]',
        '[broker]\nstore = "postgresql:u:s3cr3t@h/d"',
        '[broker]\nstore = "postgresql://u:s3cr3t/x@h/d"',
        '[broker]\nstore = "postgresql://u:x@s3cr3t@h/d"',
        '[broker]\nstore = "postgresql://u:x?s3cr3t=y@h/d"',
        '[broker]\nstore = "mysql://u:s3cr3t@h/d"',
        '[broker]\nstore = "postgresql://u:s3cr3t@127.0.0.1:1/d?connect_timeout=1"',
    ],
)
def test_errors_of_settings_show_no_secret(tmp_path: Path, settings: str) -> None:
    done = penstock_command("serve", *settings_file(tmp_path, settings), "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    assert done.stderr.startswith("penstock: ")
    assert "s3cr3t" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    "url",
    [
        "amqps://u:s3cr3t@127.0.0.1",
        "amqp://u:s3cr3t@127.0.0.1:x/",
        "amqp://u:s3cr3t\u2100@127.0.0.1/",
        "amqp://u:x/s3cr3t@127.0.0.1/",
        "amqp://u:s3cr3t@127.0.0.1:1/",
        "amqp://u:s3cr3t@[::1",
    ],
)
def test_errors_of_commands_show_no_secret(url: str) -> None:
    done = penstock_command("list", "queues", "--url", url)
    assert done.returncode == 1
    assert done.stderr.startswith("penstock: ")
    assert "s3cr3t" not in done.stderr


def test_errors_of_http_and_the_log_show_no_secret(both: BrokerProcess) -> None:
    web = Web(both.http)
    for users in ("s3cr3t", {"guest": "s3cr3t"}, 7):
        answer = web.ask("POST", "/definitions", {"users": users})
        assert answer.status == 400
        assert "s3cr3t" not in answer.reason
    assert Web(both.http, "guest", "s3cr3t").ask("GET", "/overview").status == 401
    with pytest.raises(ConnectError), Connection(both.url.replace(":guest@", ":s3cr3t@")):
        pass
    eventually(lambda: told(both, "login refused") == 2, "both are told")
    assert "s3cr3t" not in both.log()


async def test_output_to_a_client_is_sent_at_once() -> None:
    """Nagle's algorithm would keep back small frames until the client's delayed acknowledgement."""
    async with penstock.Broker(listen="127.0.0.1:0") as broker:
        reader, writer = await asyncio.open_connection(*broker.addresses[0])
        writer.write(b"AMQP\x00\x00\x09\x01")
        await reader.read(1)
        (transport,) = broker.shard.event_loop.transports.values()
        sock = transport._socket.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()
