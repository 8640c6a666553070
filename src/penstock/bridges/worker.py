"""Worker of a broker: one process that runs all bridges of the broker, as `python -m penstock.bridges.worker FD`.

FD is the channel to the broker (server/bridge_channel.py). The end of the channel is the end of the broker, and the
worker ends at once. SIGTERM ends it in order, because a service manager sends it to all processes of the broker.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections import deque
from contextlib import suppress
from typing import Any, Final

from penstock.bridges.runs import STOP_S, Bridge
from penstock.client.errors import ClientError
from penstock.logs.ids import INTERNAL_ERROR
from penstock.logs.logger import log
from penstock.server.bridge_channel import BridgeChannel, ChannelEnded

Row = dict[str, Any]
DIAL_S: Final = 10.0
"""Most seconds until the broker answers a request for a connection."""
ALIVE_S: Final = 3.0
"""Seconds between two signs of life to the broker, which kills a worker that hangs."""
LAST_S: Final = 4.0
"""Most seconds for the ends of all bridges when the broker stops."""


class Worker:
    """All bridges of a broker, and the channel to it."""

    def __init__(self, channel: BridgeChannel) -> None:
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._wanted: dict[str, tuple[Row, str]] = {}
        """Spec of each bridge that is to run, with the name of the cluster."""
        self._running: dict[str, tuple[asyncio.Task[None], Bridge]] = {}
        self._reports: dict[str, Row] = {}
        """Newest report of each bridge that is not sent yet."""
        self._requests: deque[Row] = deque()
        """Requests for connections that are not sent yet; one for each end of a bridge at most."""
        self._dials: dict[int, asyncio.Future[socket.socket]] = {}
        self._number = 0
        self._is_writing = False
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Serve until the broker says stop, or SIGTERM; then end all bridges in order."""
        self._loop.add_reader(self._channel.fileno(), self._read)
        self._loop.add_signal_handler(signal.SIGTERM, self._ended.set)
        self._loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is for the broker, which then stops it.
        self._show_life()
        await self._ended.wait()
        self._wanted.clear()
        tasks = [task for task, _ in self._running.values()]
        for _, bridge in self._running.values():
            bridge.stop()
        if tasks:
            await asyncio.wait(tasks, timeout=LAST_S)

    # The broker's messages

    def _read(self) -> None:
        try:
            messages = self._channel.receive()
            for message in messages:
                self._take(message)
        except ChannelEnded:
            os._exit(0)  # The broker is gone. What is on its way is delivered again.

    def _take(self, message: Row) -> None:
        if "run" in message:
            spec = message["run"]
            self._wanted[spec["key"]] = spec, str(message.get("cluster", ""))
            self._renew(spec["key"])
        elif "end" in message:
            self._wanted.pop(message["end"], None)
            self._renew(message["end"], message.get("gone") is True)
        elif "look" in message:
            running = self._running.get(message["look"])
            if running is not None:
                running[1].look()
        elif "connected" in message:
            self._connected(message["connected"])
        elif "refused" in message:
            dial = self._dials.pop(message["refused"], None)
            if dial is not None and not dial.done():
                dial.set_exception(ClientError(str(message.get("reason"))))
        elif "stop" in message:
            self._ended.set()

    def _connected(self, number: int) -> None:
        descriptor = self._channel.take_descriptor()
        if descriptor is None:
            return
        dial = self._dials.pop(number, None)
        if dial is None or dial.done():
            os.close(descriptor)
            return
        sock = socket.socket(fileno=descriptor)
        sock.setblocking(False)
        dial.set_result(sock)

    # Bridges

    def _renew(self, key: str, is_gone: bool = False) -> None:
        """End the bridge of a key, if there is one; what is wanted begins after its end."""
        running = self._running.get(key)
        if running is not None:
            running[1].stop(is_gone)
            self._loop.call_later(STOP_S, running[0].cancel)
            return
        wanted = self._wanted.get(key)
        if wanted is None:
            self._reports.pop(key, None)
            return
        spec, cluster = wanted

        def tell(row: Row) -> None:
            self._reports[key] = row
            self._write()

        async def dial() -> socket.socket:
            return await self._dial(key)

        bridge = Bridge(spec, cluster, dial, tell)
        task = self._loop.create_task(bridge.run())
        self._running[key] = task, bridge
        task.add_done_callback(lambda task: self._over(key, task))

    def _over(self, key: str, task: asyncio.Task[None]) -> None:
        del self._running[key]
        if not task.cancelled() and task.exception() is not None:
            log(INTERNAL_ERROR, "Bridge %s: %s", key, type(task.exception()).__name__)
            self._wanted.pop(key, None)  # Otherwise it would begin again at once, and again.
        self._renew(key)

    async def _dial(self, key: str) -> socket.socket:
        """Return a socket to the broker. Raises `ClientError`."""
        self._number += 1
        number = self._number
        dial: asyncio.Future[socket.socket] = self._loop.create_future()
        self._dials[number] = dial
        self._requests.append({"connect": key, "id": number})
        self._write()
        try:
            async with asyncio.timeout(DIAL_S):
                return await dial
        except TimeoutError:
            raise ClientError("the broker does not answer its worker") from None
        finally:
            self._dials.pop(number, None)

    # To the broker

    def _show_life(self) -> None:
        self._loop.call_later(ALIVE_S, self._show_life)
        if not self._is_writing:
            with suppress(ChannelEnded):  # The reader sees the end, too.
                self._channel.send({"alive": True})

    def _write(self) -> None:
        """Send what waits, as far as the broker reads; the rest when it has read."""
        try:
            while self._requests and self._channel.send(self._requests[0]):
                self._requests.popleft()
            while self._reports and not self._requests:
                key = next(iter(self._reports))
                if not self._channel.send({"report": self._reports[key], "key": key}):
                    break
                del self._reports[key]
            waits = not self._channel.flush() or bool(self._requests or self._reports)
        except ChannelEnded:
            os._exit(0)
        if waits and not self._is_writing:
            self._loop.add_writer(self._channel.fileno(), self._write)
        elif not waits and self._is_writing:
            self._loop.remove_writer(self._channel.fileno())
        self._is_writing = waits


def main(words: list[str]) -> None:
    """Run the worker on the channel with the descriptor that the only word names."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s")  # The broker logs states from the reports.
    channel = BridgeChannel(socket.socket(fileno=int(words[0])))

    async def run() -> None:
        await Worker(channel).run()

    with suppress(asyncio.CancelledError):
        asyncio.run(run())
    os._exit(0)  # Threads that resolve names are not awaited.


if __name__ == "__main__":
    main(sys.argv[1:])
