"""Settings of a spool's process, which the reader sends as one JSON object."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from ssl import SSLContext
from typing import Any, Final

from pyspark_amqp.spool.errors import SpoolError
from pyspark_amqp.spool.folder import Owner
from pyspark_penstock.password_file import read_password
from pyspark_penstock.tls import Tls

REDELIVERED, MESSAGE_ID, NONE = "redelivered", "messageId", "none"
"""Duplicates that are dropped: redelivered ones, also those with an id that the spool has, or none."""
SETTLED, SPOOLED = "settled", "spooled"
"""Time at which a message is acknowledged: when Spark has made it durable, or when it is in the spool."""
AMQP091, AMQP1 = "amqp091", "amqp1"
"""Protocols to the broker."""
_PROTOCOLS: Final = {AMQP091: "amqp091", AMQP1: "amqp10"}
"""The client's names of these protocols."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a spool's process."""

    spool: str
    servers: tuple[tuple[str, int], ...]
    protocol: str
    vhost: str
    user: str
    password: str = field(repr=False)
    queues: tuple[str, ...]
    prefetch: int
    spool_octets: int
    acknowledge: str
    duplicates: str
    heartbeat: int
    """Seconds; 0 for none."""
    consumer_timeout: float
    """Seconds that the broker waits for an acknowledgement; 0 for unlimited."""
    retries: int
    retry_seconds: float
    """First pause after a lost connection; each is twice the one before."""
    tls: Tls | None = None
    password_file: str | None = None
    """File with the password, which is read at each login; None for `password`."""

    def to_json(self) -> dict[str, Any]:
        """Return the settings as an object for JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Settings":
        """Return the settings from the object of `to_json`."""
        tls = given["tls"]
        servers = tuple((str(host), int(port)) for host, port in given["servers"])
        rest = {**given, "servers": servers, "queues": tuple(given["queues"]), "tls": Tls(**tls) if tls else None}
        return cls(**rest)

    def tls_context(self) -> SSLContext | None:
        """Return the context of TLS; None without it. Raises `SpoolError` for an unusable file."""
        try:
            return None if self.tls is None else self.tls.context()
        except ValueError as error:
            raise SpoolError("tls", str(error)) from error

    def secret(self) -> str:
        """Return the password in the file. Raises `SpoolError` for an unusable file."""
        try:
            return read_password(str(self.password_file))
        except ValueError as error:
            raise SpoolError("login", str(error)) from error

    def connection(self, server: tuple[str, int]) -> dict[str, Any]:
        """Return the arguments of a connection to one of the servers."""
        host, port = server
        tls = self.tls_context()
        place = f"[{host}]" if ":" in host else host
        found: dict[str, Any] = {
            "url": f"{'amqp' if tls is None else 'amqps'}://{place}:{port}",
            "user": self.user,
            "password": self.password,
            "token": None if self.password_file is None else self.secret,
            "virtual_host": self.vhost,
            "protocol": _PROTOCOLS[self.protocol],
            "tls": tls,
            "heartbeat": self.heartbeat,
            "name": f"spool {self.spool}",
            "reconnect": False,
        }
        if self.protocol == AMQP1 and (self.user or (self.tls is not None and self.tls.certificate is not None)):
            found["mechanism"] = "PLAIN" if self.user else "EXTERNAL"
        return found

    def owner(self, broker: str | None = None) -> Owner:
        """Return the owner of the requested messages."""
        return Owner(tuple(f"{host}:{port}" for host, port in self.servers), self.vhost, self.queues, broker)
