"""Supervision: the parent's side of its shards, which starts, asks, kills and stops their processes.

The zygote starts and signals processes. Each process has a channel of its own to the parent, and messages go both ways:
questions (`ping`) with their answers, the state, and whatever the node and its shards have to say. When a shard is away
is decided by its watch (shard_watch.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Iterable
from typing import Any, Final

from penstock.cluster.packet_channel import ChannelEnded, Packet, PacketChannel, Row
from penstock.cluster.shard_orders import FAILS, PING, PONG, SERVES, STOP
from penstock.cluster.shard_watch import IN_ORDER, STOPPED, Patience, ShardWatch
from penstock.cluster.zygote import ENDED, FORKED, Event, Zygote
from penstock.errors import StartError
from penstock.logs.ids import SHARD_DIED, SHARD_SERVES, SHARD_STOPPED
from penstock.logs.logger import log

ENDS_S: Final = 5.0
"""Seconds in which the zygote reports the ends of shards that were killed at the end of their time."""


class ShardListener:
    """Listener for the shards of a node; the methods do nothing by themselves."""

    def order(self, name: str) -> Row:
        """Return the order of a process that is about to start."""
        return {}

    def sockets(self, name: str) -> list[socket.socket]:
        """Return sockets for a process that is about to start, besides its channel; supervision closes them."""
        return []

    def question(self) -> Row:
        """Return what goes to each shard with each question."""
        return {}

    def changed(self, watch: ShardWatch) -> None:
        """Handle another state of a shard."""

    def received(self, name: str, packet: Packet) -> None:
        """Handle a message of a shard, and close its sockets. Messages of supervision come too."""
        for each in packet.sockets:
            each.close()


class _Supervised:
    """A shard with its channel."""

    def __init__(self, watch: ShardWatch) -> None:
        self.watch = watch
        self.channel: PacketChannel | None = None
        """Channel of the present process; None without one."""
        self.restart: asyncio.TimerHandle | None = None
        self.farewell = ""
        """Sentence for the clients of a process that is to stop; empty for that of any broker."""
        self.stopped = asyncio.Event()


class Supervision:
    """Shards of a node, by name."""

    def __init__(
        self,
        zygote: Zygote,
        loop: asyncio.AbstractEventLoop,
        listener: ShardListener,
        patience: Patience | None = None,
    ) -> None:
        self._zygote = zygote
        self._loop = loop
        self._listener = listener
        self._patience = patience or Patience()
        self._shards: dict[str, _Supervised] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._stops = False
        self.lost: asyncio.Future[str] = loop.create_future()
        """Done with a sentence when the zygote has ended, and all shards with it: the node must stop."""

    def begin(self) -> None:
        """Begin to supervise."""
        self._loop.add_reader(self._zygote.fileno(), self._read_zygote)
        self._tick()

    def watches(self) -> list[ShardWatch]:
        """Return the watches of all shards, in the order in which they were added."""
        return [each.watch for each in self._shards.values()]

    def add(self, name: str) -> ShardWatch:
        """Add a shard and start its process."""
        assert name not in self._shards, f"shard '{name}' is supervised already"
        shard = _Supervised(ShardWatch(name, self._loop.time(), self._patience))
        self._shards[name] = shard
        self._start(shard)
        return shard.watch

    def revive(self, name: str) -> None:
        """Start a shard again that is stopped."""
        shard = self._shards[name]
        shard.watch.revive(self._loop.time())
        shard.stopped.clear()
        self._start(shard)

    @property
    def stops(self) -> bool:
        """True once all shards are to stop."""
        return self._stops

    def watch(self, name: str) -> ShardWatch:
        """Return the watch of a shard."""
        return self._shards[name].watch

    def restart(self, name: str, farewell: str) -> None:
        """Stop the process of a shard in order, and start the next one at once; without a process, start one at once.

        `farewell` is the sentence for its clients. A process that does not end in time is killed. A node that stops
        restarts nothing.
        """
        shard = self._shards[name]
        if self._stops:
            return
        shard.watch.restart(self._loop.time())
        if shard.watch.is_restarting:
            shard.farewell = farewell
            self._changed(shard)
            self.send(name, {STOP: farewell})
        if shard.watch.has_process:
            return
        shard.stopped.clear()
        if shard.restart is not None:
            shard.restart.cancel()
        self._start(shard)

    def send(self, name: str, message: Row, sockets: Iterable[socket.socket] = ()) -> bool:
        """Send a message to a shard; return False if it has no process, or does not read."""
        shard = self._shards.get(name)
        if shard is None or shard.channel is None:
            return False
        try:
            return shard.channel.send(message, list(sockets))
        except ChannelEnded:  # The zygote reports the end of the process.
            return False

    async def stop(self) -> None:
        """Stop all shards in order; kill those that do not end in time. Then end the zygote.

        A zygote that hangs reports no ends: it is ended with what is left of its shards.
        """
        self._stops = True
        now = self._loop.time()
        for shard in self._shards.values():
            if shard.restart is not None:
                shard.restart.cancel()
            shard.watch.stop(now)
            self._changed(shard)
            self.send(shard.watch.name, {STOP: ""})
        ended = asyncio.ensure_future(self._await_ends())
        both: tuple[asyncio.Future[Any], ...] = (ended, self.lost)
        most = self._patience.stop_s + ENDS_S
        await asyncio.wait(both, timeout=most, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        self.abandon()

    async def _await_ends(self) -> None:
        for shard in self._shards.values():
            await shard.stopped.wait()

    def abandon(self) -> None:
        """End the zygote, which kills all shards."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._zygote.fileno())
        for shard in self._shards.values():
            self._close_channel(shard)
            if shard.restart is not None:
                shard.restart.cancel()
        self._zygote.stop()

    # Processes

    def _start(self, shard: _Supervised) -> None:
        """Start the process of a shard that is away; try again soon if the zygote does not read."""
        shard.restart = None
        watch = shard.watch
        now = max(self._loop.time(), watch.start_at)  # A timer may be early by the resolution of the clock.
        if not watch.is_due(now):
            return
        try:
            channel, theirs = PacketChannel.pair()
        except StartError as error:
            self._ended(shard, f"got no channel: {error}")
            return
        sockets = [theirs, *self._listener.sockets(watch.name)]
        try:
            if not self._zygote.fork(watch.name, self._listener.order(watch.name), sockets):
                shard.restart = self._loop.call_later(self._patience.ping_s, self._start, shard)
                channel.close()
                return
        except ChannelEnded:
            self._lose()
            channel.close()
            return
        finally:
            for each in sockets:
                each.close()
        shard.channel = channel
        shard.farewell = ""
        self._loop.add_reader(channel.fileno(), self._read_shard, shard)
        watch.begin(now)
        self._changed(shard)

    def _read_zygote(self) -> None:
        try:
            events = self._zygote.receive()
        except ChannelEnded:
            self._lose()
            return
        for event in events:
            shard = self._shards.get(event.name)
            if shard is not None:
                self._handle(shard, event)

    def _handle(self, shard: _Supervised, event: Event) -> None:
        if event.kind == FORKED:
            shard.watch.pid = event.pid
            return
        if event.kind == ENDED:
            self._read_shard(shard)  # Its last words.
        self._ended(shard, event.cause)

    def _ended(self, shard: _Supervised, cause: str) -> None:
        watch, now = shard.watch, self._loop.time()
        self._close_channel(shard)
        in_order = watch.is_stopping and (cause == IN_ORDER or not watch.is_restarting)
        watch.end(now, cause)
        if watch.state == STOPPED:
            shard.stopped.set()
        else:
            shard.restart = self._loop.call_at(watch.start_at, self._start, shard)
        if not in_order:
            log(SHARD_STOPPED if watch.state == STOPPED else SHARD_DIED, "%s", watch.sentence(now))
        self._changed(shard)

    def _close_channel(self, shard: _Supervised) -> None:
        if shard.channel is not None:
            self._loop.remove_reader(shard.channel.fileno())
            shard.channel.close()
            shard.channel = None

    def _lose(self) -> None:
        """Report that the zygote has ended."""
        self._loop.remove_reader(self._zygote.fileno())
        if not self.lost.done():
            self.lost.set_result("the zygote of the shards has ended, and all shards with it")

    def _changed(self, shard: _Supervised) -> None:
        self._listener.changed(shard.watch)
        if shard.watch.state == STOPPED:
            shard.stopped.set()

    # Messages

    def _read_shard(self, shard: _Supervised) -> None:
        if shard.channel is None:
            return
        try:
            packets = shard.channel.receive()
        except ChannelEnded:  # The zygote reports the end of the process, which nothing else shows for certain.
            self._loop.remove_reader(shard.channel.fileno())
            return
        for packet in packets:
            self._receive(shard, packet)

    def _receive(self, shard: _Supervised, packet: Packet) -> None:
        watch, message = shard.watch, packet.message
        watch.hear()
        if SERVES in message or message.get(PONG) is True:
            if watch.serve(self._loop.time()):
                log(SHARD_SERVES, "shard '%s' serves (process %d)", watch.name, watch.pid)
                self._changed(shard)
        if FAILS in message:
            watch.blame(str(message[FAILS]))
        self._listener.received(watch.name, packet)

    def _tick(self) -> None:
        """Ask each process, and kill those that have been silent for too long."""
        now = self._loop.time()
        for shard in self._shards.values():
            watch = shard.watch
            if watch.tick(now):
                self._kill(watch)
            elif watch.has_process:
                self.send(
                    watch.name,
                    {STOP: shard.farewell} if watch.is_stopping else {PING: True, **self._listener.question()},
                )
        self._timer = self._loop.call_later(self._patience.ping_s, self._tick)

    def _kill(self, watch: ShardWatch) -> None:
        """Kill a process; the next tick tries again if the zygote does not read."""
        with contextlib.suppress(ChannelEnded):
            self._zygote.signal(watch.name, signal.SIGKILL)
