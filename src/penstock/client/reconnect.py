"""Attempts to connect, the same for both shells: which host, after what pause, and when to give up."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.client.errors import ConnectError, LoginRefused, WrongProtocol, WrongServer
from penstock.client.options import Address, Options


def is_final(error: Exception) -> bool:
    """Return whether another attempt does not help: the login was refused, or the server is a wrong one."""
    return isinstance(error, (LoginRefused, WrongServer, WrongProtocol))


def pauses(options: Options) -> Iterator[float]:
    """Yield the pause in seconds before each attempt to connect again; it ends when no more are allowed.

    A pause is a random part, at least half, of a time that doubles: clients that lost one broker do not return at once.
    """
    import random  # Most connections are never lost.

    delay, most, attempts = options["reconnect_delay"], options["reconnect_delay_max"], options["reconnect_attempts"]
    while attempts != 0:
        yield random.uniform(delay / 2, delay)
        delay = min(delay * 2, most)
        attempts -= 1


def explain(address: Address, error: BaseException, timeout: float) -> ConnectError:
    """Return the error of a connection that could not be made."""
    import socket

    host, port = address
    if isinstance(error, ConnectError):
        return error
    if isinstance(error, socket.gaierror):
        return WrongServer(host, port, f"the name cannot be resolved ({error.strerror}); correct the host")
    if isinstance(error, TimeoutError):
        return ConnectError(host, port, f"no answer within {timeout:g} s; check host, port and firewall")
    if isinstance(error, ConnectionRefusedError):
        return ConnectError(host, port, "nothing listens there; start the broker or correct the port")
    verify_message = getattr(error, "verify_message", None)
    if verify_message is not None:
        why = f"its certificate is not trusted ({verify_message}); check the CA and the host's name"
        return WrongServer(host, port, why)
    if type(error).__name__.startswith("SSL"):
        return ConnectError(host, port, f"no TLS connection ({error}); check that the port speaks TLS")
    return ConnectError(host, port, f"{error}; check host, port and network")
