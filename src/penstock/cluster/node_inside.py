"""Sockets inside one node: those at which its parent answers, and the clients of its shards."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from penstock.cluster.answers import NodeAnswers, NodeAsks, ShardDoor, Versions
from penstock.cluster.asking import Peer
from penstock.cluster.import_parts import ShardImports
from penstock.cluster.ways import Place
from penstock.server.http.asks import Asks, Inside, OwnAsks
from penstock.server.http.listener import HttpListener
from penstock.server.inside import SILENCE_S, listening_at
from penstock.server.shard import Shard
from penstock.settings.config import Settings


class NodeInside:
    """Requests between the processes of one node."""

    def __init__(
        self,
        office: Shard,
        settings: Settings,
        doors: Mapping[str, ShardDoor],
        vhosts: Mapping[str, str],
        versions: Versions,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.silence_s = silence_s
        """Silence after which a process counts as one that does not answer."""
        self._office = office
        self._settings = settings
        self.secret = secrets.token_hex(32)
        """Key of all requests inside the node."""
        self.name = f"penstock-{secrets.token_hex(8)}"
        """Name of the socket at which the node answers its shards."""
        self._peers: dict[str, Peer] = {}
        self._listeners: list[HttpListener] = []
        self.answers = NodeAnswers(office, doors, vhosts, versions, self.peer, silence_s)
        self._imports = ShardImports(office, self.answers)

    def name_of(self, shard: str) -> str:
        """Return the name of the socket of a shard; of the office for an empty name."""
        return f"{self.name}-{shard or 'office'}"

    def place_of(self, shard: str) -> Place:
        """Return where a shard serves requests over HTTP."""
        return Place(self.name_of(shard), self.secret)

    def peer(self, shard: str) -> Peer:
        """Return the client of a shard; of the office for an empty name."""
        found = self._peers.get(shard)
        if found is None:
            found = self._peers[shard] = Peer(self.name_of(shard), self.secret, self.silence_s)
        return found

    def changed(self, shard: str) -> None:
        """Forget the connections to a process of a shard: another one may follow."""
        peer = self._peers.pop(shard, None)
        if peer is not None:
            peer.close()

    def start(self) -> None:
        """Answer shards, and the node's own requests to the office. Raises StartError."""
        self._office.driver.jobs.numbers.begin_with(0)
        self._office.driver.alarms.numbers.begin_with(0)
        self._office.driver.parts = self._imports
        self._serve(self.name, NodeAsks(self.answers))
        self._serve(self.name_of(""), OwnAsks(""))

    def _serve(self, name: str, asks: Asks) -> None:
        listener = HttpListener(self._office.event_loop, self._settings, True, Inside(self.secret, asks))
        self._listeners.append(listener)
        listener.start_inside(listening_at(name))

    async def stop(self) -> None:
        """Answer nobody any more."""
        await self._imports.stop()
        await self.answers.stop()
        for listener in self._listeners:
            await listener.stop()
        self._listeners.clear()
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()
