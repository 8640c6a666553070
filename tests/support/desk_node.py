"""Program: a desk that listens, and processes of shards that it gives clients to; and what tests need to run it.

`/`, `t0` and `t2` are in shard 0, `t1` and `t3` in shard 1; `slow` is in no shard that ever serves. Each shard has
processes in reserve: the next one serves when the last one has ended. Its first line has its addresses and the numbers
of its processes.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from penstock.access.permission import Permission
from penstock.cluster.desk import Desk
from penstock.cluster.hello_desk import HelloDesk
from penstock.cluster.passing import Handed, NotTaken, Passer, Taker, new_channel, new_key
from penstock.server.listener import Listener, Take
from penstock.server.login_record import LoginRecord
from penstock.server.logins import Logins
from penstock.server.shard import Allowance, Shard
from penstock.server.tls.contexts import ServedCertificates, served_tls
from penstock.server.tls.layer import TlsLayer
from penstock.server.turn_loop import new_loop
from penstock.settings.config import Settings, load
from tests.support.brokers import GRACE, eventually

PLACES = {"/": 0, "t0": 0, "t1": 1, "t2": 0, "t3": 1}
SLOW = "slow"
SLOW_NAME = "slow.example.com"
NAMES = {"t0.example.com": "t0", "t1.example.com": "t1", SLOW_NAME: SLOW}
"""Names of servers, and the virtual hosts whose shards they tell."""
ALLOWANCE = Allowance(1_000_000_000, 20_000)

TLS_SETTINGS = """\
[broker]
listen-tls = ["127.0.0.1:0"]

[users]
guest = "guest"
ada = "lovelace"

