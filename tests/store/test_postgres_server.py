"""The server goes away, comes back, is full or damaged: what was committed stays, and the store says what is wrong."""

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
from penstock.store.postgres.store import PostgresStore
from penstock.store.records import MetadataRecord, QueuePosition
from tests.support import postgres
from tests.support.brokers import eventually, in_background, some_name
from tests.support.faults import mount
from tests.support.open_stores import committing, contents, some_note, some_octets, some_page, some_row
from tests.support.postgres import Cluster, needs_postgres, small_disk
from tests.support.store_engines import PostgresEngine
from tests.support.store_writers import assert_state_of, writing
from tests.support.tcp_proxy import proxied

pytestmark = needs_postgres


@pytest.fixture(scope="module")
def mortal() -> Iterator[Cluster]:
    """Return a server that tests may stop and break."""
    with postgres.cluster() as server:
        yield server


@pytest.fixture
def engine(mortal: Cluster) -> PostgresEngine:
    if not mortal.is_running():
        mortal.start()
    return PostgresEngine(mortal)


def schema_of(engine: PostgresEngine) -> str:
    return postgres_store(engine.url).address.schema


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_goes_away_and_comes_back_has_all_that_was_committed(
    mortal: Cluster, engine: PostgresEngine, mode: str
) -> None:
    with writing(engine.url) as writer:
        for _ in range(2):
            writer.await_commits(5)
            mortal.stop(mode)
            failed = len(writer.events("failed"))
            eventually(lambda before=failed: len(writer.events("failed")) > before, "a commit that failed")
            mortal.start()
            writer.await_commits(2)
        last = writer.committed()
        assert writer.events("lost") == []
    assert_state_of(engine.contents(), last, writer.committed() + 1)


def test_a_session_whose_server_process_crashes_is_made_anew(mortal: Cluster, engine: PostgresEngine) -> None:
    with writing(engine.url) as writer:
        for _ in range(2):
            before = writer.await_commits(5)
            ((backend,),) = mortal.ask(f'SELECT backend FROM "{schema_of(engine)}".lease')
            mortal.signal(backend, signal.SIGKILL)  # The server ends all sessions then, and recovers.
            assert writer.await_commits(5) > before
        last = writer.committed()
    assert_state_of(engine.contents(), last, writer.committed() + 1)


def test_a_commit_whose_answer_was_lost_is_done_once(mortal: Cluster) -> None:
    with proxied(f"127.0.0.1:{mortal.port}") as proxy:
        schema = some_name("store")
        store = postgres_store(f"postgresql://postgres@{proxy.address}/postgres?schema={schema}")
        store.open()
        for number in range(1, 8):
            row = some_row(number, 100 * number)  # Each of another size: one can see which were deleted or replaced.
            things = [MetadataRecord("queue", f"q{number}", b""), MetadataRecord("queue", f"q{number - 1}", None)]
            proxy.loses_answer = number > 1  # The first time statements are prepared, and the answers are to that.
            store.commit(committing(rows=[row], rows_gone=[number - 2], metadata=things))
            assert not proxy.loses_answer
            assert number == 1 or store._space.deleted == len(row.data), "it was there when it was done again"
            assert [row.number for row in store.rows()] == [number - 1, number][number == 1 :]
            assert [thing.key for thing in store.metadata()] == [f"q{number}"]
        store.close()


def test_a_commit_says_that_the_server_is_gone_and_succeeds_when_it_is_back(
    mortal: Cluster, engine: PostgresEngine
) -> None:
    with engine.opened() as store:
        mortal.stop()
        commit = committing(rows=[some_row(1)], metadata=[MetadataRecord("queue", "a", b"")])
        for _ in range(2):
            with pytest.raises(StoreError) as raised:
                store.commit(commit)
            assert str(raised.value).startswith(
                f"cannot reach the store in schema '{schema_of(engine)}' of database 'postgres' at '{mortal.folder}'"
            )
            assert str(raised.value).endswith("; is the server running there?")
        mortal.start()
        store.commit(commit)
        store.commit(commit)
    found = engine.contents()
    assert (found.rows, found.things) == ([some_row(1)], [MetadataRecord("queue", "a", b"")])


def test_a_server_that_is_down_is_named_with_what_to_do(mortal: Cluster, engine: PostgresEngine) -> None:
    mortal.stop()
    store = postgres_store(mortal.url(user="locked:secret", tcp=True))
    with pytest.raises(StoreError) as raised:
        store.open()
    mortal.start()
    assert str(raised.value) == (
        f"cannot reach the store in database 'postgres' at '127.0.0.1', port {mortal.port}: Connection refused; "
        "is the server running there?"
    )


def test_a_disk_that_is_full_is_told_and_takes_the_same_commit_when_there_is_room(
    mortal: Cluster, engine: PostgresEngine
) -> None:
    with small_disk(mortal) as folder, engine.opened() as store:
        mortal.ask("DROP TABLESPACE IF EXISTS small")
        mortal.ask(f"CREATE TABLESPACE small LOCATION '{folder}'")
        mortal.ask(f'ALTER TABLE "{schema_of(engine)}".rows SET TABLESPACE small')
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
        mortal.ask(f'DROP SCHEMA "{schema_of(engine)}" CASCADE')
        mortal.ask("DROP TABLESPACE small")


@contextmanager
def paused(mortal: Cluster, process: int) -> Iterator[None]:
    """Have a process of the server stand still."""
    mortal.signal(process, signal.SIGSTOP)
    try:
        yield
    finally:
        mortal.signal(process, signal.SIGCONT)


