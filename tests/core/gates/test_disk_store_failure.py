"""The gate that closes while the store cannot be written."""

from __future__ import annotations

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.effects import Blocked, Unblocked
from tests.support.broker_fixture import told
from tests.support.durable_broker import Kept


def test_failed_store_blocks_waiting_and_new_publishers_until_the_store_works_again() -> None:
    house = Kept()
    waits, comes, idle = house.producer("waits"), house.producer("comes"), house.producer("idle")
    house.store(waits, "a")
    house.store(idle, "a")
    house.write()
    told(idle)
    house.store(waits, "a")
    house.effects()
    house.broker.gates.disk_fails("no room")
    house.store(comes, "a")
    told_of = [(type(each), each.producer.name) for each in house.effects() if isinstance(each, Blocked)]
    assert told_of == [(Blocked, "waits"), (Blocked, "comes")]
    house.broker.gates.disk_fails("no room still")
    house.effects()
    assert told(waits) == [(1, 1, True)]
    assert (house.depth("a"), len(comes.outbox)) == (3, 1)
    house.write()
    house.broker.gates.disk_works()
    released = [each.producer.name for each in house.effects() if isinstance(each, Unblocked)]
    house.broker.run(1000)
    house.write()
    released += [each.producer.name for each in house.effects() if isinstance(each, Unblocked)]
    assert sorted(released) == ["comes", "waits"]
    assert (told(waits), told(comes), house.depth("a")) == ([(2, 2, True)], [(1, 1, True)], 4)


def test_consuming_acknowledging_and_purging_go_on_while_the_store_cannot_be_written() -> None:
    house = Kept()
    producer = house.producer("p")
    for _ in range(10):
        house.store(producer, "a")
    house.write()
    house.broker.gates.disk_fails("no room")
    session = Session()
    queue = house.vhost.queues["a"]
    first = session.get(queue, False, house.broker.now)
    assert not first.waits_for_disk, "nobody waits for a disk that does not work"
    session.unsettled.acknowledge(first.first, False, house.broker.now)
    assert queue.purge(house.broker.now) == 9
    assert house.stored() == 0


@pytest.mark.once
def test_message_requeued_repeatedly_during_a_store_failure_is_recorded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = Kept()
    house.store(house.producer("p"), "a")
    house.write()
    house.broker.gates.disk_fails("no room")
    session, queue = Session(), house.vhost.queues["a"]
    for _ in range(70_000):
        batch = session.get(queue, False, house.broker.now)
        session.unsettled.settle_tag(batch.first, False, Outcome.FAILED, house.broker.now)
    assert len(house.journal.open.returned) < 66_000
