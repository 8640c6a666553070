"""Process of a shard: a broker without ports, which lives as its channel to the node says.

The node answers for ports and certificates. The shard has the store, the broker, the threads for logins that are
renewed, and its logs. It reports when it serves, or why it cannot, and answers the node's questions from its event
loop: a loop that hangs does not answer.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from penstock.cluster.access_pull import AccessPull
from penstock.cluster.asking import Peer
from penstock.cluster.packet_channel import ChannelEnded, Packet, PacketChannel, Row
from penstock.cluster.passing import Taker, TakeStranger
from penstock.cluster.passing_up import PassingUp
from penstock.cluster.settings_feed import read_settings
from penstock.cluster.shard_orders import (
    ASK_ENDS,
    CERTIFICATES,
    ENDED,
    FAILS,
    HAS,
    PAGE,
    PING,
    PONG,
    RELOAD,
    RELOADED,
    SERVES,
    SHARE,
    STOP,
    VERSION,
    ShardOrder,
)
from penstock.errors import ConfigError, StartError, StoreError
from penstock.logs.ids import CERTIFICATE_REFUSED, RELOAD_REFUSED
from penstock.logs.logger import log
from penstock.protocols import standard_protocols
from penstock.server.applied_settings import AppliedSettings
from penstock.server.collector import FREEZER
from penstock.server.http.asks import Inside, OwnAsks
from penstock.server.http.listener import HttpListener
from penstock.server.inside import listening_at
from penstock.server.login_record import LoginRecord
from penstock.server.logins import Logins
from penstock.server.logs import logging_to_stderr, set_level, without_log
from penstock.server.prepared import prepare_process
from penstock.server.process_facts import ServerFacts
from penstock.server.shard import Allowance, Shard
from penstock.server.shard_bridges import ShardBridges
from penstock.server.start_report import log_start
from penstock.server.tls.contexts import ServedCertificates
from penstock.server.tls.layer import TlsLayer
from penstock.server.turn_loop import new_loop
from penstock.settings.config import Settings, renewed
from penstock.settings.start import NO_HTTP, NO_LOG

BEFORE_READY: Final = 1
"""Status of a process that could not serve, or has lost its store."""
LATE_MODULES: Final = ("concurrent.futures.thread", "penstock.server.http.connections")
"""Modules that a broker imports with the first request that needs them."""
LOGIN_THREADS: Final = 1
"""Threads for passwords: the node logs clients in, and shards renew secrets of those who are in."""
PASSES: Final = 4
"""Passes of the loop from the event of a socket's end to the end of its connection, at most."""
ENDS_AT_ONCE: Final = 1_000
"""Numbers of connections per report."""


