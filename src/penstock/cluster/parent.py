"""Parent: the process of a node that listens, logs clients in, and gives each to the shard of its virtual host.

The parent has two brokers of its own, both without queues. The *office* owns users and virtual hosts: its store is the
catalogue. The *desk* logs clients in (desk.py) and has no virtual hosts; it copies users from the catalogue, as shards
do. A client that is given away costs the parent nothing.

A client whose shard has no process waits, for most of the time that a login may take. A shard that is given up answers
at once, with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from penstock.cluster.access_pages import page_after, read_place
from penstock.cluster.access_pull import AccessPull
from penstock.cluster.adoption import FOLDER, prepare
from penstock.cluster.catalogue import Catalogue, CatalogueReader
from penstock.cluster.door import Door
from penstock.cluster.front import Front
from penstock.cluster.node_http import NodeHttp
from penstock.cluster.node_inside import NodeInside
from penstock.cluster.node_view import NodeView
from penstock.cluster.open_clients import OpenClients
from penstock.cluster.packet_channel import Packet, Row
from penstock.cluster.passing import WAITING_MOST, Handed, Passer, StillPassing, new_channel, new_key
from penstock.cluster.settings_feed import SettingsFeed
from penstock.cluster.shard_orders import (
    ASK_ENDS,
    CERTIFICATES,
    ENDED,
    HAS,
    PAGE,
    PULL,
    RELOAD,
    RELOADED,
    SHARE,
    VERSION,
    ShardOrder,
)
from penstock.cluster.shard_watch import Patience, ShardWatch
from penstock.cluster.shares import Shares
from penstock.cluster.supervision import ShardListener, Supervision
from penstock.cluster.ways import Ways
from penstock.cluster.zygote import Zygote
from penstock.core.settings.changes import replace_file_steps
from penstock.errors import NotAllowed, PenstockError, StartError, StoreError
from penstock.flow.work import finish
from penstock.logs.ids import READY, STOPPED, STOPPING, STORE_UNREADABLE
from penstock.logs.logger import log
from penstock.operations.users import replace_file_users
from penstock.server.addresses import shown
from penstock.server.applied_settings import AppliedSettings, warn_of_open_file
from penstock.server.login_record import LoginRecord
from penstock.server.logins import Logins
from penstock.server.node import node_name, warn_of_guest
from penstock.server.settings_reload import SettingsReload
from penstock.server.shard import AUDIT_LOG, Allowance, Shard
from penstock.server.start_report import counted_connections, log_start
from penstock.settings.config import Settings
from penstock.settings.start import NO_LOG
from penstock.store.directory import DataDirectory
from penstock.store.node_folder import folder_of

NODE_LOG: Final = "node"
"""Folder of the node's own log in a folder that settings name, beside those of its shards."""
HEAR_S: Final = 0.5
"""Longest wait of a client at a limit for reports of ends."""
LEAST_WAITING: Final = 16
"""Clients of one shard that may wait for it, however few files the node may open."""
NUMBERS: Final = 10**12
"""Numbers of connections that the node gives; those of connections that begin in a shard are above."""
RETRY_S: Final = 0.5
"""Seconds until a shard that does not read is asked again to apply the settings."""