[tls]
certificate = "server.pem"
key = "server-key.pem"
ca = "ca.pem"
client-certificates = "optional"
"""
"""Settings of a desk with TLS, for the certificates of `localhost`."""


def grant(shard: Shard, vhosts: list[str]) -> None:
    """Add virtual hosts, and let every user do everything in them."""
    for name in vhosts:
        if name not in shard.driver.broker.vhosts:
            shard.driver.broker.add_vhost(name)
        for user in shard.driver.broker.access.users():
            user.permissions[name] = Permission(".*", ".*", ".*")


async def begin(shard: Shard) -> None:
    shard.begin()
    await shard.hold_store()
    await shard.restore()
    shard.admit()


async def serve_shard(settings: Settings, number: int, channel: socket.socket, key: bytes) -> None:
    """Be a shard until the end of the channel."""
    vhosts = [name for name, place in PLACES.items() if place == number]
    shard = Shard(f"shard-{number}", replace(settings, vhosts=vhosts), None, ALLOWANCE)
    grant(shard, vhosts)
    await begin(shard)
    Logins(settings, shard.driver).start(shard.event_loop)
    ended = asyncio.Event()
    tls = served_tls(settings)
    server = None if tls is None else ServedCertificates(shard.driver, shard.event_loop.loop, tls).server

    take_stranger = None if server is None else partial(shard.take_stranger, partial(TlsLayer, server))
    taker = Taker(channel, key, shard.take_handed, ended.set, take_stranger)
    await ended.wait()
    taker.close()


class Place:
    """One shard with its processes: the first one that has not ended serves."""

    def __init__(self, passers: list[Passer]) -> None:
        self._passers = passers

    async def give(self, record: Handed, sock: socket.socket) -> str:
        while self._passers:
            passer = self._passers[0]
            try:
                await passer.pass_on(record, sock)
            except NotTaken:
                if passer in self._passers:
                    self._passers.remove(passer)
            else:
                return ""
        return "its shard has no process left"


async def serve_desk(settings: Settings, channels: list[list[tuple[socket.socket, bytes]]], pids: list[int]) -> None:
    """Listen, and give clients to shards."""
    parent = Shard("desk", replace(settings, vhosts=[]), None, ALLOWANCE)
    await begin(parent)
    logins = Logins(settings, parent.driver)
    logins.start(parent.event_loop)
    places = [Place([Passer(*each) for each in of_shard]) for of_shard in channels]

    async def give(vhost: str, record: LoginRecord, sock: socket.socket) -> str:
        if vhost == SLOW:
            await asyncio.Event().wait()
        return await places[PLACES[vhost]].give(record, sock)

    desk = Desk(parent.event_loop, lambda vhost: vhost in PLACES or vhost == SLOW, give)
    listener = Listener(parent.driver, parent.event_loop.loop, desk.take)
    ((host, port),) = await listener.start("127.0.0.1", 0, "listen")
    first: dict[str, object] = {"host": host, "port": port, "pids": pids}

    async def give_stranger(name: str, number: int, sock: socket.socket) -> str:
        if name == SLOW_NAME:
            await asyncio.Event().wait()
        return await places[PLACES[NAMES[name]]].give(number, sock)

    tls = served_tls(settings)
    if tls is not None:
        loop = parent.event_loop.loop
        server = ServedCertificates(parent.driver, loop, tls).server
        relayed = partial(desk.take, secure=partial(TlsLayer, server))
        peeking = HelloDesk(parent.event_loop, lambda name: name in NAMES, give_stranger, relayed)
        first["tls_port"] = await listen(parent, relayed)
        first["name_port"] = await listen(parent, peeking.take)
    print(json.dumps(first), flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        assert line == b"state\n"
        waiting = sum(each.waiting() for place in places for each in place._passers)
        state = {
            "relays": desk.relays(),
            "connections": len(parent.driver.connections),
            "transports": len(parent.event_loop.transports),
            "waiting": waiting,
            "rss": rss(),
            "files": len(os.listdir("/proc/self/fd")),
            "cpu": sum(os.times()[:2]),
        }
        print(json.dumps(state), flush=True)


def rss() -> int:
    """Return the memory of this process in bytes."""
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


async def listen(parent: Shard, take: Take) -> int:
    """Listen at another port; return the port."""
    listener = Listener(parent.driver, parent.event_loop.loop, take)
    ((_, port),) = await listener.start("127.0.0.1", 0, "listen")
    return port


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--config", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    settings = Settings() if options.config is None else load(options.config)
    parent = os.getpid()
    channels: list[list[tuple[socket.socket, bytes]]] = []
    pids = []
    for number in range(options.shards):
        channels.append([])
        for _ in range(options.processes):
            (ours, theirs), key = new_channel(), new_key()
            pid = os.fork()
            if not pid:
                ctypes.CDLL(None).prctl(1, signal.SIGKILL)
                if os.getppid() != parent:
                    os._exit(1)
                for channel, _ in [(ours, key), *(each for of_shard in channels for each in of_shard)]:
                    channel.close()
                with asyncio.Runner(loop_factory=new_loop) as runner:
                    runner.run(serve_shard(settings, number, theirs, key))
                os._exit(0)
            theirs.close()
            channels[-1].append((ours, key))
            pids.append(pid)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve_desk(settings, channels, pids))


class DeskNode:
    """The running program."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text()
        first = json.loads(line)
        self.host: str = first["host"]
        self.port: int = first["port"]
        self.tls_port: int = first.get("tls_port", 0)
        self.name_port: int = first.get("name_port", 0)
        """Port at which the name of the server tells the shard."""
        self.pids: list[int] = first["pids"]

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    def url(self, vhost: str = "/", user: str = "guest", password: str = "guest") -> str:
        path = "" if vhost == "/" else f"/{vhost}"
        return f"amqp://{user}:{password}@{self.host}:{self.port}{path}"

    def state(self) -> dict[str, float]:
        """Return counts of the desk: its connections, and clients that their shard has not taken."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("state\n")
        self.process.stdin.flush()
        found: dict[str, float] = json.loads(self.process.stdout.readline())
        return found

    def await_forgotten(self) -> None:
        """Wait until the desk has given all clients away, or has lost them."""
        eventually(lambda: self.state()["connections"] == 0, "a desk without connections")

    def log(self) -> str:
        return self._log.read_text()


@contextmanager
def desk_node(folder: Path, *options: str) -> Iterator[DeskNode]:
    """Run the program for as long as the context lasts."""
    log = folder / "desk.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.desk_node", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
    try:
        node = DeskNode(process, log)
        yield node
        assert process.poll() is None, node.log()
        assert "Traceback" not in node.log(), node.log()
    finally:
        process.kill()
        process.wait(GRACE)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


if __name__ == "__main__":
    main()
