"""Sink marks in the store: written together with the rows that they cover."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.properties import Properties
from penstock.core.journal.group import JournalGroup
from penstock.core.message import Envelope
from penstock.driver.driver import BrokerDriver
from penstock.persistence.metadata_records import MARK
from penstock.protocols.amqp091.content_frames import make_content
from penstock.ranges.marks import BatchProgress, SinkMark, SinkMarks
from tests.profiles import examples
from tests.support import at_once
from tests.support.memory_store import WALL
from tests.support.restored_broker import Declared, journaled, queue_of

PARTITIONS, ROWS, BATCHES = 3, 12, 3
TARGET = "queue 'kept'"


class Sink:
    """A query with three partitions a batch, that writes to a durable queue of a broker that dies."""

    def __init__(self) -> None:
        self.driver: BrokerDriver = journaled()
        self.queue = queue_of(self.driver.broker.vhosts["/"], "kept")
        self.store = Declared(self.driver)
        self.store.write()
        self.batch = 0
        self.writes = 0
        self.sealed: list[JournalGroup] = []
        self.begin()

    def begin(self) -> None:
        """Run the batch (again), with tasks that have not asked for their marks yet."""
        self.writes += 1
        self.sent: dict[int, int] = {}

    def marks(self) -> SinkMarks:
        return self.driver.control.ranges.batches.marks

    def progress(self) -> BatchProgress:
        write = f"w{self.writes}"
        return self.marks().begin_batch("/", "q", TARGET, self.batch, write, write, "u")

    def mark(self, partition: int) -> SinkMark:
        return self.marks().begin_partition(self.progress(), partition, self.writes)

    def send(self, partition: int, rows: int, taken: int) -> None:
        """Send a block of a partition, of which the first rows are taken and the others refused."""
        marks, mark = self.marks(), self.mark(partition)
        first = self.sent.setdefault(partition, int(mark.rows))
        rows = min(rows, ROWS - first)
        skipped = min(max(int(mark.rows) - first, 0), rows)
        end = max(skipped, min(taken, rows))
        for row in range(first + skipped, first + end):
            content = make_content(Properties(), f"{self.batch}/{partition}/{row}".encode())
            self.queue.enqueue(Envelope("", "kept", persistent=True), content, 1000, 0.0)
        if end > skipped:
            marks.advance(mark, first + end, True)
        if end == rows:
            marks.verify(mark, first + end, f"digest of {first + end}")
        self.sent[partition] = first + end

    def finished(self) -> bool:
        return all(self.sent.get(partition) == ROWS for partition in range(PARTITIONS))

    def next_batch(self) -> None:
        self.marks().finish(self.progress(), dict.fromkeys(range(PARTITIONS), ROWS))
        self.batch += 1
        self.begin()

    def seal(self) -> None:
        """Have the journal give its groups away; they are encoded later, and perhaps never."""
        self.sealed = list(self.driver.broker.journal.take())

    def write(self) -> None:
        """Write what was sealed, or all that there is."""
        journal = self.driver.broker.journal
        assert journal is not None
        if self.sealed:
            self.store.shelf.commit(at_once.encode(journal, self.sealed, WALL))
            journal.written()
            self.sealed = []
        else:
            self.store.write()

    def die(self) -> None:
        """Lose what is not written, start again, and run the batch again."""
        self.driver, told = self.store.restored()
        assert told == []
        self.store.driver = self.driver
        self.queue = self.driver.broker.vhosts["/"].queues["kept"]
        assert self.driver.broker.journal is not None
        self.store.shelf.recover(self.driver.broker, self.driver.broker.journal)
        self.sealed = []
        self.begin()

    def rows(self) -> list[str]:
        """Return what is in the queue, in order."""
        formats = self.driver.broker.formats
        return [bytes(formats.of(each.content).body(each.content)).decode() for each in self.queue.ready_queue.ready]

    def user_after_a_death(self) -> str:
        """Restart the broker; return the user of the query."""
        self.die()
        found = self.marks().of("/", "q", TARGET)
        return found.user


steps = st.one_of(
    st.tuples(st.integers(0, PARTITIONS - 1), st.integers(1, 6), st.integers(0, 6)),
    st.sampled_from(["write", "seal", "die", "retry"]),
)


@settings(max_examples=examples(400))
@given(st.lists(steps, max_size=60))
def test_rows_of_a_sink_are_in_the_queue_once_and_in_order_through_crashes(
    history: list[tuple[int, int, int] | str],
) -> None:
    sink = Sink()
    for step in history:
        if isinstance(step, tuple):
            sink.send(*step)
            if sink.finished() and sink.batch < BATCHES - 1:
                sink.write()
                sink.store.write()  # The last confirm of a batch comes when it is on the disk.
                sink.next_batch()
        elif step == "write":
            sink.write()
        elif step == "seal" and not sink.sealed:
            sink.seal()
        elif step == "retry":
            sink.begin()
        elif step == "die":
            sink.die()
    sink.write()
    while sink.batch < BATCHES:
        for partition in range(PARTITIONS):
            sink.send(partition, ROWS, ROWS)
        sink.store.write()
        sink.next_batch()
    found = sink.rows()
    assert len(found) == len(set(found)) == BATCHES * PARTITIONS * ROWS
    for batch in range(BATCHES):
        for partition in range(PARTITIONS):
            here = [row for row in found if row.startswith(f"{batch}/{partition}/")]
            assert here == [f"{batch}/{partition}/{row}" for row in range(ROWS)]


@pytest.fixture
def sink() -> Sink:
    return Sink()


def test_marks_of_the_batch_before_leave_the_store_when_the_next_one_ends(sink: Sink) -> None:
    for _ in range(3):
        for partition in range(PARTITIONS):
            sink.send(partition, ROWS, ROWS)
        sink.store.write()
        assert len([kind for kind, _ in sink.store.names() if kind == MARK]) <= PARTITIONS + 1
        sink.next_batch()
    sink.progress()
    sink.mark(0)
    sink.marks().finish(sink.progress(), {0: 0})
    sink.store.write()
    assert len([kind for kind, _ in sink.store.names() if kind == MARK]) == 2


def test_mark_and_digest_and_promotion_come_back_and_count_once(sink: Sink) -> None:
    sink.send(1, 5, 5)
    progress = sink.progress()
    sink.marks().promote(progress, 7)
    sink.store.write()
    count = sink.marks()._idle.pool.taken
    sink.die()
    marks = sink.marks()
    assert marks._idle.pool.taken == count
    found = marks.of("/", "q", TARGET)
    assert (int(found.batch), found.run, found.write, int(found.partitions), found.promoted) == (0, "w1", "w1", 7, True)
    mark = found.marks[1]
    assert (int(mark.rows), int(mark.checked), mark.digest) == (5, 5, "digest of 5")


def test_records_of_an_older_batch_lose_in_any_order(sink: Sink) -> None:
    for partition in range(PARTITIONS):
        sink.send(partition, ROWS, ROWS)
    sink.next_batch()
    sink.send(0, 2, 2)
    sink.store.write()
    for order in (sink.store.things(), list(reversed(sink.store.things()))):
        driver, _ = sink.store.restored(order)
        found = driver.control.ranges.batches.marks.of("/", "q", TARGET)
        assert int(found.batch) == 1
        assert {partition: int(mark.rows) for partition, mark in found.marks.items()} == {0: 2}
        assert sorted(found.stale) == [1, 2]


def test_mark_is_at_most_a_kibibyte_in_the_store(sink: Sink) -> None:
    query, target = "q" * 128, "exchange '" + "x" * 200 + "'"
    progress = sink.marks().begin_batch("/", query, target, 1 << 61, "r" * 64, "w" * 64, "u" * 255, "s" * 160)
    mark = sink.marks().begin_partition(progress, (1 << 31) - 1, 0)
    sink.marks().advance(mark, 1 << 61, True)
    sink.marks().verify(mark, 1 << 61, "d" * 64)
    sink.store.write()
    sizes = [len(data) for (kind, _), data in sink.store.shelf.things.items() if kind == MARK]
    assert sizes
    assert max(sizes) <= 1024


def test_spread_of_a_batch_is_stored_before_its_first_row_and_with_that_batch_only(sink: Sink) -> None:
    spread = "servers a:5672, b:5672 by partition"

    def begin(batch: int, spread: str, write: str) -> None:
        sink.marks().begin_batch("/", "q", TARGET, batch, "", write, "u", spread)

    def restored(backwards: bool) -> str:
        things = sink.store.things()
        driver, _ = sink.store.restored(list(reversed(things)) if backwards else things)
        found = driver.control.ranges.batches.marks.of("/", "q", TARGET)
        return str(found.spread)

    begin(0, spread, "w0")
    sink.store.write()
    assert [restored(backwards) for backwards in (False, True)] == [spread, spread]
    begin(1, "", "w1")
    progress = sink.marks().begin_batch("/", "q", TARGET, 1, "", "w1", "u")
    sink.marks().advance(sink.marks().begin_partition(progress, 0, 0), 2, True)
    sink.store.write()
    assert [restored(backwards) for backwards in (False, True)] == ["", ""]


def test_deleting_a_virtual_host_drops_its_marks(sink: Sink) -> None:
    sink.send(0, 3, 3)
    sink.store.write()
    sink.marks().drop_vhost("/")
    sink.store.write()
    assert [kind for kind, _ in sink.store.names() if kind == MARK] == []
    assert sink.marks()._idle.pool.taken == 0


def test_mark_of_rows_that_are_not_stored_is_not_stored_either(sink: Sink) -> None:
    mark = sink.mark(0)
    sink.marks().advance(mark, 5, False)
    sink.marks().verify(mark, 5, "digest")
    sink.store.write()
    assert [kind for kind, _ in sink.store.names() if kind == MARK] == []
    assert (int(mark.rows), mark.digest) == (5, "digest")
    sink.marks().advance(mark, 6, True)
    sink.die()
    sink.batch = 0
    assert int(sink.mark(0).rows) == 0, "the last one was not written"


def test_user_of_a_query_is_stored_before_and_after_a_handover(sink: Sink) -> None:
    for partition in range(PARTITIONS):
        sink.send(partition, ROWS, ROWS)
    sink.store.write()
    assert sink.user_after_a_death() == "u"
    sink.next_batch()
    sink.progress()
    assert sink.marks().assign("/", "q", "v") == ["u"]
    sink.store.write()
    for order in (sink.store.things(), list(reversed(sink.store.things()))):
        driver, _ = sink.store.restored(order)
        found = driver.control.ranges.batches.marks.of("/", "q", TARGET)
        assert (int(found.batch), found.user, found.marks) == (1, "v", {})


def test_records_of_a_version_without_users_belong_to_the_next_user(sink: Sink) -> None:
    sink.send(0, 5, 5)
    sink.progress().user = ""
    sink.send(1, 5, 5)
    for mark in sink.progress().marks.values():
        mark.record.user = ""
    sink.store.write()
    assert b"user" not in b"".join(data for (kind, _), data in sink.store.shelf.things.items() if kind == MARK)
    assert sink.user_after_a_death() == ""
    assert int(sink.mark(0).rows) == 5
    assert sink.progress().user == "u"


def test_beginning_and_the_sequence_of_the_last_row_are_there_after_a_restart() -> None:
    sink = Sink()
    sink.marks().store_beginning(sink.progress())
    sink.store.write()
    sink.die()
    assert sink.marks().of("/", "q", TARGET) is not None, "before its first row"
    mark = sink.mark(0)
    mark.reached = 17
    sink.send(0, 2, 2)
    sink.store.write()
    sink.die()
    assert (sink.mark(0).rows, sink.mark(0).reached, sink.mark(1).reached) == (2, 17, 0)
