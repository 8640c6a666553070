"""Broker connections that reconnect by themselves and live as long as the process.

Spark reuses an executor's Python workers, so a connection in this module serves many tasks. The cache's key includes
the process id: a worker is a fork, and two processes must never share a socket. A worker runs one task at a time, so
requests never overlap.

Every control operation can be repeated after a lost connection: plans and settlements are monotone, ranges remove
nothing, and a repeated attachment only gives a newer token.
"""

import gc
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from penstock.client.blocking import Connection
from penstock.client.engine.connection import OPEN
from penstock.client.engine.waits import Call
from penstock.client.errors import (
    ChannelClosed,
    ClientError,
    ConnectError,
    ConnectionClosed,
    LoginRefused,
    Timeout,
    WrongServer,
)
from penstock.client.options import Options
from pyspark_penstock.errors import BlockError, BrokerUnreachable
from pyspark_penstock.logs import LOG
from pyspark_penstock.options import Access, Retries
from pyspark_penstock.parsing import Address
from pyspark_penstock.password_file import read_password

ANSWER_SECONDS = 30.0
"""Seconds to wait for an answer, beyond the wait requested from the broker."""
CONNECT_SECONDS = 10.0
"""Seconds to connect and log in."""
PAUSE_SECONDS_MAX = 10.0
"""Longest pause between two attempts, in seconds; the first pause is the option's, and each is twice the one before."""
SAY_SECONDS = 10.0
"""Seconds between two log lines of a query that waits for a broker, or for the disk."""

LOST = (ChannelClosed, ConnectError, ConnectionClosed, Timeout)
"""Errors after which a new connection may help."""

Result = TypeVar("Result")


class FileUnusable(WrongServer):
    """Error for a file for TLS or with a password that cannot be used."""


class BrokerLink:
    """Control operations over one connection, which is opened on first use and after a loss."""

    def __init__(self, access: Access, server: Address, retries: Retries, patience: float = ANSWER_SECONDS) -> None:
        """Store the address without connecting. `patience` is in seconds, for an answer and for connecting."""
        self._access, self._server = access, server
        self.retries = retries
        self._patience = patience
        self._reached = False
        """True once the link was connected."""
        self._connection: Connection | None = None
        self._pending: tuple[str, Mapping[str, object], Call] | None = None

    def ask(self, operation: str, fields: Mapping[str, object]) -> dict[str, Any]:
        """Send a request and return the answer's object.

        Raises `ControlError` with the broker's reason, `BrokerUnreachable` after every retry.
        """
        self.send(operation, fields)
        answer = self._received()
        if isinstance(answer, memoryview):
            raise BlockError(f"the broker answered {operation} with a block where an object was due")
        return answer

    def send(self, operation: str, fields: Mapping[str, object]) -> None:
        """Send a request without waiting; `receive_block` must follow before the next request."""

        def attempt() -> None:
            self._pending = (operation, fields, self._open().begin(operation, fields))

        self._retried(attempt)

    def receive_block(self) -> memoryview:
        """Return the requested block; request it again after a lost connection.

        Raises `ControlError` with the broker's reason, `BrokerUnreachable` after every retry.
        """
        answer = self._received()
        if isinstance(answer, memoryview):
            return answer
        raise BlockError("the broker answered cursor.range with an object where a block was due")

    def _received(self) -> dict[str, Any] | memoryview:
        def attempt() -> dict[str, Any] | memoryview:
            assert self._pending is not None
            operation, fields, call = self._pending
            if self._connection is None:
                call = self._open().begin(operation, fields)
                self._pending = (operation, fields, call)
            wait_ms = fields.get("wait_ms")
            patience = self._patience + (wait_ms / 1000 if isinstance(wait_ms, int) else 0)
            answer: dict[str, Any] | memoryview = self._open().answer(call, patience)
            return answer

        try:
            return self._retried(attempt)
        finally:
            self._pending = None

    @property
    def waiting(self) -> bool:
        """True if an answer is still awaited."""
        return self._pending is not None

    def close(self) -> None:
        """Close the connection and drop an awaited answer; the next request connects again."""
        self._pending = None
        self._drop()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.take_over()
            with suppress(ClientError):
                self._connection.close(timeout=0)  # The peer may be gone.
        self._connection = None

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = connect(self._access, self._server, patience=self._patience)
            self._reached = True
        self._connection.take_over()  # Spark calls from one thread at a time, but not always from the same one.
        return self._connection

    def _retried(self, attempt: Callable[[], Result]) -> Result:
        return retried(attempt, self._drop, self._server, self.retries, lambda: self._reached)


def connect(
    access: Access, server: Address, query: str = "", name: str = "", patience: float = ANSWER_SECONDS
) -> Connection:
    """Return a new connection; `query` is the query whose results it publishes, and `name` is the name that the broker
    shows.

    A password file is read for the login, and again before a token in the file expires.

    Raises `penstock.ConnectError`.
    """
    try:
        tls = None if access.tls is None else access.tls.context()
    except ValueError as error:
        raise FileUnusable(server.host, server.port, str(error)) from None
    host = f"[{server.host}]" if ":" in server.host else server.host
    fields = {"user": access.user, "password": access.password, "virtual_host": access.vhost, "query": query}
    url = f"{'amqp' if tls is None else 'amqps'}://{host}:{server.port}"
    file = access.password_file

    def secret() -> str:
        try:
            return read_password(str(file))
        except ValueError as error:
            raise FileUnusable(server.host, server.port, str(error)) from None

    terms = {"tls": tls, "protocol": "amqp091", "reconnect": False, "timeout": patience, "name": name}
    terms["connect_timeout"] = min(CONNECT_SECONDS, patience)
    return Connection(Options(url, {**fields, **terms, "token": None if file is None else secret}))


