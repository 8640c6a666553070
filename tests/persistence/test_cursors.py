"""Cursors in the store: positions and owners survive the broker, and are written before their answer."""

from __future__ import annotations

import json

import pytest

from penstock.connections.peer import Peer
from penstock.content.properties import Properties
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.journal.group import MetadataChange
from penstock.core.journal.journal import Journal
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.core.vhost import VirtualHost
from penstock.driver.driver import BrokerDriver
from penstock.errors import Fenced, NotFound, PreconditionFailed
from penstock.persistence.metadata_records import CURSOR, encode_metadata
from penstock.protocols.amqp091.content_frames import make_content
from penstock.ranges.cursors import Cursor
from tests.support.access_of import access_of
from tests.support.control_requests import known_to
from tests.support.restored_broker import Declared, journaled, queue_of
from tests.support.topology_changes import ask


class Desk:
    """A driver with a durable and a transient queue of five messages each, and what the store has of it."""

    def __init__(self) -> None:
        self.driver: BrokerDriver = journaled()
        self.vhost: VirtualHost = self.driver.broker.vhosts["/"]
        self.store = Declared(self.driver)
        self.kept: Queue = queue_of(self.vhost, "kept")
        self.passing: Queue = self.vhost.declare_queue("passing", {}, False, False, None, None)
        content = make_content(Properties(), b"")
        for queue in (self.kept, self.passing):
            for _ in range(5):
                queue.enqueue(Envelope("", queue.name, persistent=True), content, 10, 0.0)
        self.store.write()

    def cursor(self, name: str = "c") -> Cursor:
        return self.driver.broker.vhosts["/"].cursors[name]

    def ask(self, operation: str, **fields: object) -> None:
        cursor = self.driver.broker.vhosts["/"].cursors.get("c")
        holder = known_to(operation, cursor="c", token=cursor.token if cursor else 0)
        # A plan waits for as long as its connection is there.
        connection = next(iter(self.driver.connections.values()), None)
        if connection is None:
            connection = self.driver.connect(Peer("127.0.0.1:1", True))
            connection.user = "guest"
            connection.access = access_of(self.driver.broker)
        content = make_content(Properties(), json.dumps({**holder, **fields}).encode())
        self.driver.control.request(self.vhost, connection, operation, content)

    def written(self) -> tuple[list[str], list[str]]:
        """Return the kinds of things and the queues whose ends are written next."""
        journal = self.driver.broker.journal
        assert isinstance(journal, Journal)
        things = [type(change.subject).__name__ for change in journal.open.changes]
        queues = [progress.storage.queue.name for progress in journal.open.progressed]
        self.store.write()
        return things, queues

    def restart(self) -> Desk:
        """Return the same after a restart."""
        self.store.write()
        again = Desk.__new__(Desk)
        again.driver, told = self.store.restored()
        assert told == []
        again.vhost = again.driver.broker.vhosts["/"]
        again.store = self.store
        again.store.driver = again.driver
        again.kept = again.vhost.queues["kept"]
        assert again.driver.broker.journal is not None
        self.store.shelf.recover(again.driver.broker, again.driver.broker.journal)
        return again


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_position_of_a_cursor_is_written_before_its_answer(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept", "passing"])
    assert desk.written() == (["Cursor"], ["kept"])
    desk.ask("cursor.plan", upto={"kept": 2})
    assert desk.written() == (["Cursor"], ["kept"])
    desk.ask("cursor.settle", end={"kept": 1})
    assert desk.written() == (["Cursor"], ["kept"])
    desk.ask("cursor.plan", settle={"kept": 2}, start={"kept": 5, "passing": 5})
    assert desk.written() == (["Cursor"], ["kept"])
    desk.ask("cursor.plan", start={"kept": 5, "passing": 5})
    assert desk.written() == ([], []), "nothing was planned"
    desk.ask("cursor.range", queue="kept", lo=2, hi=5)
    assert desk.written() == ([], [])
    desk.ask("cursor.delete")
    assert desk.written() == (["Cursor"], [])
    assert CURSOR not in dict(desk.store.names())


def test_plan_that_waited_writes_its_end(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept"], starting="latest")
    desk.ask("cursor.plan", wait_ms=1000)
    desk.store.write()
    desk.kept.enqueue(Envelope("", "kept"), b"", 10, 0.0)
    desk.driver.broker.schedule_delivery(desk.kept)
    while desk.driver.run_turn():
        pass
    assert desk.cursor().position("kept").planned == 6
    assert desk.written() == (["Cursor"], ["kept"])


@pytest.mark.parametrize("wait_ms", [0, 50])
def test_plan_without_messages_writes_the_end_of_a_queue_that_it_reports(desk: Desk, wait_ms: int) -> None:
    desk.ask("cursor.attach", queues=["kept"])
    desk.store.write()
    desk.kept.enqueue(Envelope("", "kept"), b"", 10, 0.0)
    for things in (["Cursor"], []):
        desk.ask("cursor.plan", upto={"kept": 0}, wait_ms=wait_ms)
        desk.driver.broker.schedule_delivery(desk.kept)
        while desk.driver.run_turn():
            pass
        if wait_ms:
            assert desk.written()[0] == [], "nobody was told anything yet"
        desk.driver.broker.begin(desk.driver.broker.now + 1)
        desk.driver.broker.run(1000)
        assert desk.written()[0] == things, "an end is written before it is told the first time"


def test_ranges_settled_before_an_impossible_one_are_written(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept", "passing"])
    desk.store.write()
    desk.ask("cursor.settle", end={"kept": 3, "passing": 99})
    assert desk.cursor().position("kept").settled == 3
    assert desk.written() == (["Cursor"], ["kept"])
    desk.ask("cursor.settle", end={"passing": 99})
    assert desk.written() == ([], [])


def test_cursor_keeps_its_position_and_older_holders_stay_fenced_out(desk: Desk) -> None:
    for _ in range(3):
        desk.ask("cursor.attach", queues=["kept"], starting={"kept": 1})
    desk.ask("cursor.plan", upto={"kept": 4})
    desk.ask("cursor.settle", end={"kept": 2})
    again = desk.restart()
    cursor = again.cursor()
    position = cursor.position("kept")
    assert (cursor.token, position.initial, position.settled, position.planned) == (3, 1, 2, 4)
    assert again.kept.cursors == [cursor]
    cursor.check(3, 0.0)
    with pytest.raises(Fenced):
        cursor.check(2, 0.0)
    again.ask("cursor.attach", queues=["kept"])
    assert cursor.token == 4


def test_cursor_reads_on_after_a_restart(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept"])
    desk.ask("cursor.settle", end={"kept": 2})
    again = desk.restart()
    assert [int(message.sequence) for message in again.cursor().read("kept", 2, 9, 9, 999)] == [3, 4, 5]
    again.ask("cursor.settle", end={"kept": 5})
    assert (again.kept.messages, again.kept.bytes) == (0, 0)
    assert again.restart().kept.messages == 0


def test_messages_settled_by_a_cursor_do_not_come_back(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept"])
    desk.store.write()
    desk.ask("cursor.settle", end={"kept": 4})
    desk.store.shelf.put(
        encode_metadata(MetadataChange(desk.cursor(), False))
    )  # And died before the rest of it was written.
    driver, _ = desk.store.restored()
    assert driver.broker.journal is not None
    desk.store.shelf.recover(driver.broker, driver.broker.journal)
    queue = driver.broker.vhosts["/"].queues["kept"]
    assert [int(message.sequence) for message in queue.ready_queue.messages()] == [5]
    assert (queue.messages, queue.bytes) == (1, 10)


def test_message_numbers_continue_above_the_reported_end(desk: Desk) -> None:
    desk.kept.enqueue(Envelope("", "kept"), b"", 10, 0.0)  # It does not last, and its number is told all the same.
    desk.ask("cursor.attach", queues=["kept"], starting="latest")
    again = desk.restart()
    assert again.kept.tail == 6, "or the next message would have a number that counts as settled"


def test_cursor_of_a_deleted_queue_is_refused_until_it_attaches_again(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["passing"])
    again = desk.restart()
    with pytest.raises(NotFound, match="queue 'passing', which cursor 'c' reads, was deleted"):
        again.cursor().position("passing")
    again.vhost.declare_queue("passing", {}, False, False, None, None)
    again.ask("cursor.attach", queues=["passing"])
    assert again.cursor().token == 2
    assert again.cursor().position("passing").settled == 0
    assert again.cursor().position("passing").generation == 1


def test_left_queue_and_generation_are_there_after_a_restart(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept"])
    desk.ask("cursor.settle", end={"kept": 2})
    queue_of(desk.vhost, "other")
    desk.ask("cursor.attach", queues=["other"])
    desk.driver.broker.delete_queue(desk.vhost.queues["other"])
    queue_of(desk.vhost, "other")
    desk.ask("cursor.attach", queues=["other"])
    again = desk.restart()
    cursor = again.cursor()
    found = {name: (int(p.settled), p.left, p.generation) for name, p in cursor.positions.items()}
    assert (cursor.lost, found) == (1, {"kept": (2, True, 0), "other": (0, False, 1)})
    assert again.kept.cursors == [cursor], "a left queue keeps its messages"


def test_id_of_a_cursor_is_there_after_a_restart(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept"], planned=True)
    first = desk.cursor().id
    assert len(first) > 15
    desk.ask("cursor.plan", start={"kept": 0}, rows=3)
    again = desk.restart()
    assert (again.cursor().id, again.cursor().position("kept").planned) == (first, 3)
    again.ask("cursor.attach", queues=["kept"], planned=True)
    assert again.cursor().id == first


def test_id_of_a_cursor_is_unlike_that_of_its_successor(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept"], planned=True)
    first = desk.cursor().id
    desk.ask("cursor.delete")
    desk.ask("cursor.attach", queues=["kept"], planned=True)
    assert desk.cursor().id not in ("", first)


def test_record_of_a_cursor_without_losses_has_its_user_and_the_earlier_fields(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept"])
    record = encode_metadata(MetadataChange(desk.cursor(), False)).data
    assert set(json.loads(record[1:])) == {"vhost", "name", "token", "positions", "user"}


def test_user_of_a_cursor_comes_back_and_is_unknown_from_an_earlier_version(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept"])
    desk.store.write()
    again, _ = desk.store.restored()
    assert again.broker.vhosts["/"].cursors["c"].user == desk.cursor().user == "guest"
    records = desk.store.things()
    for index, record in enumerate(records):
        if record.kind == CURSOR:
            fields = json.loads(record.data[1:])
            del fields["user"]
            records[index] = record._replace(data=record.data[:1] + json.dumps(fields).encode())
    earlier, told = desk.store.restored(records)
    assert (earlier.broker.vhosts["/"].cursors["c"].user, told) == ("", [])


def test_position_is_on_the_queue_that_it_was_on_and_not_on_another_of_its_name(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept"])
    desk.ask("cursor.settle", end={"kept": 4})
    desk.driver.broker.delete_queue(desk.kept)
    desk.kept = queue_of(desk.vhost, "kept")
    desk.store.write()
    again, _ = desk.store.restored()
    assert again.broker.vhosts["/"].queues["kept"].cursors == []
    assert again.broker.vhosts["/"].cursors["c"].positions["kept"].queue.deleted


def test_refused_attach_writes_nothing_and_takes_no_token(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept"])
    desk.driver.broker.delete_queue(desk.kept)
    desk.kept = queue_of(desk.vhost, "kept")
    session = Session()
    desk.driver.broker.consume(session, Consumer("t", session, desk.kept, False, True, 0))
    desk.store.write()
    desk.ask("cursor.attach", queues=["kept"])  # Refused: somebody consumes it alone.
    assert (desk.cursor().token, list(desk.cursor().positions)) == (1, ["kept"])
    assert desk.written() == ([], [])
    again, _ = desk.store.restored()
    assert again.broker.vhosts["/"].cursors["c"].token == 1


def test_cursors_of_virtual_hosts_whose_names_run_into_theirs_are_others(desk: Desk) -> None:
    for host in ("a", "a\nb"):
        vhost = desk.driver.broker.add_vhost(host)
        queue_of(vhost, "q")
        ask(desk.driver, vhost, "cursor.attach", cursor="b\nc" if host == "a" else "c", queues=["q"])
    assert sum(len(vhost.cursors) for vhost in desk.driver.broker.vhosts.values()) == 2
    vhosts = desk.driver.broker.vhosts
    desk.driver.control.ranges.forget(vhosts["a"])
    assert [(vhost.name, *vhost.cursors) for vhost in vhosts.values() if vhost.cursors] == [("a\nb", "c")]


def test_cursor_that_reads_more_than_there_was_is_refused_as_before(desk: Desk) -> None:
    desk.ask("cursor.attach", queues=["kept"])
    again = desk.restart()
    with pytest.raises(PreconditionFailed, match="ends at 5"):
        again.cursor().settle("kept", 6, 0.0)
