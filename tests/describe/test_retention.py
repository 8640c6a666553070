"""The object, the metrics and the sentences of a queue that retains what it settled."""

from __future__ import annotations

from penstock.describe.queue import QUEUE
from penstock.describe.retention import retention_number, retention_row, retention_sentences
from penstock.describe.table import Reading
from penstock.management.why import of_queue
from tests.support.retaining_queue import Keeper


def test_row_names_the_companion_and_what_it_has() -> None:
    house = Keeper()
    house.put(1, 5)
    house.drain_now(3)
    house.settle()
    row = {
        "queue": "q.retained",
        "messages": 3,
        "retained_bytes": int(house.log.retained_bytes()),
        "first": 0,
        "next": 3,
        "retained": 3,
        "left_out": 0,
        "behind": False,
        "not_retaining": None,
    }
    assert retention_row(house.queue, Reading(house.now)) == row
    own = QUEUE.row(house.queue, Reading(house.now), QUEUE.select(["penstock.retention"]))["penstock"]
    assert own == {"retention": row}
    assert [retention_number(house.queue, name) for name in ("retained", "left_out")] == [3, 0]
    assert of_queue(house.queue, house.broker)["sentences"] == [
        "queue q: the gate is open; 2 messages, 600 bytes; it blocks no producer",
        "queue q retains settled messages in queue q.retained: 3 messages are retained, from offset 0 to 2",
        "queue q has no consumer",
    ]
    assert retention_sentences(house.companion) == ["queue q.retained has what queue q settled: retain-time=604800s"]


def test_queue_without_retention_has_no_row_no_sentence_and_no_sample() -> None:
    house = Keeper()
    plain = house.queues["plain"]
    assert retention_row(plain, Reading(house.now)) is None
    assert retention_number(plain, "retained") is None
    assert retention_sentences(plain) == []


def test_gap_and_pause_are_named_while_they_last() -> None:
    house = Keeper()
    house.put(1, 9, 1 << 21)
    house.write()
    house.drain_now(3)
    assert retention_sentences(house.queue)[1:] == [
        "queue q delivers nothing until queue q.retained is written: the store is slower than the consumers"
    ]
    house.broker.gates.disk.fails("no space left", house.now)
    house.drain_now(2)
    assert retention_sentences(house.queue)[1:] == [
        "what queue q settles is not retained now (2 messages so far): disk store: no space left"
    ]
    house.broker.gates.disk.works(house.now)
    house.write()
    house.drain_now(1)
    assert retention_sentences(house.queue)[1:] == ["2 settled messages of queue q were not retained (PST-1031)"]


def test_setting_without_effect_is_named() -> None:
    house = Keeper(arguments={})
    house.set("#", retain_time="1D")
    queue = house.vhost.declare_queue("t", {}, False, False, None, None)
    assert retention_sentences(queue) == ["retain-time=86400s has no effect on queue t, which is non-durable"]
