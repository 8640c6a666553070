"""Sessions of a PostgreSQL store: set-up, ends, errors in one sentence, and waits that can be ended."""

from __future__ import annotations

import array
import fcntl
import signal
import socket
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from penstock.errors import StoreError, StoreFull
from penstock.store.postgres import postgres_store
from penstock.store.records import QueuePosition
from tests.support.brokers import eventually, in_background, some_name
from tests.support.faults import mount
from tests.support.open_stores import committing, contents, some_note, some_row
from tests.support.postgres import Cluster, needs_postgres, refusal, small_disk
from tests.support.store_engines import PostgresEngine, schema_of
from tests.support.store_writers import assert_state_of, writing

pytestmark = needs_postgres


def test_session_has_durable_settings_against_the_settings_of_the_database(cluster: Cluster) -> None:
    database = some_name("loose")
    cluster.ask(f'CREATE DATABASE "{database}"')
    cluster.ask(f'ALTER DATABASE "{database}" SET synchronous_commit = off')
    store = postgres_store(cluster.url(database, tcp=True))
    store.open()
    shown = {
        name: store._session.ask(f"SHOW {name}")[0][0]
        for name in ("synchronous_commit", "idle_session_timeout", "tcp_keepalives_idle", "tcp_user_timeout")
    }
    store.close()
    assert shown == {
        "synchronous_commit": "on",
        "idle_session_timeout": "30s",
        "tcp_keepalives_idle": "2",
        "tcp_user_timeout": "5000",
    }


def backend_of(cluster: Cluster, engine: PostgresEngine) -> int | None:
    """Return the process of the store's session; None while the server recovers from a crash."""
    try:
        ((backend,),) = cluster.ask(f'SELECT backend FROM "{schema_of(engine)}".lease')
    except psycopg.OperationalError:
        return None
    return int(backend)


def await_successor(cluster: Cluster, engine: PostgresEngine, ended: int) -> int:
    """Wait for the session that follows one that has ended; return its process."""

    def found() -> int | None:
        backend = backend_of(cluster, engine)
        return None if backend == ended else backend

    return eventually(found, "a session after the crash") or 0


def test_session_whose_server_process_crashes_is_opened_again(cluster: Cluster, engine: PostgresEngine) -> None:
    with writing(engine.url) as writer:
        for _ in range(2):
            before = writer.await_commits(5)
            backend = backend_of(cluster, engine)
            assert backend is not None
            cluster.signal(backend, signal.SIGKILL)  # The server ends all sessions then, and recovers.
            assert writer.await_commits(5) > before
            assert await_successor(cluster, engine, backend)
        last = writer.committed()
    assert_state_of(engine.contents(), last, writer.committed() + 1)


def test_wrong_password_is_reported_and_not_shown(cluster: Cluster) -> None:
    cluster.ask("DROP ROLE IF EXISTS locked")
    cluster.ask("CREATE ROLE locked LOGIN PASSWORD 'right'")
    cluster.ask("CREATE DATABASE locked OWNER locked")
    wrong = cluster.url("locked", "locked:secret", tcp=True)
    assert refusal(wrong) == (
        f"cannot reach the store in database 'locked' at '127.0.0.1', port {cluster.port}: "
        'password authentication failed for user "locked"; '
        "give the right password in the URL, in PGPASSWORD or in ~/.pgpass"
    )
    assert "no password supplied; give one" in refusal(cluster.url("locked", "locked", tcp=True))
    store = postgres_store(cluster.url("locked", "locked:right", tcp=True))
    store.open()
    store.commit(committing(rows=[some_row(1)]))
    store.close()


def test_missing_database_or_user_is_named_with_advice(cluster: Cluster) -> None:
    assert refusal(cluster.url("nowhere")).endswith(
        'database "nowhere" does not exist; create it with: createdb, or give another database in the URL'
    )
    assert refusal(cluster.url(user="nobody-there")).endswith(
        'role "nobody-there" does not exist; create it with: createuser, or give another user in the URL'
    )