def has_been_sent(mortal: Cluster, line: socket.socket) -> bool:
    """Tell whether the other end of a local socket has something to read: a process that stands still does not."""
    octets = array.array("i", [0])
    fcntl.ioctl(line, termios.TIOCOUTQ, octets)
    return octets[0] > 0


# Damage


def filled(store: PostgresStore) -> None:
    for number in range(1, 20):
        store.commit(
            committing(
                rows=[some_row(number, 5000), some_page(100 + number, 1, number, 5000)],
                settlements=[some_note(200 + number)],
                metadata=[MetadataRecord("queue", f"q{number}", some_octets(number, 100))],
                positions=[QueuePosition(number, 5, 5)],
            )
        )  # fmt: skip


def test_a_record_that_somebody_has_changed_is_told_and_the_rest_is_there(
    mortal: Cluster, engine: PostgresEngine
) -> None:
    schema = schema_of(engine)
    with engine.opened() as store:
        filled(store)
        for change in (
            "rows SET data = 'other' WHERE number IN (3, 104)",
            "rows SET first = 77 WHERE number = 105",
            "notes SET data = 'other' WHERE number = 205",
            "things SET key = 'other' WHERE key = 'q6'",
            "positions SET tail = 6 WHERE queue = 7",
        ):
            mortal.ask(f'UPDATE "{schema}".{change}')
        assert [row.number for row in store.rows() if row.queue == 0] == [1, 2, *range(4, 20)]
        assert len(list(store.settlements())) == len(list(store.metadata())) == len(list(store.positions())) == 18
        assert [page.number for page in store.pages(1, 4, 20_000)] == [106, 107, 108]
        told = {damage.what for damage in store.damaged}
        assert told == {"row 3", "page 104 of queue number 1", "row 105", "note 205", "thing 6", "position 7"}
        assert {damage.why for damage in store.damaged} == {"its checksum is wrong"}
        assert {damage.what for damage in store.check()} == told


def test_files_that_the_server_finds_damaged_cost_the_records_in_them_and_no_others(
    mortal: Cluster, engine: PostgresEngine
) -> None:
    schema = schema_of(engine)
    with engine.opened() as store:
        filled(store)
    ((path,),) = mortal.ask(
        "SELECT pg_relation_filepath(reltoastrelid) FROM pg_class WHERE oid = %s::regclass", f'"{schema}".rows'
    )
    mortal.stop()
    file = mortal.data / path
    octets = bytearray(file.read_bytes())
    assert len(octets) > 3 * 8192
    octets[8192 + 5000] ^= 1
    file.write_bytes(octets)
    mortal.start()
    with engine.opened() as store:
        rows = [row for row in store.rows() if row.queue == 0]
        pages = store.pages(1, 0, 1 << 30)
        lost = {damage.what for damage in store.damaged}
        assert 1 <= len(lost) <= 4
        assert len(rows) + len(pages) + len(lost) == 38
        assert all(row == some_row(row.number, 5000) for row in rows)
        assert all("invalid page in block 1" in damage.why for damage in store.damaged)
        assert {damage.what for damage in store.check()} == lost


def test_a_server_that_does_not_synchronise_its_files_is_warned_of(
    mortal: Cluster, engine: PostgresEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.contents()
    assert caplog.messages == []
    mortal.ask("ALTER SYSTEM SET fsync = off")
    mortal.stop()
    mortal.start()
    engine.contents()
    mortal.ask("ALTER SYSTEM RESET fsync")
    mortal.stop()
    mortal.start()
    (said,) = {*caplog.messages}
    assert said.endswith("has fsync off: what is confirmed may be lost in a power failure")


def test_who_waits_for_a_server_that_does_not_answer_comes_back_when_another_thread_ends_it(
    mortal: Cluster, engine: PostgresEngine
) -> None:
    for work in ("commit", "tidy", "rows"):
        store = engine.make()
        store.open()
        store.commit(committing(rows=[some_row(1)]))
        backend = store._session.pid
        with paused(mortal, backend):
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
                eventually(lambda line=store._session._line: has_been_sent(mortal, line), "it is on its way")
                assert store.interrupt()
            store.close()
        with pytest.raises(StoreError, match=r"is not open$"):
            store.open()
        eventually(lambda pid=backend: not mortal.ask("SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid), "the end")
        assert engine.contents().rows in ([some_row(1)], [some_row(1), some_row(2)])


def test_a_store_is_closed_in_seconds_when_its_server_does_not_answer(mortal: Cluster, engine: PostgresEngine) -> None:
    store = engine.make()
    store.open()
    with paused(mortal, store._session.pid), in_background(store.close):
        pass
    assert engine.contents().rows == []


def test_a_table_that_is_gone_is_named(mortal: Cluster, engine: PostgresEngine) -> None:
    with engine.opened() as store:
        mortal.ask(f'DROP TABLE "{schema_of(engine)}".notes')
        with pytest.raises(StoreError, match=r"^cannot read the store in .*: a table of it is missing; restore"):
            list(store.settlements())
        with pytest.raises(StoreError, match=r"^cannot write the store in .*: a table of it is missing; restore"):
            store.commit(committing(settlements=[some_note(1)]))


def test_tables_that_somebody_has_locked_fail_a_commit_that_may_be_tried_again(
    mortal: Cluster, engine: PostgresEngine
) -> None:
    with engine.opened() as store, psycopg.connect(mortal.url()) as other:
        store._session.set("lock_timeout", "50ms")
        other.execute(f'LOCK TABLE "{schema_of(engine)}".rows'.encode())
        with pytest.raises(StoreError, match=r"another program has locked its tables$"):
            store.commit(committing(rows=[some_row(1)]))
        other.rollback()
        store.commit(committing(rows=[some_row(1)]))
        assert list(store.rows()) == [some_row(1)]
