"""Session with a PostgreSQL server: its address, each transaction as one pipeline, and errors in one sentence.

Theory of operation. A pipeline is a sequence of statements, each prepared once per session, with one Sync at the end.
Up to a Sync everything is one transaction, without BEGIN or COMMIT. When a statement fails, the server skips the rest
and rolls back (https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-PIPELINING). So a transaction
is never applied in part. The code uses psycopg's module pq, plain libpq: a cursor for each of six statements costs four
times the CPU.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from penstock.errors import ConfigError, StoreError, StoreFull, StoreLost


class SessionSockets:
    """Sockets of one store's sessions. All methods are thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.are_cut = False
        """True if all sessions are shut down and no new session may be opened."""

    def add(self, descriptor: int) -> socket.socket:
        """Register a session's socket by its descriptor; shut it down at once after `shutdown_all`. Raises OSError."""
        line = socket.socket(fileno=os.dup(descriptor))
        with self._lock:
            self._open.add(line)
            if self.are_cut:
                _cut(line)
        return line

    def remove(self, line: socket.socket) -> None:
        """Remove a closed session."""
        with self._lock:
            self._open.discard(line)
            line.close()

    def shutdown_all(self) -> None:
        """Shut all sessions down for good: every thread that waits for the server gets an error."""
        with self._lock:
            self.are_cut = True
            for line in self._open:
                _cut(line)


def _cut(line: socket.socket) -> None:
    with contextlib.suppress(OSError):  # The server has closed the connection before.
        line.shutdown(socket.SHUT_RDWR)


