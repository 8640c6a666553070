"""Calls of both shells that need more than one step of an engine, and their log records."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakSet

from penstock.client.engine.connection import OPEN, UPDATE_SECRET, Engine
from penstock.client.engine.events import LOGGED, Event
from penstock.client.engine.terms import ConnectionTerms
from penstock.client.errors import (
    ClientError,
    ConnectError,
    ConnectionClosed,
    LoginRefused,
    WrongProtocol,
    WrongServer,
)
from penstock.client.options import Address, Options
from penstock.flow.timers import NEVER, TimerHandler
from penstock.markers import override

if TYPE_CHECKING:
    from logging import Logger

    from penstock.client.engine.amqp091.connection import Engine091
    from penstock.client.engine.amqp10.connection import Engine10
    from penstock.client.engine.transaction import TransactionCore

PROTOCOLS: Final = {"auto": ("amqp10", "amqp091"), "amqp091": ("amqp091",), "amqp10": ("amqp10",)}
"""Protocols that are tried, by the option `protocol`."""
PUSH: Final = 32 * 1024
"""Bytes of output above which a batch is sent: more do not fit into the socket's buffer."""
SLICE: Final = 256
"""Messages that `send_many` takes from its iterable at a time."""


def engine_of(protocol: str, terms: ConnectionTerms) -> Engine:
    """Return a new engine of a protocol."""
    if protocol == "amqp10":
        from penstock.client.engine.amqp10.connection import Engine10  # The codec is imported only if it is used.

        return Engine10(terms)
    from penstock.client.engine.amqp091.connection import Engine091

    return Engine091(terms)


FORKED: Final = "it belongs to the process that opened it; connect again after a fork"
_OPEN: Final[WeakSet[Any]] = WeakSet()
"""Connections of this process."""


def end_at_fork(connection: Any) -> None:
    """Call `forked` of a connection in each process that is forked from this one."""
    _OPEN.add(connection)


def _forked() -> None:
    """End all connections in a process that was just forked: their sockets belong to the parent."""
    for connection in list(_OPEN):
        connection.forked()
    _OPEN.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=_forked)


def end_forked(engine: Engine) -> None:
    """End the engine of a connection of the parent process; no callback is called."""
    engine.lost_reason = FORKED
    engine.lose(ConnectionClosed(None, FORKED), False, engine.now)
    engine.woken.clear()
    engine.events.clear()


RENEW_AT: Final = 0.8
"""Part of a token's life after which it is renewed."""
RENEW_AGAIN: Final = 10.0
"""Seconds after which a token is requested again if there was none."""


class Renewal(TimerHandler):
    """Renewal of a connection's token by a function; `renew_later` begins it."""

    def __init__(self, engine: Engine, options: Options) -> None:
        super().__init__()
        self._engine = engine
        self._options = options

    @override
    def on_deadline(self, now: float) -> float:
        self._engine.woken.append(self)  # The shell releases it.
        return NEVER

    def release(self) -> None:
        """Send a new token to the broker; if it is refused, the connection ends."""
        engine = self._engine
        if engine.phase != OPEN:
            return
        try:
            token = self._options.secret()
        except Exception:
            logger().exception("There is no new token; it is asked for again in %g s", RENEW_AGAIN)
            engine.timers.add(self, engine.now + RENEW_AGAIN)
            return
        engine.call(UPDATE_SECRET, {"new_secret": token})
        engine.wake_output()
        self.begin(token)

    def begin(self, token: str) -> None:
        """Schedule the renewal of a token before it expires."""
        left = seconds_left(token)
        if left is not None:
            self._engine.timers.add(self, self._engine.now + max(left * RENEW_AT, 1.0))


def seconds_left(token: str) -> float | None:
    """Return the seconds until a token (JWT, RFC 7519) expires; None if it does not expire, or has no expiry time."""
    import json
    import time
    from base64 import urlsafe_b64decode

    part = token.split(".")[1] if token.count(".") == 2 else ""
    try:
        claims = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        return float(claims["exp"]) - time.time()
    except (ValueError, KeyError, TypeError):
        return None