def run_shard(settings: Settings, quiet: bool, name: str, order: Row, sockets: list[socket.socket]) -> int:
    """Be the process of a shard until the node stops it; return the status. `sockets` begins with the channel.

    `quiet`: no log is written.
    """
    channel, *others = sockets
    prepare_process()
    with (
        without_log() if quiet else logging_to_stderr(settings.log_level, settings.log_format, name),
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        return runner.run(ShardProcess(settings, ShardOrder.of(order), PacketChannel(channel), others, True).run())


class ShardProcess:
    """Process of one shard."""

    def __init__(
        self,
        settings: Settings,
        order: ShardOrder,
        channel: PacketChannel,
        sockets: Sequence[socket.socket] = (),
        alone: bool = False,
    ) -> None:
        """`sockets` has the channel by which clients come, if the order has its key, and the settings' text.

        `alone`: the process has no other work, so that its collector may freeze objects.
        """
        self._settings = settings
        self._order = order
        self._channel = channel
        self._sockets = list(sockets)
        self._alone = alone
        self._served = asyncio.Event()
        """Set when the shard serves."""
        self._stopping = asyncio.Event()
        self._farewell = ""
        """Sentence for the clients when the process stops; empty for that of any broker."""
        self._shard: Shard | None = None
        """The shard, once it has an event loop."""
        self._pull: AccessPull | None = None
        """Pull of the catalogue; None before the table can be changed, and without a catalogue."""
        self._applied: AppliedSettings | None = None
        self._certificates: ServedCertificates | None = None
        """Certificates for clients whose handshake is the shard's; None without TLS."""
        self._ended: list[int] = []
        """Numbers of connections whose ends the node does not know; no more than connections that were here."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Serve until the node asks to stop; return the status of the process."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._channel.fileno(), self._read)
        try:
            await self._renew()
            await self._serve()
        except (StartError, ConfigError, StoreError) as error:
            self._send({FAILS: str(error)})
            return BEFORE_READY
        finally:
            loop.remove_reader(self._channel.fileno())
        return 0

    async def _renew(self) -> None:
        """Use the settings file as the node has read it last. Raises ConfigError."""
        if self._order.renewed:
            file = self._settings.file
            assert file is not None
            self._settings = renewed(self._settings, await read_settings(self._sockets.pop(), file))
            set_level(self._settings.log_level)

    async def _serve(self) -> None:
        """Start, serve and stop. Raises StartError, ConfigError, and StoreError also for a store that is lost."""
        order = self._order
        settings = settings_of(self._settings, order)
        shard = Shard(order.node, settings, order.data, Allowance(*order.share))
        shard.driver.first_number = order.first_number
        logins = Logins(settings, shard.driver)
        http: HttpListener | None = None
        up: PassingUp | None = None
        taker: Taker | None = None
        bridges = ShardBridges(shard)
        shard.lock()
        try:
            shard.begin()
            self._shard = shard
            shard.driver.process = ServerFacts(shard.event_loop, [])
            self._applied = applied = AppliedSettings(settings, shard, self._settings)
            applied.begin()
            await shard.hold_store()
            if shard.storage_location:
                log_start(self._settings, shard.storage_location, shard.driver)
            logins.start(shard.event_loop)
            await shard.restore()
            await shard.import_definitions()
            if order.copies:
                self._pull = AccessPull(shard, self._send)
                self._pull.ask()
                await self._await_copy(self._pull)
            http = await _listen(shard, settings, order)
            if order.secret:
                up = _pass_up(shard, order)
            shard.admit()
            bridges.serve()
            if order.key:
                taker = self._take_clients(shard)
            self._served.set()
            self._send({SERVES: True})
            if self._alone:
                FREEZER.start(shard.driver.broker.work.done)
            await self._serve_until_stopped(shard)
        finally:
            await bridges.stop()
            if taker is not None:
                taker.close()
            if up is not None:
                await up.stop()
            if http is not None:
                await http.stop()
            for task in self._tasks:
                task.cancel()
            if self._applied is not None:
                await self._applied.stop()
            try:
                await shard.close(self._farewell)
            finally:
                if self._certificates is not None:
                    self._certificates.stop()
                logins.stop()
                await shard.release()

    def _take_clients(self, shard: Shard) -> Taker:
        """Take the clients that the node gives to this shard. Raises ConfigError for certificates."""
        channel = self._sockets[0]
        channel.setblocking(False)
        tls = self._settings.tls if self._settings.listen_tls else None
        stranger: TakeStranger | None = None
        if tls is not None:
            self._certificates = ServedCertificates(shard.driver, shard.event_loop.loop, tls)
            shard.driver.certificates = self._certificates
            stranger = partial(shard.take_stranger, partial(TlsLayer, self._certificates.server))
        return Taker(channel, bytes.fromhex(self._order.key), partial(self._take, shard), self._stopping.set, stranger)

    async def _take(self, shard: Shard, sock: socket.socket, record: LoginRecord) -> None:
        """Serve a client that the node has logged in, and report its end."""
        end = partial(self._end, record.number)
        try:
            await shard.take_handed(sock, record, end)
        except BaseException:
            end()
            raise

    def _end(self, number: int) -> None:
        """Report the end of a connection, with the other ends of this pass of the loop."""
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._report_ends)
        self._ended.append(number)

    def _answer_ends(self, number: int, passes: int) -> None:
        """Answer after so many passes of the loop, in which ends of sockets are read and handled."""
        if passes:
            asyncio.get_running_loop().call_soon(self._answer_ends, number, passes - 1)
            return
        self._report_ends()
        self._send({ASK_ENDS: number})

    def _report_ends(self) -> None:
        """Report ends; those that the node does not read now are reported with the next answer."""
        try:
            while self._ended and self._channel.send({ENDED: self._ended[:ENDS_AT_ONCE]}):
                del self._ended[:ENDS_AT_ONCE]
        except ChannelEnded:
            self._ended.clear()
            self._stopping.set()

    async def _serve_until_stopped(self, shard: Shard) -> None:
        """Wait for the request to stop. Raises StoreError if the store is lost before."""
        lost = asyncio.ensure_future(shard.wait_lost())
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([lost, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if lost.done():
            raise lost.result()
        lost.cancel()

    async def _await_copy(self, pull: AccessPull) -> None:
        """Wait until the shard has all users, or is to stop."""
        both = [asyncio.ensure_future(pull.whole.wait()), asyncio.ensure_future(self._stopping.wait())]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for each in both:
            each.cancel()

    # Channel

    def _read(self) -> None:
        try:
            packets = self._channel.receive()
        except ChannelEnded:  # The node has ended, and this process is about to be killed.
            asyncio.get_running_loop().remove_reader(self._channel.fileno())
            self._stopping.set()
            return
        for packet in packets:
            self._receive(packet)

    def _receive(self, packet: Packet) -> None:
        message = packet.message
        if PING in message:
            self._report_ends()
            self._send({PONG: self._served.is_set(), HAS: -1 if self._pull is None else self._pull.version})
        if ASK_ENDS in message:
            self._answer_ends(message[ASK_ENDS], PASSES)
        if STOP in message:
            self._farewell = str(message[STOP])
            self._stopping.set()
        if SHARE in message and self._shard is not None:
            self._shard.allow(Allowance(*message[SHARE]))
        if VERSION in message and self._pull is not None:
            self._pull.meet(int(message[VERSION]))
        if PAGE in message and self._pull is not None:
            self._pull.apply(message[PAGE])
        if CERTIFICATES in message and self._certificates is not None:
            self._begin(self._reload_certificates(self._certificates))
        if RELOAD in message and packet.sockets:
            self._begin(self._reload(message[RELOAD], packet.sockets.pop(0)))
        for each in packet.sockets:
            each.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reload(self, number: int, sock: socket.socket) -> None:
        """Apply a settings file that the node has read again, and answer."""
        try:
            file = self._settings.file
            assert file is not None
            settings = await read_settings(sock, file)
            await self._served.wait()
            if self._applied is not None:
                await self._applied.replace(settings, self._certificates)
        except ConfigError as error:
            log(RELOAD_REFUSED, "reload: the old settings stay: %s", error)
        finally:
            self._send({RELOADED: number})

    async def _reload_certificates(self, certificates: ServedCertificates) -> None:
        """Read the certificates again, as the node has done."""
        try:
            await certificates.replace(certificates.settings)
        except ConfigError as error:
            log(CERTIFICATE_REFUSED, "tls: the old certificates stay: %s", error)

    def _send(self, message: Row) -> None:
        """Send a message; one that the node does not accept is dropped, because the node asks again."""
        try:
            self._channel.send(message)
        except ChannelEnded:
            self._stopping.set()


async def _listen(shard: Shard, settings: Settings, order: ShardOrder) -> HttpListener:
    """Serve HTTP for the node. Raises StartError."""
    if not order.secret:
        http = HttpListener(shard.event_loop, settings, True)
        await http.start(f"unix:{order.http}", 0)
        return http
    http = HttpListener(shard.event_loop, settings, True, Inside(order.secret, OwnAsks(order.name)))
    http.start_inside(listening_at(order.http))
    return http


def _pass_up(shard: Shard, order: ShardOrder) -> PassingUp:
    """Pass requests up to the node that are not about this shard."""
    up = PassingUp(shard, order.name, Peer(order.parent, order.secret, order.silence_s))
    shard.driver.control.elsewhere = up
    shard.driver.jobs.numbers.begin_with(order.number)
    shard.driver.alarms.numbers.begin_with(order.number)
    return up


def settings_of(settings: Settings, order: ShardOrder) -> Settings:
    """Return the settings of a shard: its own directories, no address, and no virtual host but those of its node."""
    return replace(
        settings, data=order.data, store=None, listen=[], listen_tls=[], http=NO_HTTP, http_tls=None,
        metrics_listen=None, login_threads=LOGIN_THREADS, vhosts=[] if order.copies else settings.vhosts,
        definitions=None if order.copies else settings.definitions,
        flow_log=_within(settings.flow_log, order.name), audit_log=_within(settings.audit_log, order.name),
    )  # fmt: skip


def _within(folder: str | None, name: str) -> str | None:
    """Return the folder of a shard's log in a folder that settings name."""
    return folder if folder is None or folder == NO_LOG else str(Path(folder) / name)


def main_of(settings: Settings, quiet: bool = False) -> partial[int]:
    """Import all that shards need, and return the function that is the process of a shard with these settings.

    What is imported before the fork of the zygote costs a shard no time, and its memory is shared.
    """
    standard_protocols()
    for each in LATE_MODULES:
        import_module(each)
    return partial(run_shard, settings, quiet)
