"""Marks of lanes in the store: each covers exactly the restored messages."""

from __future__ import annotations

import random

import pytest

from penstock.core.journal.group import JournalGroup
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_lanes import LaneRecord, LaneRequest
from penstock.core.vhost import VirtualHost
from penstock.driver.driver import BrokerDriver
from penstock.persistence.metadata_records import LANE, key_of
from penstock.store.records import MetadataRecord
from tests.support import at_once
from tests.support.memory_store import WALL
from tests.support.restored_broker import Declared, journaled, queue_of
from tests.support.topology import resolve

BUDGET = 1 << 20
CHARGE = 40_000
"""Bytes of a message: about 26 close a group."""


class LaneStore:
    """A lane of a broker with a store."""

    def __init__(self) -> None:
        self.driver: BrokerDriver = journaled()
        self.vhost: VirtualHost = self.driver.broker.vhosts["/"]
        queue_of(self.vhost, "kept")
        self.store = Declared(self.driver)
        self.begin(1)

    def begin(self, epoch: int) -> int:
        self.producer = Producer(self.driver.broker, "p", HoldBudget(BUDGET))
        self.producer.confirming = True
        request = LaneRequest("producer", "lane", epoch, 100, False)
        return int(self.driver.broker.producer_lanes.begin(self.producer, "/", "guest", request).taken)

    def publish(self, messages: int) -> None:
        """Publish persistent messages in one turn of the broker, by the hot path."""
        broker = self.driver.broker
        broker.begin(broker.now + 0.001)
        route = resolve(self.vhost, "", "kept")
        for _ in range(messages):
            self.producer.publish(route.persistent(), b"x", CHARGE)

    def take(self) -> list[JournalGroup]:
        journal = self.driver.broker.journal
        return list(journal.take())

    def write(self, groups: list[JournalGroup]) -> None:
        """Write groups, in the state that the broker has now."""
        journal = self.driver.broker.journal
        assert journal is not None
        self.store.shelf.commit(at_once.encode(journal, groups, WALL))
        journal.written()

    def stored(self) -> int:
        return sum(row.messages for row in self.store.shelf.rows.values())

    def mark(self) -> LaneRecord:
        restored, told = self.store.restored()
        assert told == []
        lane = restored.broker.producer_lanes.of("/", "guest", "producer", "lane")
        return lane.record()


@pytest.mark.parametrize("seed", range(20))
def test_mark_that_came_back_is_the_number_of_messages_that_came_back(seed: int) -> None:
    chance = random.Random(seed)
    lane = LaneStore()
    lane.write(lane.take())
    for _ in range(20):
        lane.publish(chance.randrange(60))
        groups = lane.take()
        lane.publish(chance.randrange(60))  # These come while the groups before are encoded.
        lane.write(groups)
        assert int(lane.mark().taken) == lane.stored()


def test_lane_goes_on_after_a_restart_with_its_epoch_and_its_owner() -> None:
    lane = LaneStore()
    lane.publish(5)
    lane.write(lane.take())
    lane.driver, told = lane.store.restored()
    assert told == []
    assert lane.begin(2) == 5
    record = lane.mark()
    assert (record.user, record.named, int(record.epoch), record.refused) == ("guest", False, 1, [])


def test_refused_numbers_come_back_with_the_mark_that_passes_them() -> None:
    lane = LaneStore()
    lane.publish(1)
    lane.producer.confirms.number_decided(True)
    lane.write(lane.take())
    assert (int(lane.mark().taken), lane.mark().refused) == (2, [2])


def test_dropped_lane_is_gone_from_the_store() -> None:
    lane = LaneStore()
    lane.write(lane.take())
    assert [kind for kind, _ in lane.store.names() if kind == LANE] == [LANE]
    lane.driver.broker.producer_lanes.drop_vhost("/")
    lane.write(lane.take())
    assert [kind for kind, _ in lane.store.names() if kind == LANE] == []


def without_user(record: MetadataRecord) -> MetadataRecord:
    """Return the record of a lane as earlier versions wrote it."""
    return record._replace(key=key_of("/", "producer", "lane")) if record.kind == LANE else record


def test_mark_of_an_earlier_version_is_found_by_its_user_and_written_with_the_user() -> None:
    lane = LaneStore()
    lane.publish(5)
    lane.write(lane.take())
    old = [without_user(record) for record in lane.store.things()]
    lane.driver = journaled()
    assert at_once.restore(lane.driver.broker, old) == []
    lane.store.driver = lane.driver
    lane.store.shelf.things = {(record.kind, record.key): record.data for record in old}
    lane.write(lane.take())
    assert [key for kind, key in lane.store.names() if kind == LANE] == [key_of("/", "producer", "lane", "guest")]
    assert int(lane.mark().taken) == 5
    assert lane.begin(2) == 5


def test_mark_that_an_earlier_version_wrote_beside_a_later_one_does_not_replace_it() -> None:
    lane = LaneStore()
    lane.publish(5)
    lane.write(lane.take())
    stale = [without_user(record) for record in lane.store.things() if record.kind == LANE]
    lane.publish(3)
    lane.write(lane.take())
    for records in (lane.store.things() + stale, stale + lane.store.things()):
        driver = journaled()
        assert at_once.restore(driver.broker, records) == []
        found = driver.broker.producer_lanes.of("/", "guest", "producer", "lane")
        assert int(found.taken) == 8
        journal = driver.broker.journal
        written = [each.subject for group in journal.take() for each in group.changes]
        assert [int(each.taken) for each in written if isinstance(each, LaneRecord)] == [8]
        assert [each.key for each in written if isinstance(each, MetadataRecord)] == [stale[0].key]
