"""Sessions of a PostgreSQL store: how they are set up, and what follows when they end."""

from __future__ import annotations

import signal

import psycopg

from penstock.store.postgres import postgres_store
from tests.support.brokers import eventually, some_name
from tests.support.postgres import Cluster, needs_postgres
from tests.support.store_engines import PostgresEngine, schema_of
from tests.support.store_writers import assert_state_of, writing

pytestmark = needs_postgres


def test_session_is_set_up_for_what_it_promises_whatever_the_database_says(cluster: Cluster) -> None:
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


def test_session_whose_server_process_crashes_is_made_anew(cluster: Cluster, engine: PostgresEngine) -> None:
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
