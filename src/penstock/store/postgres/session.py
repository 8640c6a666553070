"""One session with the server, and how a transaction goes there in one round trip.

Theory of operation. A transaction is sent as one pipeline: its statements, prepared once a session, one after the other
and one Sync at the end. Up to a Sync everything is one transaction, without BEGIN or COMMIT, and when a statement
fails the server skips the rest and takes back what came before
(https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-PIPELINING). So half of one is never there.
It is written with psycopg's module pq, libpq as it is: a cursor for each of six statements costs four times the CPU.
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
"""Version 14; idle_session_timeout is not there before."""
DEAD_PEER_MS: Final = 5_000
IDLE_S: Final = 30
"""Seconds after which the server ends a session that does nothing: a broker that is stopped, or sleeps with its
machine, does not keep the lease for ever. One that runs asks something each second (`Store.reclaim_space`)."""
CLOSE_S: Final = 2.0
"""Seconds that the server gets to let go of what a session holds, when that is closed."""
SETTINGS: Final = {
    "lock_timeout": "5s",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": f"{IDLE_S}s",
    "default_transaction_isolation": "read committed",
    # A client whose host has died is noticed after 2 + 3 x 1 s, or 5 s if the server has something to tell it.
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": str(DEAD_PEER_MS),
}
"""What a session does its work with, whatever the server's own settings say."""


class Statement(NamedTuple):
    """A statement that is prepared once a session."""

    name: bytes
    text: str
    """With parameters $1, $2 ..."""
    types: tuple[int, ...]
    """The types of the parameters, by their OIDs."""


Call = tuple[Statement, list[bytes]]
"""A statement and its parameters, in PostgreSQL's binary form."""


class Session:
    """A connection; one thread at a time uses it. Everything but the constructor raises psycopg.Error."""

    def __init__(self, address: DatabaseAddress, lines: SessionSockets) -> None:
        """Connect, within a few seconds (`address.CONNECT_S`). Raises StoreError."""
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
        """The number of the process that serves us, on the server's machine."""

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
        # 'on' is the flush to the disk, here and on synchronous replicas; 'remote_apply' is that and more.
        self.ask(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') <> 'remote_apply'"
        )

    def set(self, name: str, value: str) -> None:
        """Change a setting of the session."""
        self.ask("SELECT set_config(%s, %s, false)", name, value)

    def ask(self, question: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Run a statement with parameters %s, a transaction of its own; return what it gives."""
        cursor = self.connection.execute(question, parameters or None, binary=True)
        return cursor.fetchall() if cursor.description is not None else []

    def is_alive(self) -> bool:
        """Tell whether the session has not ended, as far as is known."""
        return not self.connection.closed

    def close(self) -> None:
        """End the session; what it held is free when this returns, unless the server cannot be reached."""
        if self.is_alive():
            with contextlib.suppress(psycopg.Error):  # The server ends a session some time after we do.
                self.send(b"SELECT pg_advisory_unlock_all()")
                self.has_done(CLOSE_S)
        self.abandon()

    def abandon(self) -> None:
        """Let go of a session of which nobody knows what it does."""
        self.connection.close()
        self._lines.remove(self._line)

    def send(self, question: bytes) -> None:
        """Have the server begin with a statement; it is the session's last."""
        self.connection.pgconn.send_query(question)

    def has_done(self, patience_s: float) -> bool:
        """Wait so many seconds for the answer to what was sent; tells whether it has come, whatever it is."""
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
        """Run statements as one transaction, in one round trip; return what each gives.

        Raises Refusal if it was refused, and nothing of it is there; Disconnected if it may be there.
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
        """Send what is not sent yet, and take the answers up to the Sync's. Raises psycopg.OperationalError."""
        poll = select.poll()
        poll.register(connection.socket, select.POLLIN | select.POLLOUT)
        while connection.flush():
            # Answers must be taken meanwhile, or both sides would wait for the other to read.
            if any(event & ~select.POLLOUT for _, event in poll.poll()):
                connection.consume_input()
        poll.modify(connection.socket, select.POLLIN)
        results: list[pq.abc.PGresult] = []
        while True:
            while connection.is_busy():
                poll.poll()
                connection.consume_input()
            result = connection.get_result()
            if result is None:  # Between the answers of two statements, and when there will be no more.
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
    """Return what the server said when it ended the session."""
    said = [str(_refusal(result)) for result in results if result.status == pq.ExecStatus.FATAL_ERROR]
    return said[-1] if said else ""
