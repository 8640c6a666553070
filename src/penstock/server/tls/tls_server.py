"""TLS of one broker: the contexts in use, the threads of handshakes, and the buffers of all connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.file_tables import TlsSettings
from penstock.server.tls.contexts import Contexts
from penstock.server.tls.handshakes import Handshakes

READ_OCTETS: Final = 256 * 1024
"""Size of each of the two buffers."""


class TlsServer:
    """Contexts, threads and buffers that the connections with TLS of one broker share."""

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: TlsSettings, refuse: Callable[[str], None]) -> None:
        """Read the certificates. Raises ConfigError."""
        self.contexts = Contexts(settings)
        """Contexts of new handshakes."""
        self.handshakes = Handshakes(loop)
        self.refuse = refuse
        """Function that logs a refused peer."""
        self.raw = memoryview(bytearray(READ_OCTETS))
        """Buffer that encrypted octets are read into: each read is handled before the next."""
        self.plain = memoryview(bytearray(READ_OCTETS))
        """Buffer that is decrypted into for protocols without one."""
