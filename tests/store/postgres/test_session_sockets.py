"""Ending every wait for a server that does not answer."""

from __future__ import annotations

import array
import fcntl
import signal
import socket
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from penstock.errors import StoreError
from tests.support.brokers import eventually, in_background
from tests.support.open_stores import committing, some_row
from tests.support.postgres import Cluster, needs_postgres
from tests.support.store_engines import PostgresEngine

pytestmark = needs_postgres


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


def test_who_waits_for_a_server_that_does_not_answer_comes_back_when_another_thread_ends_it(
    cluster: Cluster, engine: PostgresEngine
) -> None:
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


def test_store_is_closed_in_seconds_when_its_server_does_not_answer(cluster: Cluster, engine: PostgresEngine) -> None:
    store = engine.make()
    store.open()
    with paused(cluster, store._session.pid), in_background(store.close):
        pass
    assert engine.contents().rows == []
