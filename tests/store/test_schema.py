"""Store files: recognised, created, upgraded, or refused with a sentence."""

from __future__ import annotations

import os
import sqlite3
import struct
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from penstock import __version__
from penstock.errors import StoreError
from penstock.store import schema
from penstock.store.commit_counter import COUNTER_FILE
from penstock.store.records import UNKNOWN, QueuePosition
from penstock.store.repair import repair
from penstock.store.sqlite import FILE, SqliteStore
from tests.support.open_stores import EMPTY, committing, contents, filled, opened, some_piece, unprivileged


def refusal(directory: Path) -> str:
    """Return why the store of a directory is not opened; and that it is as it was."""
    path = directory / FILE
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError) as raised:
        SqliteStore(directory).open()
    assert (path.read_bytes() if path.is_file() else None) == before
    return str(raised.value)


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def ask(path: Path, question: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


def test_new_file_has_the_application_id_and_the_version_of_penstock(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        path = store.path
    assert path.read_bytes()[68:72] == b"Pnst"
    assert ask(path, "PRAGMA user_version") == [(len(schema.MIGRATIONS),)]
    assert ask(path, "PRAGMA auto_vacuum") == [(2,)]
    assert ask(path, "PRAGMA page_size") == [(schema.PAGE_SIZE,)]
    assert ask(path, "PRAGMA journal_mode") == [("wal",)]
    assert ask(path, "SELECT * FROM about") == [("penstock", __version__)]


def test_store_of_a_newer_version_is_refused_with_that_version_and_advice(tmp_path: Path) -> None:
    filled(tmp_path)
    path = tmp_path / FILE
    change(path, "PRAGMA user_version = 7", "UPDATE about SET value = '3.2.1'")
    assert refusal(tmp_path) == (
        f"the store '{path}' was last opened by Penstock 3.2.1 and has schema version 7; "
        f"Penstock {__version__} reads up to version {len(schema.MIGRATIONS)}: start Penstock 3.2.1 or a newer one"
    )


@pytest.mark.parametrize("statement", ["PRAGMA user_version = -1", "DROP TABLE about"])
def test_store_whose_form_cannot_be_is_damaged(tmp_path: Path, statement: str) -> None:
    filled(tmp_path)
    change(tmp_path / FILE, statement)
    assert refusal(tmp_path).endswith("it is damaged; 'penstock store repair' saves what can be read")


def test_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE
    change(path, "CREATE TABLE bookmarks (url)", "PRAGMA application_id = 42")
    assert refusal(tmp_path) == (
        f"'{path}' is not a store of Penstock but a SQLite database of another program (application id 42); "
        "name another folder with --data"
    )


@pytest.mark.parametrize("octets", [b"", b"SQLite format 3\x00", b"a letter to the editor\n" * 100])
def test_foreign_or_truncated_file_is_refused(tmp_path: Path, octets: bytes) -> None:
    (tmp_path / FILE).write_bytes(octets)
    assert refusal(tmp_path).startswith(
        f"'{tmp_path / FILE}' is not a store of Penstock: it does not begin as a SQLite"
    )


def test_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    assert refusal(tmp_path) == f"cannot open the store '{tmp_path / FILE}': Is a directory"


def test_log_without_the_database_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / f"{FILE}-wal").write_bytes(b"what was confirmed")
    assert "is missing, but its log is there" in refusal(tmp_path)
    assert (tmp_path / f"{FILE}-wal").read_bytes() == b"what was confirmed"


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path / "no" / "where")
    assert said == f"cannot open the store '{tmp_path / 'no' / 'where' / FILE}': No such file or directory"


def test_interrupted_creation_of_a_store_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / f"{FILE}.new").write_bytes(b"half of")
    (tmp_path / f"{FILE}.new-journal").write_bytes(b"it")
    with opened(tmp_path) as store:
        assert contents(store) == EMPTY
    assert {path.name for path in tmp_path.iterdir()} == {FILE, COUNTER_FILE}


def test_store_of_form_0_is_brought_up_to_date(tmp_path: Path) -> None:
    """Form 0 is what the first migration starts from: the mark of a store, and nothing in it."""
    path = tmp_path / FILE
    change(path, "PRAGMA auto_vacuum = 2", f"PRAGMA application_id = {schema.APPLICATION}", "VACUUM")
    with opened(tmp_path) as store:
        assert store.check() == []
    assert ask(path, "PRAGMA user_version") == [(len(schema.MIGRATIONS),)]


