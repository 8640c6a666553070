"""Front of a node: its listeners for AMQP, without and with TLS, and its certificates.

A client with TLS whose server name belongs to a virtual host goes to the shard of the virtual host before the
handshake. The name is that of `vhost` in `[tls.names]`, or the name of a virtual host itself. All other clients with
TLS make their handshake here, and are relayed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.cluster.desk import Desk, Give
from penstock.cluster.hello_desk import GiveStranger, HelloDesk
from penstock.errors import StartError
from penstock.server.addresses import parse_address
from penstock.server.listener import Listener, Take
from penstock.server.shard import Shard
from penstock.server.tls.contexts import ServedCertificates, TlsServer, served_tls
from penstock.server.tls.layer import TlsLayer
from penstock.settings.config import Settings
from penstock.settings.file_tables import TlsSettings

NO_ADDRESS: Final = "the node has no address to listen at: set listen or listen-tls"


class Front:
    """Listeners and certificates of one node."""

    def __init__(
        self,
        settings: Settings,
        desk: Shard,
        knows: Callable[[str], bool],
        give: Give,
        give_stranger: GiveStranger,
    ) -> None:
        """`desk` logs clients in. `knows` returns whether a shard has a virtual host.

        `give` and `give_stranger` give a client to the shard of a virtual host; the latter one without a login.
        Raises StartError for an invalid address.
        """
        plain = [parse_address(address) for address in settings.listen]
        secured = [parse_address(address, "--listen-tls") for address in settings.listen_tls]
        if not plain and not secured:
            raise StartError(NO_ADDRESS)
        self._plain = plain
        self._secured = secured
        self._settings = settings
        self._desk_shard = desk
        self._knows = knows
        self._give = give
        self._give_stranger = give_stranger
        self._names: dict[str, str] = {}
        """Virtual hosts by the names of servers in `[tls.names]`."""
        self._listeners: list[Listener] = []
        self._desk: Desk | None = None
        self.certificates: ServedCertificates | None = None
        """Certificates of listeners with TLS; None without TLS."""
        self.listeners: list[tuple[str, str, int]] = []
        """Open listeners of all kinds: protocol, host and port."""
        self.addresses: list[tuple[str, int]] = []
        """Addresses of the listeners without TLS: host and port."""
        self.tls_addresses: list[tuple[str, int]] = []
        """Addresses of the listeners with TLS."""

    @property
    def tls(self) -> TlsServer | None:
        """State that connections with TLS share; None without TLS."""
        return None if self.certificates is None else self.certificates.server

    def read_certificates(self, office: Shard, replaced: Callable[[], None]) -> None:
        """Read the certificates, if anything listens with TLS. `replaced` is called after each change of them.

        `office` answers the operations on certificates. Raises ConfigError.
        """
        tls = served_tls(self._settings)
        if tls is not None:
            self.certificates = ServedCertificates(office.driver, office.event_loop.loop, tls)
            self.certificates.listener = replaced
            self._names = tls.vhosts
            for shard in (office, self._desk_shard):
                shard.driver.certificates = self.certificates

    async def listen(self) -> None:
        """Open the ports. Raises StartError."""
        event_loop = self._desk_shard.event_loop
        self._desk = desk = Desk(event_loop, self._knows, self._give)
        for host, port in self._plain:
            self.addresses += await self._bind("amqp", host, port, desk.take)
        tls = self.tls
        if tls is not None:
            relayed = partial(desk.take, secure=partial(TlsLayer, tls))
            hello = HelloDesk(event_loop, self._is_name, self._give_name, relayed)
            for host, port in self._secured:
                self.tls_addresses += await self._bind("amqp/ssl", host, port, hello.take)

    async def _bind(self, kind: str, host: str, port: int, take: Take) -> list[tuple[str, int]]:
        listener = Listener(self._desk_shard.driver, self._desk_shard.event_loop.loop, take)
        addresses = await listener.start(host, port, "listen")
        self._listeners.append(listener)
        self.listeners += [(kind, *address) for address in addresses]
        return addresses

    def use_names(self, tls: TlsSettings) -> None:
        """Use the names of servers in settings that were read again."""
        self._names = tls.vhosts

    def relays(self) -> int:
        """Return the number of clients whose bytes this process relays."""
        return 0 if self._desk is None else self._desk.relays()

    def stop_accepting(self) -> None:
        """Close the ports."""
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    def release(self) -> None:
        """Disconnect relayed clients, and end the threads of certificates."""
        if self._desk is not None:
            self._desk.close()
        if self.certificates is not None:
            self.certificates.stop()

    # Names of servers

    def vhost_of(self, name: str) -> str:
        """Return the virtual host of a server's name; empty if no shard is known by the name."""
        wanted = name.lower()
        vhost = self._names.get(wanted) or self._names.get(f"*.{wanted.partition('.')[2]}") or wanted
        return vhost if self._knows(vhost) else ""

    def _is_name(self, name: str) -> bool:
        return self.vhost_of(name) != ""

    async def _give_name(self, name: str, number: int, sock: socket.socket) -> str:
        vhost = self.vhost_of(name)
        return await self._give_stranger(vhost, number, sock) if vhost else f"the virtual host of '{name}' was deleted"