_frozen: set[int] = set()
"""This process, once its objects are excluded from garbage collection."""


def freeze_worker() -> None:
    """Exclude the objects that a Python worker of Spark has loaded from garbage collection, once, at the end of its
    first task.

    PySpark collects after each task, which takes 20 ms with PySpark's own modules.
    """
    from pyspark import TaskContext

    if os.getpid() not in _frozen and TaskContext.get() is not None:
        _frozen.add(os.getpid())
        gc.collect()
        gc.freeze()


def query_of_task() -> str:
    """Return the id of the streaming query of this task, from its checkpoint; empty outside of a query.

    By this id the broker finds the cursor that waits for the results of the same query.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    return "" if context is None else context.getLocalProperty("sql.streaming.queryId") or ""


def retried(
    attempt: Callable[[], Result],
    drop: Callable[[], None],
    server: Address,
    retries: Retries,
    reached: Callable[[], bool],
) -> Result:
    """Return the result of `attempt`; call `drop` and pause after each lost connection, and report a long wait.

    Raises `BrokerUnreachable` when `retries` are used up, and at once if another attempt does not help. Examples are a
    refused login, and a wrong name or certificate of a server that was never `reached`.
    """
    pause = retries.interval_ms / 1000
    waiting = Waiting()
    attempts = 0
    while True:
        attempts += 1
        try:
            return attempt()
        except LOST as error:
            drop()
            text = f"the broker at {server} could not be asked in {attempts} attempts: {error}"
            lasts = isinstance(error, LoginRefused) or (isinstance(error, WrongServer) and not reached())
            if lasts:
                text = str(error)
            elif isinstance(error, ChannelClosed) and error.code is not None:
                lasts, text = True, f"the broker at {server} takes no control operations: {error}"
            if lasts or (retries.count is not None and attempts > retries.count):
                unreachable = BrokerUnreachable(text)
                unreachable.lasts = lasts
                raise unreachable from error
            if retries.count is None:
                waiting.pause(pause, f"{server} (onServerLoss=wait): {error}")
            else:
                time.sleep(pause)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)


class Waiting:
    """An unbounded wait, which is logged every ten seconds, and ends with the program."""

    def __init__(self) -> None:
        """Begin."""
        self._parent = os.getppid()
        self._reported = self._began = time.monotonic()

    def pause(self, seconds: float, text: str) -> None:
        """Wait for `seconds`; `text` describes the wait. Raises `BrokerUnreachable` after the end of Spark."""
        time.sleep(seconds)
        if os.getppid() != self._parent:
            raise BrokerUnreachable("the program that waits for a broker has ended")
        now = time.monotonic()
        if now - self._reported >= SAY_SECONDS:
            self._reported = now
            LOG.warning("penstock: for %.0f s the query has waited for %s", now - self._began, text)


_links: dict[tuple[object, ...], BrokerLink] = {}
_block_connections: dict[tuple[object, ...], Connection] = {}
_used: dict[tuple[object, ...], float] = {}
"""Time of the last use of each key of both tables, the oldest first (monotonic seconds)."""
_in_task: set[tuple[object, ...]] = set()
"""Keys that the present task has used."""
CONNECTIONS_MOST = 32
"""Most connections that a process keeps open between two tasks; at the bound the longest unused is closed."""
IDLE_SECONDS = 120.0
"""Seconds after which an unused connection is closed, at the end of a task. Most of them belong to ended queries."""


def shared_link(access: Access, server: Address, retries: Retries) -> BrokerLink:
    """Return this process's link to a broker, created on first use."""
    key = (server, access, retries, os.getpid())
    _in_task.add(key)
    if key not in _links:
        _links[key] = BrokerLink(access, server, retries)
    return _links[key]


def shared_block_connection(access: Access, server: Address, query: str = "") -> Connection:
    """Return this process's connection for publishing the results of a query, opened if it is missing or closed.

    Other control operations use another connection, which waits for no target. Raises `penstock.ConnectError`.
    """
    key = (server, access, query, os.getpid())
    _in_task.add(key)
    connection = _block_connections.get(key)
    if connection is None or connection.core().phase != OPEN:
        name = f"spark sink {os.getpid()} {secrets.token_hex(4)}"
        connection = _block_connections[key] = connect(access, server, query, name)
    connection.take_over()  # The next task may run in another thread of the process.
    return connection


def name_of(connection: Connection) -> str:
    """Return the name by which the broker shows a connection."""
    return str(connection.options["name"])


def drop_connection(access: Access, server: Address, query: str = "") -> None:
    """Close this process's connection for publishing, if any; the next task opens a new one."""
    key = (server, access, query, os.getpid())
    _in_task.discard(key)
    _close(key)


def finish_task() -> None:
    """End a task: close connections that are long unused, and connections beyond the bound; see `freeze_worker`.

    Spark ends an idle worker, and so its connections.
    """
    now = time.monotonic()
    for key in _in_task:
        _used.pop(key, None)
        _used[key] = now
    _in_task.clear()
    for key, used in list(_used.items()):
        if len(_used) > CONNECTIONS_MOST or now - used > IDLE_SECONDS:
            _close(key)
    freeze_worker()


def _close(key: tuple[object, ...]) -> None:
    _used.pop(key, None)
    link = _links.pop(key, None)
    if link is not None:
        link.close()
    connection = _block_connections.pop(key, None)
    if connection is not None:
        connection.take_over()
        with suppress(ClientError):
            connection.close(timeout=0)
