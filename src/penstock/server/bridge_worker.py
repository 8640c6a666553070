"""Worker of bridges as the broker sees it: a process that runs while a bridge is wanted, its channel, and its end.

Theory of operation. Once a second `tick` compares the wanted bridges with those that the worker knows, if either has
changed. The channel never blocks: what the worker does not read is compared again later. A worker that has ended, or
says nothing for `SILENT_S`, is started again after a pause that doubles, with jitter. Without a wanted bridge there is
no process.

The worker connects to this broker through socket pairs, whose ends the broker takes as connections of the users of the
bridges. When the broker is killed, the worker sees the end of its channel and ends.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any, Final

from penstock.interrupts import interrupts_blocked
from penstock.logs.ids import BRIDGES_LOST
from penstock.logs.logger import log
from penstock.server.bridge_channel import BridgeChannel, ChannelEnded, Row
from penstock.server.shard import Shard

MODULE: Final = "penstock.bridges.worker"
PAUSE_S: Final = 0.5
PAUSE_MOST_S: Final = 30.0
"""Seconds from the end of a worker to its next start: at first, and at most, as the pause doubles with each end."""
STEADY_S: Final = 60.0
"""Seconds after which a worker counts as well: the next pause is the first one again."""
SILENT_S: Final = 10.0
"""Seconds without a message after which a worker is killed; it sends one every three seconds."""
STOP_S: Final = 5.0
"""Seconds in which a worker ends in order."""
REPLIES_MOST: Final = 100
"""Most answers to requests for connections that the worker has not read; more are dropped, and asked for again."""


class BridgeWorker:
    """Process of the bridges of one shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._table = shard.driver.bridges
        self._loop = shard.event_loop.loop
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: BridgeChannel | None = None
        """Channel to the process; None without one, and once it has ended."""
        self._known: dict[str, object] = {}
        """Revisions of the bridges that the worker knows."""
        self._epoch = -1
        """Epoch of the table at which all that is wanted was sent."""
        self._replies: deque[tuple[Row, socket.socket | None]] = deque()
        self._news: dict[str, None] = {}
        """Bridges that should look at the broker again, and do not know that yet."""
        self._is_writing = False
        self._started = 0.0
        self._heard = 0.0
        self._failures = 0
        self._start_at = 0.0
        """Times, and the number of unexpected ends one after the other."""
        self._is_leaving = False
        """True if the worker was told to end."""
        self._is_closed = False
        self._connections = 0
        self._ending: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Number of the process; None without one."""
        return None if self._process is None else self._process.pid

    def tick(self) -> None:
        """Start, end or tell the worker, as the wanted bridges need it. Called each second."""
        if self._is_closed:
            return
        if self._process is None:
            if self._epoch != self._table.epoch and self._table.wanted() and self._loop.time() >= self._start_at:
                self._start()
            elif self._epoch != self._table.epoch and not self._table.wanted():
                self._epoch, self._table.worker, self._failures = self._table.epoch, "", 0
        elif self._channel is not None:
            if self._loop.time() - self._heard > SILENT_S:
                self._lose("it said nothing")
            else:
                self._news |= dict.fromkeys(self._table.news())
                if self._is_leaving or self._news or self._epoch != self._table.epoch:
                    self._write()

    async def stop(self) -> None:
        """End the worker in order, in `STOP_S` at most."""
        self._is_closed = True
        if self._process is None:
            return
        self._is_leaving = True
        self._write()
        process = self._process
        try:
            await asyncio.wait_for(asyncio.to_thread(process.wait, STOP_S), STOP_S + 1)
        except (subprocess.TimeoutExpired, TimeoutError):
            process.kill()
        if self._channel is not None:
            self._lose("the broker stops")
        if self._ending is not None:
            await self._ending

    # The process

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        folder = str(Path(__file__).parents[2])
        given = os.environ.get("PYTHONPATH")
        environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{given}" if given else folder}
        descriptor = theirs.fileno()
        try:
            with interrupts_blocked():  # Ctrl-C is for the broker.
                self._process = subprocess.Popen(
                    [sys.executable, "-m", MODULE, str(descriptor)],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=(descriptor,), env=environment,
                )  # fmt: skip
        except OSError as error:
            ours.close()
            self._fail(f"cannot be started: {error.strerror or error}")
            return
        finally:
            theirs.close()
        self._channel = BridgeChannel(ours)
        self._known.clear()
        self._news.clear()
        self._replies.clear()
        self._is_leaving = False
        self._started = self._heard = self._loop.time()
        self._loop.add_reader(self._channel.fileno(), self._read)
        self._table.worker = ""
        self._write()

    def _lose(self, reason: str) -> None:
        """Give the process up: its channel has ended, or it hangs."""
        channel, process = self._channel, self._process
        if channel is None or process is None:
            return
        self._loop.remove_reader(channel.fileno())
        if self._is_writing:
            self._loop.remove_writer(channel.fileno())
        self._is_writing = False
        channel.close()
        self._channel = None
        for _, sock in self._replies:
            if sock is not None:
                sock.close()
        self._replies.clear()
        self._epoch = -1
        self._ending = self._loop.create_task(self._await_end(process, reason))

    async def _await_end(self, process: subprocess.Popen[bytes], reason: str) -> None:
        """Wait for the end of a process without a channel; one that does not end is killed."""
        try:
            code = await asyncio.to_thread(process.wait, 1.0)
        except subprocess.TimeoutExpired:
            process.kill()
            code = await asyncio.to_thread(process.wait)
        self._process = None
        if self._is_leaving or self._is_closed:
            return
        if self._loop.time() - self._started > STEADY_S:
            self._failures = 0
        self._fail(f"has ended ({f'signal {-code}' if code < 0 else f'exit code {code}'}; {reason})")

    def _fail(self, reason: str) -> None:
        """Plan the next start."""
        pause = min(PAUSE_S * 2.0 ** min(self._failures, 20), PAUSE_MOST_S)
        pause *= random.uniform(0.5, 1.0)
        self._failures += 1
        self._start_at = self._loop.time() + pause
        self._table.worker = f"the worker of the bridges {reason}; it is started again in {max(pause, 1):.0f} s"
        log(BRIDGES_LOST, "%s", self._table.worker)

    # The channel

    def _read(self) -> None:
        channel = self._channel
        if channel is None:
            return
        try:
            messages = channel.receive()
        except ChannelEnded as error:
            self._lose(str(error))
            return
        self._heard = self._loop.time()
        driver = self._shard.driver
        driver.begin(self._heard)
        for message in messages:
            if "report" in message and isinstance(message["report"], dict):
                self._table.report(str(message.get("key")), message["report"], self._heard)
            elif "connect" in message:
                self._connect(str(message["connect"]), message.get("id"))
        self._shard.event_loop.schedule()
        self._write()

    def _connect(self, key: str, number: Any) -> None:
        """Answer the request for a connection to this broker."""
        spec = self._table.wanted().get(key)
        user = "" if spec is None else str(spec["run_as"])
        refusal = "the bridge is not to run any more" if spec is None else ""
        refusal = refusal or self._shard.driver.services.access_refusal(user, True)
        if len(self._replies) >= REPLIES_MOST:
            return
        if refusal:
            self._replies.append(({"refused": number, "reason": refusal}, None))
            return
        ours, theirs = socket.socketpair()
        for each in (ours, theirs):
            each.setblocking(False)
        self._connections += 1
        self._replies.append(({"connected": number}, theirs))
        taken = self._loop.create_task(self._shard.take_internal(ours, user, f"bridge:{self._connections}"))
        taken.add_done_callback(lambda task: ours.close() if task.exception() is not None else None)

    def _write(self) -> None:
        """Send what the worker has to know, as far as it reads."""
        channel = self._channel
        if channel is None:
            return
        try:
            is_done = channel.flush() and self._answer(channel) and self._tell(channel)
            is_done = is_done and self._tell_news(channel) and channel.flush()
        except ChannelEnded as error:
            self._lose(str(error))
            return
        if not is_done and not self._is_writing:
            self._loop.add_writer(channel.fileno(), self._write)
        elif is_done and self._is_writing:
            self._loop.remove_writer(channel.fileno())
        self._is_writing = not is_done

    def _answer(self, channel: BridgeChannel) -> bool:
        """Send answers to requests; return whether all are sent."""
        while self._replies:
            row, sock = self._replies[0]
            if not channel.send(row, None if sock is None else sock.fileno()):
                return False
            self._replies.popleft()
            if sock is not None:
                sock.close()
        return True

    def _tell(self, channel: BridgeChannel) -> bool:
        """Send what has changed of the wanted bridges; return whether all is sent."""
        if self._is_leaving:
            return channel.send({"stop": True})
        epoch = self._table.epoch
        if epoch == self._epoch:
            return True
        wanted = self._table.wanted()
        for key in [key for key in self._known if key not in wanted]:
            if not channel.send({"end": key, "gone": self._table.get(key) is None}):
                return False
            del self._known[key]
        if not wanted:
            self._is_leaving = True
            return self._tell(channel)
        driver = self._shard.driver
        name = driver.broker.table.parameters.cluster_name(driver.name)
        ports = [port for kind, _, port in driver.process.listeners if kind.startswith("amqp")]
        for key, spec in wanted.items():
            if self._known.get(key) != spec["revision"]:
                if not channel.send({"run": {**spec, "ports": ports}, "cluster": name}):
                    return False
                self._known[key] = spec["revision"]
        self._epoch = epoch
        return True

    def _tell_news(self, channel: BridgeChannel) -> bool:
        """Send news of bridges that the worker knows; return whether all are sent."""
        for key in list(self._news):
            if key in self._known and not channel.send({"look": key}):
                return False
            del self._news[key]
        return True
