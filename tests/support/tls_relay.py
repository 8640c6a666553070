"""A relay that ends TLS in front of a broker without it, for clients that speak nothing else: standard library only."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import threading
from pathlib import Path

CHUNK_OCTETS = 65_536


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Return a certificate of localhost that signs itself, and its key; `openssl` makes them."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*words, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key


class TlsRelay:
    """Takes TLS on a free port of 127.0.0.1, and passes all octets on to a port without it, in a thread of its own."""

    def __init__(self, certificate: Path, key: Path, host: str, port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._peer = (host, port)
        self.port = 0
        listening = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve(listening)), daemon=True).start()
        listening.wait()

    async def _serve(self, listening: threading.Event) -> None:
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        listening.set()
        await server.serve_forever()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(*self._peer)
        await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while octets := await reader.read(CHUNK_OCTETS):
            writer.write(octets)
            await writer.drain()
    except (OSError, ssl.SSLError):
        pass  # The other side hears of it by the end of its connection.
    writer.close()