def test_read_only_database_is_refused_at_start_and_reported_at_run_time(cluster: Cluster) -> None:
    database = some_name("readonly")
    cluster.ask(f'CREATE DATABASE "{database}"')
    read_only = f'ALTER DATABASE "{database}" SET default_transaction_read_only = '
    cluster.ask(read_only + "on")
    said = (
        f"the store in database '{database}' at '{cluster.folder}', port {cluster.port}: the database may only be read"
    )
    assert said in refusal(cluster.url(database))
    cluster.ask(read_only + "off")
    store = postgres_store(cluster.url(database))
    store.open()
    store._session.set("default_transaction_read_only", "on")
    with pytest.raises(StoreError, match=r"^cannot write the store in .*: the database may only be read; is this"):
        store.commit(committing(rows=[some_row(1)]))
    store._session.set("default_transaction_read_only", "off")
    store.commit(committing(rows=[some_row(1)]))
    assert list(store.rows()) == [some_row(1)]
    store.close()


def test_full_disk_is_reported_and_the_commit_can_be_repeated(cluster: Cluster, engine: PostgresEngine) -> None:
    with small_disk(cluster) as folder, engine.opened() as store:
        cluster.ask("DROP TABLESPACE IF EXISTS small")
        cluster.ask(f"CREATE TABLESPACE small LOCATION '{folder}'")
        cluster.ask(f'ALTER TABLE "{schema_of(engine)}".rows SET TABLESPACE small')
        store.commit(committing(rows=[some_row(1, 1_000_000)], settlements=[some_note(3)]))
        before = contents(store)
        large = committing(
            rows=[some_row(4), some_row(5, 12_000_000)], settlements_gone=[3], positions=[QueuePosition(7, 20, 20)]
        )
        for _ in range(2):
            with pytest.raises(
                StoreFull, match=r"^cannot write the store in .*: there is no room left for it on the server"
            ):
                store.commit(large)
            assert contents(store) == before
        store.commit(committing(rows=[some_row(6, 10)]))  # What fits goes on.
        mount(folder, "remount,size=64m")
        store.commit(large)
        assert [row.number for row in store.rows()] == [1, 4, 5, 6]
        assert list(store.settlements()) == []
        store.close()
        cluster.ask(f'DROP SCHEMA "{schema_of(engine)}" CASCADE')
        cluster.ask("DROP TABLESPACE small")


def test_missing_table_is_named(cluster: Cluster, engine: PostgresEngine) -> None:
    with engine.opened() as store:
        cluster.ask(f'DROP TABLE "{schema_of(engine)}".notes')
        with pytest.raises(StoreError, match=r"^cannot read the store in .*: a table of it is missing; restore"):
            list(store.settlements())
        with pytest.raises(StoreError, match=r"^cannot write the store in .*: a table of it is missing; restore"):
            store.commit(committing(settlements=[some_note(1)]))


@contextmanager
def paused(cluster: Cluster, process: int) -> Iterator[None]:
    """Have a process of the server stand still."""
    cluster.signal(process, signal.SIGSTOP)
    try:
        yield
    finally:
        cluster.signal(process, signal.SIGCONT)


def has_been_sent(cluster: Cluster, line: socket.socket) -> bool:
    """Tell whether the other end of a local socket has something to read: a process that stands still does not."""
    octets = array.array("i", [0])
    fcntl.ioctl(line, termios.TIOCOUTQ, octets)
    return octets[0] > 0


def test_wait_for_a_silent_server_can_be_ended_by_another_thread(cluster: Cluster, engine: PostgresEngine) -> None:
    for work in ("commit", "tidy", "rows"):
        store = engine.make()
        store.open()
        store.commit(committing(rows=[some_row(1)]))
        backend = store._session.pid
        with paused(cluster, backend):
            waiting = threading.Event()
            do = {
                "commit": lambda store=store: store.commit(committing(rows=[some_row(2)])),
                "tidy": store.reclaim_space,
                "rows": lambda store=store: list(store.rows()),
            }[work]

            def wait(do: Callable[[], object] = do, waiting: threading.Event = waiting) -> None:
                waiting.set()
                with pytest.raises(StoreError, match=r"^the store in .* is not open$"):
                    do()

            with in_background(wait):
                waiting.wait()
                eventually(lambda line=store._session._line: has_been_sent(cluster, line), "it is on its way")
                assert store.interrupt()
            store.close()
        with pytest.raises(StoreError, match=r"is not open$"):
            store.open()
        eventually(lambda pid=backend: not cluster.ask("SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid), "the end")
        assert engine.contents().rows in ([some_row(1)], [some_row(1), some_row(2)])


def test_store_is_closed_in_seconds_when_the_server_does_not_answer(cluster: Cluster, engine: PostgresEngine) -> None:
    store = engine.make()
    store.open()
    with paused(cluster, store._session.pid), in_background(store.close):
        pass
    assert engine.contents().rows == []
