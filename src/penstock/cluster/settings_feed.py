"""Settings file of a node on its way to the shards: its text, by one socket a time.

The node reads the file, and each shard parses the same text: shards that read the file themselves might find another
one. A shard that starts after a reload gets the text with its order. A text may be longer than a packet, so it comes
through a socket of its own, from its begin to its end.

Bounds: a shard has one text on its way, because the node waits for the answers to one reload before the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Final

from penstock.errors import ConfigError
from penstock.settings.config import Settings, parse

READ_OCTETS: Final = 64 * 1024
"""Most bytes per read of a text."""


class SettingsFeed:
    """The node's end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._text: bytes | None = None
        """Text of the file; None before the first reload."""
        self._sending: set[asyncio.Task[None]] = set()

    @property
    def was_renewed(self) -> bool:
        """True once the file was read again: shards that start need the text."""
        return self._text is not None

    def renew(self, settings: Settings) -> None:
        """Send the text of these settings from now on."""
        self._text = settings.text.encode()

    def begin(self) -> socket.socket:
        """Return a socket from which the text can be read; the caller passes it on and closes it. Raises OSError."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        task = self._loop.create_task(self._send(ours, self._text or b""))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return theirs

    def close(self) -> None:
        """End what is on its way."""
        for task in self._sending:
            task.cancel()

    async def _send(self, sock: socket.socket, text: bytes) -> None:
        with sock, contextlib.suppress(OSError):  # The process has ended; the next one gets a socket of its own.
            await self._loop.sock_sendall(sock, text)


async def read_settings(sock: socket.socket, file: Path) -> Settings:
    """Return the settings that come by a socket, which is closed. Raises ConfigError."""
    loop = asyncio.get_running_loop()
    parts: list[bytes] = []
    with sock:
        sock.setblocking(False)
        try:
            while part := await loop.sock_recv(sock, READ_OCTETS):
                parts.append(part)
        except OSError as error:
            raise ConfigError(f"the settings file '{file}' did not come from the node: {error.strerror}") from None
    return await asyncio.to_thread(parse, file, b"".join(parts).decode())
