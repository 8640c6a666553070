"""Upgrade and downgrade: a store that an older Penstock wrote is opened with all that is in it, a newer one is refused.

The stores were written by tests/support/old_store.py with the versions of 2026-11-22 that had schema 2 (stopped in
order) and schema 3 (killed). There was no release before.
"""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pika
import pytest

from penstock import __version__
from penstock.store import schema
from penstock.store.sqlite import FILE
from tests.support import old_store
from tests.support.brokers import BrokerProcess, penstock_command, serving
from tests.support.commands import listed, refused, run
from tests.support.open_stores import contents_of

STORES = Path(__file__).parent / "stores"
ARCHIVES = sorted(STORES.glob("schema-*.tar.gz"))
NEWEST = len(schema.MIGRATIONS)


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack the store of an older version into a data directory."""
    data = folder / "data"
    with tarfile.open(archive) as packed:
        packed.extractall(data, filter="data")
    return data


def version(data: Path) -> int:
    with closing(sqlite3.connect(data / FILE)) as connection:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        return int(found)


def taken(
    channel: pika.adapters.blocking_connection.BlockingChannel, queue: str
) -> list[tuple[pika.BasicProperties, bytes]]:
    """Take all messages of a queue."""
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append((got[1], got[2]))
    return found


def check_messages(broker: BrokerProcess) -> None:
    """Take what the older version stored, in its order, and publish by the binding that it made."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("events", "orders.new", b"new", pika.BasicProperties(delivery_mode=2), mandatory=True)
        orders = taken(channel, "orders")
        left = [number for number in range(old_store.ORDERS) if number not in old_store.SETTLED]
        assert [body for _, body in orders] == [*(b"order %d" % number for number in left), b"new"]
        assert {repr(properties.headers) for properties, _ in orders[:-1]} == {repr(old_store.HEADERS)}
        assert [properties.message_id for properties, _ in orders[:-1]] == list(map(str, left))
        deep = [body for _, body in taken(channel, "deep")]
        assert deep == [b"%d" % number + b"." * old_store.PAGED_OCTETS for number in range(old_store.PAGED)]
        assert [body for _, body in taken(channel, "ranked")] == [b"priority 5", b"priority 3", b"priority 1"]


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def test_store_of_an_older_version_is_opened_with_all_records(tmp_path: Path, archive: Path) -> None:
    data = unpacked(archive, tmp_path)
    assert version(data) == int(archive.name.removeprefix("schema-").partition(".")[0]) < NEWEST
    with serving(tmp_path, "--data", str(data)) as broker:
        assert "hold-deadline" in run(broker, "settings")
        assert {each["name"] for each in listed(broker, "vhosts")} == {"/", "eu"}
        check_messages(broker)
        assert broker.stop() == 0
    assert version(data) == NEWEST
    assert "is in order" in penstock_command("check", "--data", str(data)).stdout


def test_store_of_a_newer_version_is_refused_in_one_sentence_and_unchanged(tmp_path: Path) -> None:
    data = unpacked(ARCHIVES[0], tmp_path)
    with closing(sqlite3.connect(data / FILE, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
        connection.execute("UPDATE about SET value = '9.1.0'")
    before = (data / FILE).read_bytes()
    assert refused("serve", "--listen", "127.0.0.1:0", "--data", str(data)) == (
        f"the store '{data / FILE}' was last opened by Penstock 9.1.0 and has schema version {NEWEST + 1}; "
        f"Penstock {__version__} reads up to version {NEWEST}: start Penstock 9.1.0 or a newer one"
    )
    assert (data / FILE).read_bytes() == before


def test_store_of_a_newer_penstock_with_the_same_schema_is_opened(tmp_path: Path) -> None:
    data = unpacked(ARCHIVES[0], tmp_path)
    before = contents_of(data)
    with closing(sqlite3.connect(data / FILE, isolation_level=None)) as connection:
        connection.execute("UPDATE about SET value = '9.1.0'")
    assert contents_of(data) == before
    with closing(sqlite3.connect(data / FILE)) as connection:
        assert connection.execute("SELECT value FROM about").fetchone() == (__version__,)
