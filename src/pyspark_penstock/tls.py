"""TLS of the sources and sinks: addresses with `amqps://`, and the files in their options; without I/O."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any, Final

from penstock.client.options import TLS_PORT
from penstock.client.tls import tls_context
from penstock.settings.kind import TEXT
from pyspark_penstock import parsing
from pyspark_penstock.errors import OptionError
from pyspark_penstock.option_table import Option
from pyspark_penstock.parsing import Address

TLS_OPTIONS: Final = (
    Option("tlsCaFile", TEXT, None),
    Option("tlsCertificateFile", TEXT, None),
    Option("tlsKeyFile", TEXT, None),
    Option("tlsKeyPassword", parsing.SECRET, None),
)
_NAMES: Final = tuple(option.name for option in TLS_OPTIONS)


@dataclass(frozen=True, slots=True)
class ServerAddresses:
    """Addresses of brokers, or of the nodes of one, and whether connections use TLS."""

    addresses: tuple[Address, ...]
    tls: bool


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS files of a connection; without `ca` the system's authorities are trusted."""

    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    password: str | None = field(default=None, repr=False)

    def context(self) -> SSLContext:
        """Return the context. Raises `ValueError` that names an unusable file."""
        return tls_context(self.ca, self.certificate, self.key, self.password or "")


def servers(text: str) -> ServerAddresses:
    """Return addresses, each with `amqp://` or `amqps://` before it, or all without."""
    parts = [part.strip() for part in text.split(",")]
    tls = {part.startswith("amqps://") for part in parts}
    if len(tls) > 1:
        raise ValueError("has addresses with amqps:// and without")
    bare = [re.sub(r"^amqps?://", "", part).rstrip("/") for part in parts]
    if True in tls:
        bare = [part if re.search(r":\d+$", part) else f"{part}:{TLS_PORT}" for part in bare]
    return ServerAddresses(parsing.addresses(",".join(bare)), True in tls)


def tls_of(value: Mapping[str, Any]) -> Tls | None:
    """Return the TLS files in options; None without TLS. Raises `OptionError`."""
    given = [name for name in _NAMES if value[name] is not None]
    if not value["servers"].tls:
        if given:
            raise OptionError(f"option {given[0]} needs servers that begin with amqps://")
        return None
    if value["tlsCertificateFile"] is None and given not in ([], ["tlsCaFile"]):
        raise OptionError("the options tlsKeyFile and tlsKeyPassword need tlsCertificateFile")
    return Tls(*(value[name] for name in _NAMES))
