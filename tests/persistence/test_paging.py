"""Queues that page, with kills at any moment: in order, complete, and within bounds."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.core.consume.outcome import Outcome
from penstock.flow.level import Level
from tests.profiles import examples
from tests.support.memory_store import Shelf, some_large
from tests.support.paging_broker import PagedHouse, house_with, numbered, publish, settled

QUEUES: dict[str, tuple[dict[str, object], bool]] = {
    "few": ({"x-overflow": "page", "capacity-messages": 4}, True),
    "small": ({"x-overflow": "page", "capacity-bytes": 3000}, True),
    "held": ({"x-overflow": "page", "capacity-messages": 4, "page-limit-messages": 6}, True),
    "refusing": (
        {"x-overflow": "page", "capacity-bytes": 2000, "page-limit-bytes": 4000, "page-full-policy": "reject"},
        True,
    ),
    "changing": ({"capacity-messages": 5}, True),
    "passing": ({"x-overflow": "page", "capacity-messages": 3}, False),
}
NAMES = tuple(QUEUES)
DURABLE = tuple(name for name in NAMES if QUEUES[name][1])
LARGE = 1300
WHICH = st.integers(0, 1)
"""Which of the queues that this example is about: one or two."""


class Entry(NamedTuple):
    """A message, as the model has it."""

    content: bytes
    charge: int
    persistent: bool


class Out(NamedTuple):
    """A delivery that is not settled."""

    tag: int
    name: str
    entry: Entry


Snapshot = tuple[dict[str, list[Entry]], set[tuple[str, bytes]]]


class PagingLives(RuleBasedStateMachine):
    """Lives of a broker on one disk, and what should be in each queue, in order, those with consumers included."""

    @initialize(names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=2))
    def begin(self, names: list[str]) -> None:
        self.names = names
        self.shelf = Shelf()
        self.policy = "page"
        self.capacity = 5
        self.live: dict[str, list[Entry]] = {name: [] for name in NAMES}
        self.held: dict[str, list[Entry]] = {name: [] for name in NAMES}
        self.out: list[Out] = []
        self.seen: set[tuple[str, bytes]] = set()
        self.must: set[tuple[str, bytes]] = set()
        """What comes back as redelivered, for a consumer had it in a former life."""
        self.count = 0
        self.writing = False
        self.house = self.new_house()
        self.at_close: dict[int, Snapshot] = {0: self.snapshot()}
        self.on_disk = 0
        self.group_of: dict[tuple[str, int], int] = {}

    def new_house(self) -> PagedHouse:
        house = PagedHouse(self.shelf, QUEUES)
        self.ready_at_start = {name: Level(queue.messages, queue.bytes) for name, queue in house.queues.items()}
        house.set("changing", overflow=self.policy, capacity_messages=self.capacity)
        return house

    # What happens

    @rule(
        which=WHICH,
        persistent=st.booleans(),
        large=st.booleans(),
        times=st.integers(1, 12),
        pieces=st.sampled_from([0, 0, 1, 2]),
    )
    def publish(self, which: int, persistent: bool, large: bool, times: int, pieces: int) -> None:
        name = self.names[which % len(self.names)]
        house = self.house
        queue = house.queues[name]
        for _ in range(times):
            self.count += 1
            content = b"%d" % self.count
            if pieces:
                content = some_large(house.broker, content, pieces)
            entry = Entry(bytes(content), LARGE if large else 300, persistent)
            tail, refused = int(queue.tail), int(queue.counters.refused)
            group = int(house.journal.open.number)
            house.publish(name, content, entry.charge, persistent)
            del content
            if queue.tail > tail and not self.held[name]:
                self.live[name].append(entry)
                if persistent and QUEUES[name][1]:
                    self.group_of[name, int(house.producers[name].confirms.published)] = group
            elif queue.counters.refused > refused:
                assert name == "refusing"
                pages = house.pages(name)
                assert pages.bytes + entry.charge > 4000, "it is refused though there is room"
            else:
                assert name in ("held", "changing"), "a queue that pages never holds anybody"
                self.held[name].append(entry)
                self.they_went_in(name)

    @rule(which=WHICH, no_ack=st.booleans(), times=st.integers(1, 6))
    def get(self, which: int, no_ack: bool, times: int) -> None:
        name = self.names[which % len(self.names)]
        for _ in range(times):
            message = self.house.get(name, no_ack)
            if message is None:
                return
            away = {out.entry.content for out in self.out if out.name == name}
            waiting = [entry for entry in self.live[name] if entry.content not in away]
            entry = waiting[0]
            assert message.content == entry.content, "out of order"
            assert int(message.charge) == entry.charge
            assert message.envelope.persistent == entry.persistent
            assert message.redelivered or (name, entry.content) not in self.must
            if no_ack:
                self.live[name].remove(entry)
            else:
                self.out.append(Out(int(self.house.session.unsettled.next_number) - 1, name, entry))
                self.seen.add((name, entry.content))

    @precondition(lambda self: self.out)
    @rule(data=st.data(), multiple=st.booleans())
    def acknowledge(self, data: st.DataObject, multiple: bool) -> None:
        out = data.draw(st.sampled_from(self.out))
        self.house.session.unsettled.acknowledge(out.tag, multiple, self.house.now)
        for each in [each for each in self.out if each is out or (multiple and each.tag < out.tag)]:
            self.out.remove(each)
            self.live[each.name].remove(each.entry)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), multiple=st.booleans())
    def put_back(self, data: st.DataObject, multiple: bool) -> None:
        out = data.draw(st.sampled_from(self.out))
        self.house.session.unsettled.settle_tag(out.tag, multiple, Outcome.FAILED, self.house.now)
        for each in [each for each in self.out if each is out or (multiple and each.tag < out.tag)]:
            self.out.remove(each)
            self.must.add((each.name, each.entry.content))

    @rule(which=WHICH)
    def purge(self, which: int) -> None:
        name = self.names[which % len(self.names)]
        away = {out.entry.content for out in self.out if out.name == name}
        gone = [entry for entry in self.live[name] if entry.content not in away]
        assert self.house.queues[name].purge(self.house.now) == len(gone)
        self.live[name] = [entry for entry in self.live[name] if entry.content in away]

    @rule(policy=st.sampled_from(["page", "block"]), capacity=st.sampled_from([2, 5, 9]))
    def change(self, policy: str, capacity: int) -> None:
        self.policy, self.capacity = policy, capacity
        self.house.set("changing", overflow=policy, capacity_messages=capacity)

    @rule()
    def step(self) -> None:
        """Between two steps of the broker a group may be closed; then those go on who may."""
        journal = self.house.journal
        number, live = int(journal.open.number), self.snapshot()
        self.house.broker.begin(self.house.now + 0.01)
        self.house.now += 0.01
        if journal.open.number != number:
            self.at_close[number] = live
        self.house.broker.run(1000)

    @precondition(lambda self: not self.writing)
    @rule()
    def begin_write(self) -> None:
        """A transaction of the store is on the disk, and nobody has heard of it yet."""
        live = self.snapshot()
        groups = self.house.begin_write()
        for group in groups:
            self.at_close.setdefault(int(group.number), live)
        if groups:
            self.on_disk = int(groups[-1].number)
        self.writing = True

    @precondition(lambda self: self.writing)
    @rule()
    def end_write(self) -> None:
        self.writing = False
        self.house.journal.written()

    @rule()
    def turn(self) -> None:
        """The disk does what there is to do, as it mostly does."""
        if self.writing:
            self.end_write()
        self.begin_write()
        self.end_write()
        self.ask()
        while self.house.reads:
            self.house.load()

    @rule()
    def ask(self) -> None:
        self.house.ask()

    @precondition(lambda self: self.house.reads)
    @rule()
    def load(self) -> None:
        self.house.load()

    @rule()
    def die(self) -> None:
        live, self.seen = self.at_close[self.on_disk]
        self.live = {name: list(entries) for name, entries in live.items()}
        self.must = set(self.seen)
        self.held = {name: [] for name in NAMES}
        self.out.clear()
        self.group_of.clear()
        self.writing = False
        self.house = self.new_house()
        self.on_disk = 0
        self.at_close = {0: self.snapshot()}
        for name in NAMES:
            found = self.house.memory(name)
            assert found == [entry.content for entry in self.live[name]][: len(found)]

    # What should be

    @invariant()
    def the_depth_is_exact(self) -> None:
        self.house.check()
        for name, queue in self.house.queues.items():
            self.they_went_in(name)
            entries = self.live[name]
            assert queue.depth_messages() == len(entries)
            assert queue.depth_bytes() == sum(entry.charge for entry in entries)

    @invariant()
    def memory_is_bounded(self) -> None:
        for name, queue in self.house.queues.items():
            if name == "changing":
                continue  # Its capacity falls while messages are there.
            ready = queue.messages - queue.unacked_messages
            size = queue.bytes - queue.unacked_bytes
            away = len([out for out in self.out if out.name == name])
            capacity = queue.thresholds.capacity
            began = self.ready_at_start[name]
            if ready <= began.messages and size <= began.bytes:
                continue  # What was with consumers when the broker died is ready now.
            # What consumers put back was theirs to hold: it is ready, and more than the capacity only by that.
            assert capacity.covers(ready - self.returned(name), 0)
            assert size <= capacity.bytes + LARGE + self.returned(name) * LARGE
            assert queue.unacked_messages == away

    @invariant()
    def every_confirmed_message_is_on_the_disk(self) -> None:
        for name, producer in self.house.producers.items():
            for outcome in producer.confirms.take():
                for number in range(int(outcome.first), int(outcome.last) + 1):
                    assert self.group_of.get((name, number), 0) <= self.on_disk, "confirmed, and not written"

    def teardown(self) -> None:
        """Everything comes, in order; then nothing is left, in memory or on the disk."""
        if not hasattr(self, "house"):
            return
        if self.writing:
            self.house.journal.written()
        self.house.session.unsettled.settle_tag(0, True, Outcome.FAILED, self.house.now)
        self.house.settle()
        self.the_depth_is_exact()
        for name in NAMES:
            expected = [entry.content for entry in self.live[name] + self.held[name]]
            assert self.house.drain(name) == expected
        self.house.settle()
        assert not self.shelf.rows
        assert not self.shelf.notes
        assert not self.shelf.pieces
        assert not self.shelf.row_bodies
        assert not self.house.journal.rows
        assert not self.house.failed

    def they_went_in(self, name: str) -> None:
        """Of those who were held some have had their turn since anybody looked: the first ones."""
        for _ in range(len(self.held[name]) - len(self.house.producers[name].outbox)):
            self.live[name].append(self.held[name].pop(0))

    def snapshot(self) -> Snapshot:
        live = {
            name: [entry for entry in self.live[name] if entry.persistent] if name in DURABLE else [] for name in NAMES
        }
        return live, set(self.seen)

    def returned(self, name: str) -> int:
        return len(self.house.queues[name].ready_queue.returned)


TestPagingLives = PagingLives.TestCase
TestPagingLives.settings = hypothesis_settings(max_examples=examples(300), stateful_step_count=60, deadline=None)
TestPagingLives = pytest.mark.slow(TestPagingLives)


def test_pages_come_back_by_their_numbers_and_are_not_read_before_they_are_wanted() -> None:
    house = settled(30)
    house = house_with(house.shelf)
    assert house.memory("q") == numbered(1, 4)
    assert house.queues["q"].depth_messages() == 30
    assert house.queues["q"].depth_bytes() == 30 * 300
    publish(house, 31, 33)
    assert house.drain("q") == numbered(1, 33)


def test_page_that_was_partly_consumed_comes_back_in_order_with_the_rest() -> None:
    house = settled(12)
    assert [house.get("q") is not None for _ in range(4)] == [True] * 4
    house.settle()
    assert house.get("q") is not None
    house.settle()
    house = house_with(house.shelf)
    assert house.memory("q") == [b"6"]
    assert house.queues["q"].depth_messages() == 7
    assert house.drain("q") == numbered(6, 12)


def test_page_that_was_with_a_consumer_comes_back_before_younger_messages() -> None:
    house = settled(6)
    for _ in range(4):
        house.get("q")
    house.settle()
    for _ in range(2):
        assert house.get("q", no_ack=False) is not None
    house.settle()
    publish(house, 7, 8)
    house.settle()
    assert [row.queue > 0 for _, row in sorted(house.shelf.rows.items())] == [True, False]
    house = house_with(house.shelf)
    assert house.memory("q") == numbered(5, 8)
    message = house.get("q")
    assert message.redelivered


def test_page_that_a_consumer_had_is_redelivered_when_it_is_read_after_a_restart() -> None:
    house = settled(12)
    for _ in range(6):
        assert house.get("q", no_ack=False) is not None
        house.settle()
    house = house_with(house.shelf)
    redelivered = []
    for _ in range(12):
        house.settle()
        message = house.get("q")
        redelivered.append(message.redelivered)
    assert redelivered == [True] * 6 + [False] * 6


def test_transient_messages_do_not_come_back_and_their_sequences_are_not_used_again() -> None:
    house = house_with()
    for number in range(1, 13):
        house.publish("q", b"%d" % number, 300, persistent=number % 3 == 0)
    house.settle()
    tail = int(house.queues["q"].tail)
    house = house_with(house.shelf)
    assert house.queues["q"].depth_messages() == 4
    assert house.queues["q"].tail == tail
    publish(house, 13, 20)
    assert house.drain("q") == [b"3", b"6", b"9", b"12", *numbered(13, 20)]
    assert not house.shelf.rows


def test_last_sequence_of_a_page_is_known_though_most_of_the_page_is_gone() -> None:
    house = house_with(messages=4)
    house.write()
    publish(house, 5, 11, persistent=False)
    publish(house, 12, 12)
    house.write()
    house = house_with(house.shelf)
    assert house.queues["q"].tail == 12
    publish(house, 13, 14)
    assert house.drain("q") == [*numbered(1, 4), *numbered(12, 14)]


def test_pages_of_a_queue_that_does_not_outlive_the_broker_go_at_its_next_start() -> None:
    house = settled(12, durable=False)
    assert house.shelf.rows
    assert not house.shelf.positions
    house = settled(6, house.shelf, durable=False)
    assert house.drain("q") == numbered(1, 6)
    assert not house.shelf.rows


def test_page_without_persistent_messages_is_read_and_dropped() -> None:
    house = house_with(messages=6)
    publish(house, 7, 8, persistent=False)
    publish(house, 9, 12)
    house.settle()
    house = house_with(house.shelf)
    for _ in range(4):
        house.get("q")
    house.ask()
    while house.reads:
        house.load()
        house.ask()
    house.settle()
    assert house.drain("q") == [*numbered(5, 6), *numbered(9, 12)]
    assert not house.shelf.rows


def test_queue_that_was_to_page_before_and_is_not_any_more_reads_its_pages_back() -> None:
    house = PagedHouse(Shelf(), {"q": ({"capacity-messages": 4}, True)})
    house.set("q", overflow="page")
    publish(house, 1, 10)
    house.settle()
    house = PagedHouse(house.shelf, {"q": ({"capacity-messages": 4}, True)})
    publish(house, 11, 11)
    assert len(house.producers["q"].outbox) == 1
    assert house.drain("q") == numbered(1, 11)


def test_pages_that_are_gone_from_the_disk_are_reported_and_block_no_queue() -> None:
    house = settled(12)
    for number in [row.number for row in house.shelf.rows.values() if row.queue]:
        del house.shelf.rows[number]
    for _ in range(4):
        house.get("q")
    house.ask()
    house.load()
    assert house.failed == ["8 messages of queue 'q' in vhost '/' are lost: nothing is left of them"]
    assert house.queues["q"].depth_messages() == 0
    publish(house, 13, 14)
    assert house.drain("q") == numbered(13, 14)


def test_page_that_cannot_be_read_is_reported_and_those_behind_it_come() -> None:
    house = settled(12)
    damaged = min((row for row in house.shelf.rows.values() if row.queue), key=lambda row: row.first)
    house.shelf.rows[damaged.number] = damaged._replace(data=damaged.data[:-5])
    found = house.drain("q")
    assert found == numbered(1, 4) + numbered(7, 12)
    assert "page of queue 'q' in vhost '/': row" in house.failed[0]
    assert house.queues["q"].depth_messages() == 0
