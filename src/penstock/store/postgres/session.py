"""Session with a PostgreSQL server: each transaction is one pipeline and one round trip.

Theory of operation. A pipeline is a sequence of statements, each prepared once per session, with one Sync at the end.
Up to a Sync everything is one transaction, without BEGIN or COMMIT. When a statement fails, the server skips the rest
and rolls back (https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-PIPELINING). So a transaction
is never applied in part. The code uses psycopg's module pq, plain libpq: a cursor for each of six statements costs four
times the CPU.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import pq

from penstock.errors import StoreError
from penstock.store.postgres.dsn import DatabaseAddress
from penstock.store.postgres.faults import Disconnected, Refusal, unreachable
from penstock.store.postgres.session_sockets import SessionSockets

OLDEST: Final = 140_000
"""Oldest supported server: version 14, which introduced idle_session_timeout."""
DEAD_PEER_MS: Final = 5_000
IDLE_S: Final = 30
"""Seconds after which the server ends an idle session, so that a suspended broker does not hold the lease for ever.

A running broker sends a query each second (`Store.reclaim_space`).
"""
CLOSE_S: Final = 2.0
"""Seconds for which closing waits until the server has released the session's locks."""
SETTINGS: Final = {
    "lock_timeout": "5s",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": f"{IDLE_S}s",
    "default_transaction_isolation": "read committed",
    # A client whose host has died is noticed after 2 + 3 x 1 s, or after 5 s if the server has data to send.
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": str(DEAD_PEER_MS),
}
"""Settings of a session, whatever the server's own are."""


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
        """Connect, within a few seconds (`dsn.CONNECT_S`). Raises StoreError."""
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
        # 'on' is a flush to disk, here and on synchronous replicas; 'remote_apply' is that and more.
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
        """Tell whether the session has not ended, as far as the client knows."""
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
        """Send the rest and receive the answers up to the Sync's. Raises psycopg.OperationalError."""
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