class Parent(ShardListener):
    """The node."""

    def __init__(
        self,
        zygote: Zygote,
        settings: Settings,
        data: Path,
        shards: int,
        machine: Allowance,
        patience: Patience | None = None,
    ) -> None:
        """`zygote` was begun with the same settings. `shards` is the least number of shards.

        Raises ConfigError, and StartError for settings that name a database.
        """
        if settings.store is not None:
            raise StartError("shards need a data directory, and the setting 'store' names a database")
        self._settings = settings
        self.data = data
        """Data directory of the node, which is that of its first shard."""
        self._least = shards
        self._name = node_name()
        self._machine = machine
        self._loop = asyncio.get_running_loop()
        self._directory = DataDirectory(data / FOLDER)
        self.supervision = Supervision(zygote, self._loop, self, patience)
        self._shares = Shares(machine, self._send_share)
        self._doors: dict[str, Door] = {}
        self.vhosts: dict[str, str] = {}
        """Shard of each virtual host."""
        self._reader: CatalogueReader | None = None
        self._ready = False
        """True from the end of the start until the stop."""
        self._began = self._loop.time()
        self._feed = SettingsFeed(self._loop)
        self._asked = 0
        """Number of times that the shards were asked for ends."""
        self._reloads = 0
        """Number of reloads of the settings file that the shards were asked for."""
        own = _own_settings(settings, data)
        catalogue = Catalogue(data / FOLDER, self._committed)
        self.office = Shard(self._name, own, None, machine, store=catalogue)
        self._desk = Shard(self._name, own, None, machine, audit_log=self.office.audit_log)
        self._logins = Logins(settings, self._desk.driver)
        self._pull: AccessPull | None = None
        self.clients = OpenClients(self._desk.driver)
        self._view = NodeView(self.supervision, self.vhosts, self.office)
        self.applied = AppliedSettings(own, self.office, settings)
        self.reload = SettingsReload(settings.file, self._reload)
        self.front = Front(settings, self._desk, self.vhosts.__contains__, self._give, self._give)
        self.inside = NodeInside(
            self.office, settings, self._doors, self.vhosts, self, (patience or Patience()).silence_s
        )
        """Requests of shards to the node, and of the node to its shards."""
        ways = Ways(self.vhosts, self._doors, self.inside.place_of)
        self.http = NodeHttp(settings, self.office, self._desk, ways, self.inside.answers, self.front.listeners)
        """HTTP API, console, metrics and probes of the node."""
        warn_of_open_file(settings)

    def catalogue(self) -> int:
        """See `Versions`."""
        return self._version()

    def desk(self) -> int:
        """See `Versions`."""
        return -1 if self._pull is None else self._pull.version

    async def start(self) -> None:
        """Open the catalogue, start the shards, and listen. Raises StartError, StoreError, after releasing all."""
        self._directory.lock()
        try:
            log_start(self._settings, str(self.data), self._desk.driver)
            await asyncio.to_thread(prepare, self.data, self._least, self._settings.vhosts)
            for shard in (self.office, self._desk):
                shard.begin()
                await shard.hold_store()
                await shard.restore()
                shard.admit()
            await self._make_scram_secret()
            self._reader = CatalogueReader(self.data / FOLDER)
            self.vhosts.update(self._reader.vhosts())
            self.applied.begin()
            self.front.read_certificates(self.office, partial(self._tell_all, {CERTIFICATES: True}))
            self._pull = AccessPull(self._desk, self._answer_desk)
            self._pull.ask()
            await self._pull.whole.wait()
            self._logins.start(self._desk.event_loop)
            self.inside.start()
            await self.http.open_metrics()
            self._start_shards([row.name for row in self._reader.shards()])
            await self.office.import_definitions()
            self.office.admit()
            await self.front.listen()
            await self.http.start(self.front.tls)
            self._tell_ready()
        except BaseException:
            await self.stop()
            raise

    async def _make_scram_secret(self) -> None:
        """Have the catalogue store the secret of salts for SCRAM, by which the desk tells no unknown user apart."""
        driver, event_loop = self.office.driver, self.office.event_loop
        driver.begin(event_loop.loop.time())
        before = driver.broker.durable_changes.durable_declarations
        driver.services.make_scram_secret()
        event_loop.schedule()
        if driver.broker.durable_changes.durable_declarations != before:
            await event_loop.on_disk(before)

    def _start_shards(self, names: list[str]) -> None:
        self.supervision.begin()
        most = max(LEAST_WAITING, min(WAITING_MOST, self._machine.open_files // 2 // len(names)))
        for name in names:
            self._doors[name] = Door(most)
            self._shares.add(name)
        for name in names:
            self._doors[name].watch = self.supervision.add(name)

    def _tell_ready(self) -> None:
        front, http = self.front, self.http
        addresses = front.addresses + front.tls_addresses + http.http_addresses + http.https_addresses
        warn_of_guest(self._desk.driver, addresses)
        at = ", ".join(f"{kind} {shown(host, port)}" for kind, host, port in front.listeners)
        log(READY, "Ready : %s", at)
        self._ready = True

    async def stop(self) -> None:
        """Stop to listen, stop the shards in order, and close the catalogue."""
        if self._ready:
            log(STOPPING, "Shutting down : %s", counted_connections(self.clients.total()))
        self.front.stop_accepting()
        self.reload.cancel()
        await self.http.stop()
        await self.inside.stop()
        await self.supervision.stop()
        self._feed.close()
        for door in self._doors.values():
            door.close()
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        for shard in (self._desk, self.office):
            await shard.close()
        self.front.release()
        await self.applied.stop()
        self._logins.stop()
        for shard in (self._desk, self.office):
            await shard.release()
        self._directory.unlock()
        if self._ready:
            self._ready = False
            log(STOPPED, "Stopped : after %.1f s", self._loop.time() - self._began)

    async def wait_lost(self) -> PenstockError:
        """Wait until the node must stop: the zygote has ended, or the catalogue is lost."""
        zygote = self.supervision.lost
        catalogue = asyncio.ensure_future(self.office.wait_lost())
        both: tuple[asyncio.Future[Any], ...] = (zygote, catalogue)
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if catalogue.done():
            return catalogue.result()
        catalogue.cancel()
        return StartError(zygote.result())

    # Clients

    async def _give(self, vhost: str, record: Handed, sock: socket.socket) -> str:
        shard = self.vhosts.get(vhost)
        if shard is None or self._pull is None:
            return f"vhost '{vhost}' was deleted"
        door = self._doors[shard]
        if isinstance(record, int):
            return await door.give(self._pull.version, record, sock)
        await self._count(record, vhost)
        clients, number = self.clients, record.number
        try:
            reason = await door.give(self._pull.version, record, sock)
        except StillPassing:
            clients.taken(number, shard)
            raise
        except BaseException:
            clients.leave(number)
            raise
        if reason:
            clients.leave(number)
        else:
            clients.taken(number, shard)
        return reason

    async def _count(self, record: LoginRecord, vhost: str) -> None:
        """Count a client that is to be given away. Raises NotAllowed at a limit of the node.

        At a limit the shards are asked for ends first: a client that connects again may be faster than their report.
        """
        try:
            self.clients.enter(record, vhost)
        except NotAllowed:
            await self._hear_ends()
            self.clients.enter(record, vhost)

    async def _hear_ends(self) -> None:
        """Wait until all shards have reported the ends of before, for a moment at most."""
        self._asked += 1
        number = self._asked
        asked = [door for name, door in self._doors.items() if self.supervision.send(name, {ASK_ENDS: number})]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEAR_S):
                for door in asked:
                    while door.heard < number:
                        await door.changed.wait()

    # Settings

    async def _reload(self, settings: Settings) -> None:
        """Apply a settings file that was read again, here and in all shards."""
        if not await self.applied.replace(settings, self.front.certificates):
            return
        warn_of_open_file(settings)
        if settings.tls is not None:
            self.front.use_names(settings.tls)
        driver = self._desk.driver
        driver.begin(self._loop.time())
        finish(replace_file_steps(driver.broker, settings.patterns))  # The office has accepted them.
        replace_file_users(driver, settings.users)
        self._desk.apply(self.applied.settings)
        self._desk.event_loop.schedule()
        self._feed.renew(settings)
        self._reloads += 1
        await asyncio.gather(*[self._renew(name, door, self._reloads) for name, door in self._doors.items()])

    async def _renew(self, name: str, door: Door, number: int) -> None:
        """Have a shard apply the settings file, and wait for its answer. A process that starts later has it."""
        door.awaited_reload = number
        while door.awaited_reload == number:
            with self._feed.begin() as sock:
                if self.supervision.send(name, {RELOAD: number}, [sock]):
                    break
            if door.passer is None:
                return
            await asyncio.sleep(RETRY_S)  # The shard does not read: it is asked again, or killed.
        while door.awaited_reload == number:
            await door.changed.wait()

    def _tell_all(self, message: Row) -> None:
        """Send a message to all shards that have a process."""
        for name in self._doors:
            self.supervision.send(name, message)

    # Shards

    @override
    def sockets(self, name: str) -> list[socket.socket]:
        door = self._doors[name]
        door.close()
        ours, theirs = new_channel()
        door.key = new_key()
        door.version = -1
        door.passer = Passer(ours, door.key)
        return [theirs, self._feed.begin()] if self._feed.was_renewed else [theirs]

    @override
    def order(self, name: str) -> Row:
        data = folder_of(self.data, name)
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._shares.begin(name)
        share = self._shares.share()
        place = list(self._doors).index(name)
        order = ShardOrder(
            name, str(data), self._name, tuple(share), self.inside.name_of(name), True, self._doors[name].key.hex(),
            place + 1, self.inside.secret, self.inside.name, (place + 1) * NUMBERS, self._feed.was_renewed,
            self.inside.silence_s,
        )  # fmt: skip
        return order.row()

    @override
    def question(self) -> Row:
        self._shares.send_all()
        return {VERSION: self._version()}

    @override
    def changed(self, watch: ShardWatch) -> None:
        door = self._doors[watch.name]
        door.watch = watch
        self.inside.changed(watch.name)
        if not watch.has_process:
            door.close()
            self.clients.shard_ended(watch.name)
        door.change()
        self._view.changed()

    @override
    def received(self, name: str, packet: Packet) -> None:
        super().received(name, packet)
        message, door = packet.message, self._doors[name]
        if PULL in message:
            self._answer(message, name, lambda page: self.supervision.send(name, {PAGE: page}))
        if HAS in message and message[HAS] != door.version:
            door.version = int(message[HAS])
            door.change()
            self.inside.answers.met()
        if ENDED in message:
            self.clients.ended(name, message[ENDED])
        if ASK_ENDS in message:
            door.heard = int(message[ASK_ENDS])
            door.change()
        if RELOADED in message and message[RELOADED] == door.awaited_reload:
            door.awaited_reload = 0
            door.change()

    def _send_share(self, name: str, share: Allowance) -> bool:
        return self.supervision.send(name, {SHARE: list(share)})

    # The catalogue

    def _answer_desk(self, request: Row) -> None:
        """Answer the desk's own pull, in the next pass of the loop."""
        pull = self._pull
        assert pull is not None
        if PULL in request:
            self._answer(request, "", lambda page: self._loop.call_soon(pull.apply, page))
        if HAS in request:
            self.inside.answers.met()

    def _answer(self, request: Row, shard: str, send: Callable[[Row], object]) -> None:
        """Answer a request for a page. A catalogue that cannot be read is asked again after the next question."""
        if self._reader is None:
            return
        try:
            send(page_after(self._reader, read_place(request[PULL]), shard))
        except StoreError as error:
            log(STORE_UNREADABLE, "%s", error)

    def _version(self) -> int:
        """Return the version of the catalogue; that of the desk while it cannot be read."""
        try:
            return -1 if self._reader is None else self._reader.version()
        except StoreError as error:
            log(STORE_UNREADABLE, "%s", error)
            return -1 if self._pull is None else self._pull.version

    def _committed(self, version: int) -> None:
        """Spread a change. The thread of the store calls this."""
        self._loop.call_soon_threadsafe(self._spread, version)

    def _spread(self, version: int) -> None:
        if self._reader is None or self._pull is None:
            return
        try:
            placed = self._reader.vhosts()
        except StoreError as error:
            log(STORE_UNREADABLE, "%s", error)
            return
        self.vhosts.clear()
        self.vhosts.update(placed)
        self._pull.meet(version)
        self._tell_all({VERSION: version})


def _own_settings(settings: Settings, data: Path) -> Settings:
    """Return the settings of the brokers of the node itself, which have no queues."""
    audit_log = _audit_log(settings, data)
    return replace(settings, vhosts=[], traces_endpoint=None, flow_log=NO_LOG, audit_log=audit_log)


def _audit_log(settings: Settings, data: Path) -> str:
    """Return the folder of the node's audit log: of logins, and of changes of users and virtual hosts."""
    given = settings.audit_log
    if given is None:
        return str(data / FOLDER / AUDIT_LOG)
    return given if given == NO_LOG else str(Path(given) / NODE_LOG)
