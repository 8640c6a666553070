"""Broker under load: its URL, its own description, and a queue that exists as long as a run."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from penstock import sync
from penstock.client.options import Options
from penstock.errors import ConfigError

PRODUCT: Final = "Penstock"


class BenchError(ConfigError):
    """Error for a run that cannot begin, or has ended early; the text names the reason."""


def with_options(url: str, **options: object) -> str:
    """Return a URL with more options, except options that are None."""
    given = {name: value for name, value in options.items() if value is not None}
    return url + ("&" if "?" in url else "?") + urlencode(given) if given else url


def strangers(url: str) -> list[str]:
    """Return the hosts of a URL that are not on this machine. Raises `BenchError` for a URL that cannot be read."""
    try:
        hosts = [address.host for address in Options(url, {}).hosts]
    except ValueError as error:
        raise BenchError(f"--url: {error}") from None
    return [host for host in hosts if not is_loopback(host)]


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine by its name or address; names are not looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Target:
    """Broker of a run."""

    def __init__(self, url: str, server: dict[str, Any], protocol: str) -> None:
        self.url = url
        self.product = str(server.get("product", "unknown"))
        self.version = str(server.get("version", ""))
        self.protocol = protocol

    @classmethod
    def ask(cls, url: str) -> Target:
        """Connect, and record the broker's description of itself. Raises the errors of `sync.connect`."""
        with sync.connect(url) as connection:
            return cls(url, connection.server_properties, connection.protocol)

    @property
    def is_penstock(self) -> bool:
        """Return whether the broker is Penstock, whose queues have a capacity and which answers `why`."""
        return self.product == PRODUCT

    def describe(self) -> dict[str, object]:
        """Return the broker as a row of a result."""
        return {"product": self.product, "version": self.version, "protocol": self.protocol}

    @contextlib.contextmanager
    def queue(self, name: str = "", durable: bool = False, **settings: Any) -> Iterator[str]:
        """Declare a queue, and delete it at the end; with `name`, an existing queue is used and stays."""
        if name:
            yield name
            return
        name = f"penstock-bench-{secrets.token_hex(4)}"
        with sync.connect(self.url) as connection:
            connection.declare_queue(name, durable=durable, **settings)
        try:
            yield name
        finally:
            with sync.connect(self.url) as connection:
                connection.delete_queue(name)


PROC: Final = Path("/proc")


def resident_mib(pid: int) -> float | None:
    """Return the resident memory of a process in MiB; None if the process has ended, or the system has no /proc."""
    try:
        pages = int((PROC / str(pid) / "statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def cpu_seconds(pid: int) -> float | None:
    """Return the processor time of a process, user and kernel; None as in `resident_mib`."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None