SCHEMA: Final = "penstock"
NAME_OCTETS: Final = 63
"""Longest name that PostgreSQL does not truncate (NAMEDATALEN - 1)."""
CONNECT_S: Final = 5
"""Seconds for connecting to each host."""
DEFAULTS: Final[dict[str, str | int | None]] = {
    "connect_timeout": CONNECT_S,
    "application_name": "penstock",
    # The death of a server's host is noticed after 5 + 3 x 2 s while the broker waits for an answer, and after 10 s if
    # the host does not acknowledge sent data.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Values of libpq's parameters that the URL does not set."""


class DatabaseAddress:
    """Parsed URL of a store; it may contain a password, which is never shown."""

    def __init__(self, url: str) -> None:
        """Parse `postgresql://user:password@host:port/database?schema=penstock&...`; other query fields are libpq's.

        Raises ConfigError if the URL is invalid.
        """
        address, _, query = url.partition("?")
        parameters = [each for each in query.split("&") if each]
        ours = [each for each in parameters if each.startswith("schema=")]
        self.schema = unquote(ours[-1].removeprefix("schema=")) if ours else SCHEMA
        """Schema with Penstock's tables."""
        if not 1 <= len(self.schema.encode()) <= NAME_OCTETS or self.schema.startswith("pg_") or "\0" in self.schema:
            raise ConfigError(
                f"schema '{self.schema}' of the store's URL: a name has 1 to {NAME_OCTETS} bytes "
                "and does not begin with pg_"
            )
        _check_authority(address)
        given = _understood(f"{address}?{'&'.join(each for each in parameters if each not in ours)}")
        whole: dict[str, str | int | None] = {**DEFAULTS, **given, "client_encoding": "utf8"}
        self.conninfo = make_conninfo("", **whole)
        """Connection string for libpq, with the password if one was given."""
        usual = {
            option.keyword.decode(): option.val.decode() for option in Conninfo.get_defaults() if option.val is not None
        }
        known = usual | {name: str(value) for name, value in given.items() if value}
        self.user = known.get("user", "")
        self.database = known.get("dbname") or self.user
        self.host = known.get("host") or known.get("hostaddr") or "localhost"
        self.port = known.get("port", "5432")

    def __str__(self) -> str:
        """Return the address for display, without the password."""
        schema = "" if self.schema == SCHEMA else f"schema '{self.schema}' of "
        return f"{schema}database '{self.database}' at '{self.host}', port {self.port}"


def _check_authority(address: str) -> None:
    """Reject a password with @ or / in it: the rest would be parsed as a host or a database. Raises ConfigError."""
    authority, _, path = address.partition("://")[2].partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise ConfigError("the store's URL has an @ or a / in its user or password: write them as %40 and %2F")


def _understood(url: str) -> dict[str, str | int | None]:
    """Return libpq's parameters in a URL. Raises ConfigError, whose text never contains a password."""
    try:
        if not url.startswith(("postgresql://", "postgres://")):
            raise psycopg.ProgrammingError
        return dict(conninfo_to_dict(url))
    except psycopg.Error as error:
        text = str(error).strip()
        # libpq repeats text that it cannot parse, often the whole URL; show only the name of a parameter.
        named = text.startswith("invalid URI query parameter") and "@" not in url.partition("?")[2]
        reason = text if named else "it is not a valid PostgreSQL URL"
    raise ConfigError(
        f"the store's URL cannot be used: {reason}; it looks like postgresql://user@host:5432/database?schema={SCHEMA}"
    )


# https://www.postgresql.org/docs/current/errcodes-appendix.html
FENCED: Final = "PN409"
"""SQLSTATE of Penstock: a newer holder has the lease. Classes from I to Z are reserved for applications."""
DISK_FULL: Final = "53100"
LOCK_NOT_AVAILABLE: Final = "55P03"
DAMAGED: Final = ("XX001", "XX002")
ENDED: Final = ("57P01", "57P02", "57P03", "57P05", "25P03")
"""SQLSTATEs of an ended session: shutdown, crash, startup, idle time-out."""

_READ_ONLY: Final = "the database may only be read; is this server a replica, or default_transaction_read_only set?"
_REASONS: Final = {
    "25006": _READ_ONLY,
    "42P01": "a table of it is missing; restore the schema from a backup",
    "3F000": "its schema is missing; restore it from a backup",
    "XX001": "PostgreSQL finds its files damaged; restore the database from a backup",
    "XX002": "PostgreSQL finds an index damaged; REINDEX DATABASE rebuilds it",
    LOCK_NOT_AVAILABLE: "another program has locked its tables",
}
_CONNECTING: Final = (
    ("password authentication failed", "give the right password in the URL, in PGPASSWORD or in ~/.pgpass"),
    ("no password supplied", "give one in the URL, in PGPASSWORD or in ~/.pgpass"),
    (r"pg_hba\.conf", "let it in there, on the server"),
    ("role .* does not exist", "create it with: createuser, or give another user in the URL"),
    ("database .* does not exist", "create it with: createdb, or give another database in the URL"),
    ("Connection refused", "is the server running there?"),
    ("No such file", "is the server running there?"),
    ("could not translate host name", "give the right host in the URL"),
)
"""Advice by error text, because libpq has no error codes for failed connections."""


class Refusal(Exception):
    """Statement of a pipeline that the server has refused."""

    def __init__(self, state: str, text: str) -> None:
        super().__init__(text)
        self.state = state
        """SQLSTATE of the refusal."""


class Disconnected(Exception):
    """Ended session: the last statements may or may not have been executed."""


Failure = psycopg.Error | Refusal | Disconnected


def state_of(error: Failure) -> str:
    """Return the SQLSTATE; "" without one."""
    if isinstance(error, Refusal):
        return error.state
    return (error.sqlstate or "") if isinstance(error, psycopg.Error) else ""


def fault(error: Failure, address: DatabaseAddress, doing: str) -> StoreError:
    """Return the exception to raise; `doing` is a verb, "open", "read" or "write"."""
    state = state_of(error)
    head = f"cannot {doing} the store in {address}: "
    if state == DISK_FULL:
        return StoreFull(f"{head}there is no room left for it on the server's disk")
    if state == FENCED:
        return StoreLost(f"{head}another broker has taken it over")
    if state == "42501":
        return StoreError(f"{head}user '{address.user}' may not: {_line(error)}; give it the right, or own the schema")
    reason = _REASONS.get(state)
    if reason is None:
        reason = _line(error) + (f" (SQLSTATE {state})" if state else "")
    return StoreError(head + reason)


def unreachable(error: psycopg.Error, address: DatabaseAddress) -> StoreError:
    """Return the exception for a session that could not be opened."""
    text = _line(error)
    advice = next((f"; {what}" for sign, what in _CONNECTING if re.search(sign, text)), "")
    return StoreError(f"cannot reach the store in {address}: {text}{advice}")


def _line(error: Failure) -> str:
    """Return the text of the server or libpq in one line, without repetitions."""
    text = str(error).strip()
    text = text.split("failed: ")[-1] if "connection to server" in text or "connection failed" in text else text
    line = text.partition("\n")[0].strip()
    return re.sub(r"^(FATAL|ERROR|PANIC):\s*", "", line) or "it did not answer"


OLDEST: Final = 140_000
"""Oldest supported server: version 14, which introduced idle_session_timeout."""
DEAD_PEER_MS: Final = 5_000
IDLE_S: Final = 30
"""Seconds after which the server ends an idle session, so that a suspended broker does not hold the lease forever.

A running broker sends a query each second (`Store.reclaim_space`).
"""
CLOSE_S: Final = 2.0
"""Seconds for which closing waits until the server has released the session's locks."""
SETTINGS: Final = {
    "lock_timeout": "5s",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": f"{IDLE_S}s",
    "default_transaction_isolation": "read committed",
    # The death of a client's host is noticed after 2 + 3 x 1 s, or after 5 s if the server has data to send.
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": str(DEAD_PEER_MS),
}
"""Settings of a session, independent of the server's own settings."""


class Statement(NamedTuple):
    """Statement that is prepared once per session."""

    name: bytes
    text: str
    """Text with parameters $1, $2 ..."""
    types: tuple[int, ...]
    """Types of the parameters, as OIDs."""


Call = tuple[Statement, list[bytes]]
"""Statement and its parameters, in PostgreSQL's binary form."""


class Session:
    """Connection to the server, used by one thread at a time. Methods raise psycopg.Error."""

    def __init__(self, address: DatabaseAddress, lines: SessionSockets) -> None:
        """Connect, within a few seconds (`CONNECT_S`). Raises StoreError."""
        try:
            self.connection = psycopg.connect(address.conninfo, autocommit=True)
        except psycopg.Error as error:
            raise unreachable(error, address) from None
        self._lines = lines
        try:
            self._line = lines.add(self.connection.fileno())
        except OSError as error:
            self.connection.close()
            raise StoreError(f"cannot use the store in {address}: {error.strerror}") from None
        try:
            self._prepare(address)
        except psycopg.Error as error:
            self.abandon()
            raise unreachable(error, address) from None
        except BaseException:
            self.abandon()
            raise
        self._statements: set[bytes] = set()
        self.pid = self.connection.info.backend_pid
        """Number of the server process of the session."""

    def _prepare(self, address: DatabaseAddress) -> None:
        version = self.connection.info.server_version
        if version < OLDEST:
            raise StoreError(
                f"cannot use the store in {address}: the server is PostgreSQL {version // 10_000}, "
                f"and {OLDEST // 10_000} or newer is needed"
            )
        for name, value in SETTINGS.items():
            self.set(name, value)
        self.ask("SELECT set_config('search_path', quote_ident(%s), false)", address.schema)
        # 'on' is a flush to disk, here and on synchronous replicas; 'remote_apply' also waits for the replay there.
        self.ask(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') <> 'remote_apply'"
        )

    def set(self, name: str, value: str) -> None:
        """Change a setting of the session."""
        self.ask("SELECT set_config(%s, %s, false)", name, value)

    def ask(self, question: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run a statement with parameters %s as its own transaction; return its result."""
        cursor = self.connection.execute(question, parameters or None, binary=True)
        return cursor.fetchall() if cursor.description is not None else []

    def is_alive(self) -> bool:
        """Return whether the session is open, as far as the client knows."""
        return not self.connection.closed

    def close(self, *last: bytes) -> None:
        """Run last statements, each as its own transaction, as far as the server answers, and close the session.

        Its locks are released on return, unless the server cannot be reached.
        """
        deadline = time.monotonic() + CLOSE_S
        if self.is_alive():
            with contextlib.suppress(psycopg.Error):  # The server ends a session some time after the client does.
                for question in (*last, b"SELECT pg_advisory_unlock_all()"):
                    self.send(question)
                    if not self.has_done(deadline - time.monotonic()):
                        break
                    while self.connection.pgconn.get_result() is not None:
                        pass
        self.abandon()

    def abandon(self) -> None:
        """Drop a session in an unknown state."""
        self.connection.close()
        self._lines.remove(self._line)

    def send(self, question: bytes) -> None:
        """Send a statement without waiting; only `has_done` and `close` may follow."""
        self.connection.pgconn.send_query(question)

    def has_done(self, patience_s: float) -> bool:
        """Wait for the answer to the sent statement, for a number of seconds; return whether it arrived."""
        connection = self.connection.pgconn
        poll = select.poll()
        poll.register(connection.socket, select.POLLIN)
        deadline = time.monotonic() + patience_s
        connection.flush()
        while connection.is_busy() and connection.status != pq.ConnStatus.BAD:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return False
            connection.consume_input()
        return True

    # Pipelines

    def run(self, calls: Sequence[Call]) -> list[pq.abc.PGresult]:
        """Run statements as one transaction in one round trip; return the result of each.

        Raises Refusal if the transaction was refused and rolled back; Disconnected if its outcome is unknown.
        """
        connection = self.connection.pgconn
        try:
            self._prepare_statements(calls)
            connection.enter_pipeline_mode()
            for statement, parameters in calls:
                connection.send_query_prepared(statement.name, parameters, [1] * len(parameters), 1)
            connection.pipeline_sync()
            results = self._results(connection)
            connection.exit_pipeline_mode()
        except Refusal:
            raise
        except psycopg.Error as error:
            self.abandon()
            raise Disconnected(str(error).strip() or "the connection was lost") from None
        except BaseException:
            self.abandon()
            raise
        for result in results:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                raise _refusal(result)
        return results

    def _prepare_statements(self, calls: Sequence[Call]) -> None:
        for statement, _ in calls:
            if statement.name not in self._statements:
                result = self.connection.pgconn.prepare(statement.name, statement.text.encode(), statement.types)
                if result.status != pq.ExecStatus.COMMAND_OK:
                    if self.connection.pgconn.status == pq.ConnStatus.BAD:
                        raise psycopg.OperationalError(result.get_error_message())
                    raise _refusal(result)
                self._statements.add(statement.name)

    def _results(self, connection: pq.abc.PGconn) -> list[pq.abc.PGresult]:
        """Send the rest and receive the answers up to the answer to the Sync. Raises psycopg.OperationalError."""
        poll = select.poll()
        poll.register(connection.socket, select.POLLIN | select.POLLOUT)
        while connection.flush():
            # Read meanwhile, or both sides would wait for the other to read.
            if any(event & ~select.POLLOUT for _, event in poll.poll()):
                connection.consume_input()
        poll.modify(connection.socket, select.POLLIN)
        results: list[pq.abc.PGresult] = []
        while True:
            while connection.is_busy():
                poll.poll()
                connection.consume_input()
            result = connection.get_result()
            if result is None:  # Between the answers of two statements, and after the last.
                if connection.status == pq.ConnStatus.BAD:
                    raise psycopg.OperationalError(_last_words(results) or connection.get_error_message())
            elif result.status == pq.ExecStatus.PIPELINE_SYNC:
                return results
            else:
                results.append(result)


def _refusal(result: pq.abc.PGresult) -> Refusal:
    state = result.error_field(pq.DiagnosticField.SQLSTATE) or b""
    text = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b""
    return Refusal(state.decode(), text.decode(errors="replace") or result.get_error_message())


def _last_words(results: list[pq.abc.PGresult]) -> str:
    """Return the error that the server sent when it ended the session."""
    errors = [str(_refusal(result)) for result in results if result.status == pq.ExecStatus.FATAL_ERROR]
    return errors[-1] if errors else ""