def test_migrations_that_a_file_lacks_run_in_order_and_keep_the_records(tmp_path: Path) -> None:
    before = filled(tmp_path)
    path = tmp_path / FILE
    migrations = (
        *schema.MIGRATIONS,
        lambda connection: connection.execute("CREATE TABLE more (number)"),
        lambda connection: connection.execute("INSERT INTO more VALUES (3)"),
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        schema.migrate(connection, path, migrations)
        schema.migrate(connection, path, migrations)
    assert ask(path, "PRAGMA user_version") == [(len(migrations),)]
    assert ask(path, "SELECT * FROM more") == [(3,)]
    change(path, f"PRAGMA user_version = {len(schema.MIGRATIONS)}")
    with opened(tmp_path) as store:
        assert contents(store) == before


OLD_SEAL = struct.Struct("<8s3q")
"""Of a position in form 1."""


def of_form_1(path: Path) -> None:
    """Make a store as it was before positions said how many messages a queue has; the seal of one is wrong."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = 2")
        schema.migrate(connection, path, schema.MIGRATIONS[:1])
        for queue in (1, 2, 3):
            seal = zlib.crc32(OLD_SEAL.pack(b"position", queue, 70 + queue, 7)) ^ (queue == 3)
            connection.execute("INSERT INTO positions VALUES (?, ?, 7, ?)", (queue, 70 + queue, seal))


def test_positions_of_form_1_are_restored_without_the_number_of_messages(tmp_path: Path) -> None:
    of_form_1(tmp_path / FILE)
    with opened(tmp_path) as store:
        assert list(store.positions()) == [QueuePosition(1, 71, 7, UNKNOWN), QueuePosition(2, 72, 7, UNKNOWN)]
        assert [damage.what for damage in store.damaged] == ["position 3"]
        store.commit(committing(positions=[QueuePosition(1, 72, 8, 5), QueuePosition(3, 80, 9, 6)]))
    with opened(tmp_path) as store:
        assert list(store.positions()) == [
            QueuePosition(1, 72, 8, 5),
            QueuePosition(2, 72, 7, UNKNOWN),
            QueuePosition(3, 80, 9, 6),
        ]
        assert store.check() == []


def test_positions_that_form_1_has_lost_are_missed_after_the_migration(tmp_path: Path) -> None:
    of_form_1(tmp_path / FILE)
    (trigger,) = ask(tmp_path / FILE, "SELECT sql FROM sqlite_master WHERE name = 'positions_delete'")[0]
    change(tmp_path / FILE, "DROP TRIGGER positions_delete", "DELETE FROM positions WHERE queue = 2", str(trigger))
    with opened(tmp_path) as store:
        assert [position.queue for position in store.positions()] == [1]
        assert [damage.what for damage in store.damaged] == ["position 3", "1 of 3 positions"]


def test_damaged_store_of_form_1_is_repaired(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    of_form_1(tmp_path / "old" / FILE)
    saved = repair(tmp_path / "old", tmp_path / "new")
    assert (saved.positions, [damage.what for damage in saved.lost]) == (2, ["position 3"])
    with opened(tmp_path / "new") as store:
        assert list(store.positions()) == [QueuePosition(1, 71, 7, UNKNOWN), QueuePosition(2, 72, 7, UNKNOWN)]


def test_migration_that_fails_leaves_the_file_in_the_old_form(tmp_path: Path) -> None:
    before = filled(tmp_path)
    path = tmp_path / FILE
    migrations = (
        *schema.MIGRATIONS,
        lambda connection: connection.execute("DROP TABLE notes"),
        lambda connection: connection.execute("INSERT INTO nowhere VALUES (3)"),
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as connection, pytest.raises(sqlite3.OperationalError):
        schema.migrate(connection, path, migrations)
    with opened(tmp_path) as store:
        assert contents(store) == before
        assert store.check() == []


def test_file_that_may_only_be_read_is_refused(open_folder: Path) -> None:
    filled(open_folder)
    os.chmod(open_folder / FILE, 0o400)
    with unprivileged(open_folder):
        said = refusal(open_folder)
    assert said == (
        f"cannot open the store '{open_folder / FILE}': it may only be read; "
        "give its owner the right to write it, or another folder with --data"
    )


def test_file_that_may_not_even_be_read_is_refused(open_folder: Path) -> None:
    filled(open_folder)
    os.chmod(open_folder / FILE, 0)
    with unprivileged(open_folder), pytest.raises(StoreError) as raised:
        SqliteStore(open_folder).open()
    assert str(raised.value) == f"cannot open the store '{open_folder / FILE}': Permission denied"


def test_store_in_an_unwritable_folder_is_not_created(open_folder: Path) -> None:
    os.chmod(open_folder, 0o500)
    with unprivileged(open_folder):
        assert refusal(open_folder) == f"cannot open the store '{open_folder / FILE}': Permission denied"


def test_store_in_a_folder_that_became_unwritable_is_refused(open_folder: Path) -> None:
    filled(open_folder)
    os.chmod(open_folder, 0o500)
    with unprivileged(open_folder):
        assert refusal(open_folder).startswith(f"cannot open the store '{open_folder / FILE}': ")


def test_store_of_form_3_gets_tables_for_large_bodies_and_is_repaired_without(tmp_path: Path) -> None:
    path = tmp_path / "old" / FILE
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = 2")
        schema.migrate(connection, path, schema.MIGRATIONS[:3])
    assert repair(path.parent, tmp_path / "new").lost == []
    with opened(path.parent) as store:
        store.commit(committing(pieces=[some_piece(1, 0)]))
        assert contents(store).pieces == (some_piece(1, 0),)
        assert store.check() == []