def login_terms(options: Options, address: Address, heartbeat: float) -> ConnectionTerms:
    """Return the terms of one login, with its own token."""
    return options.connection_terms(address, heartbeat=heartbeat)._replace(password=options.secret())


def renew_later(engine: Engine, options: Options) -> None:
    """Schedule the renewal of an open connection's token before it expires, if a function makes tokens."""
    if callable(options.token):
        Renewal(engine, options).begin(engine.terms.password)


def logger() -> Logger:
    """Return the log of all clients, "penstock"."""
    import logging  # The import takes 4 ms, and most programs have nothing to log here.

    return logging.getLogger("penstock")


def tell(event: Event, listeners: Iterable[Callable[[Event], object]]) -> None:
    """Log an event if it is a warning, and pass it to the listeners."""
    if event.kind in LOGGED:
        logger().warning("%s", event.reason)
    for listener in tuple(listeners):
        call_back(listener, event)


def call_callbacks(receipt: Any) -> None:
    """Call the callbacks of a receipt."""
    callbacks, receipt.callbacks = receipt.callbacks, None
    for callback in callbacks:
        call_back(callback, receipt)


def call_back(callback: Callable[[Any], object], subject: object) -> None:
    """Call a callback; an exception is logged, and has no other effect."""
    try:
        callback(subject)
    except Exception:
        logger().exception("A callback for %r has raised", subject)


def transaction_of(engine: Engine, options: Options) -> TransactionCore:
    """Return a new transaction of a connection."""
    period = options["flow_control_wait_notify_period"]
    if engine.protocol == "amqp10":
        from penstock.client.engine.amqp10.transaction import Transaction10

        return Transaction10(cast("Engine10", engine).sessions, period)
    from penstock.client.engine.amqp091.transaction import Transaction091

    return Transaction091(cast("Engine091", engine).channels, period)


def is_final(error: BaseException, was_open: bool = False) -> bool:
    """Return whether another attempt is useless: the login was refused, or the server is a wrong one.

    If the connection `was_open` before, a host name or certificate may become valid again.
    """
    return isinstance(error, (LoginRefused, WrongProtocol)) or (isinstance(error, WrongServer) and not was_open)


def note_failed_attempt(error: BaseException) -> None:
    """Log an error of a reconnect attempt that does not come from the broker or the network; the attempt is repeated.

    The source of the error is an object of the program: a function for tokens, or a context for TLS.
    """
    if not isinstance(error, ClientError):
        logger().warning("An attempt to connect again has failed: %r", error, exc_info=error)


def explain(address: Address, error: BaseException, timeout: float) -> ConnectError:
    """Return the error of a connection that could not be opened."""
    import socket

    host, port = address
    if isinstance(error, ConnectError):
        return error
    if isinstance(error, socket.gaierror):
        return WrongServer(host, port, f"the name cannot be resolved ({error.strerror}); correct the host")
    if isinstance(error, TimeoutError):
        return ConnectError(host, port, f"no answer within {timeout:g} s; check host, port and firewall")
    if address.is_path() and isinstance(error, FileNotFoundError | ConnectionRefusedError):
        return ConnectError(host, port, "nothing listens there; start the broker or correct the path")
    if isinstance(error, ConnectionRefusedError):
        return ConnectError(host, port, "nothing listens there; start the broker or correct the port")
    verify_message = getattr(error, "verify_message", None)
    if verify_message is not None:
        why = f"its certificate is not trusted ({verify_message}); check the CA and the host's name"
        return WrongServer(host, port, why)
    if type(error).__name__.startswith("SSL"):
        return ConnectError(host, port, f"no TLS connection ({error}); check that the port speaks TLS")
    return ConnectError(host, port, f"{error}; check host, port and network")
