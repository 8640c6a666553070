"""Dead letters that are delivered before the disk knows of them: a kill brings back the message that died."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.core.consume.scan import MessageFilter
from penstock.core.publish.transfer import Transfer
from penstock.core.publish.transfer_source import TransferSource
from penstock.core.publish.transfer_targets import ToQueue
from penstock.core.queue.expiry import expire
from penstock.flow.progress import WorkProgress
from tests.support.dead_letters import Marks
from tests.support.memory_store import Shelf
from tests.support.paging_broker import PagedHouse

Queues = dict[str, tuple[dict[str, object], bool]]


def to(queue: str, **arguments: object) -> dict[str, object]:
    said = {key.replace("_", "-"): value for key, value in arguments.items()}
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, **said}


def house_of(shelf: Shelf, queues: Queues) -> PagedHouse:
    house = PagedHouse(shelf, queues)
    house.broker.formats.add(Marks())
    return house


def settle_first(house: PagedHouse, outcome: Outcome, queue: str = "work") -> None:
    batch = house.session.get(house.queues[queue], False, house.now)
    house.session.unsettled.settle_tag(batch.first, False, outcome, house.now)


def reject(house: PagedHouse) -> None:
    settle_first(house, Outcome.REJECTED)


def expire_all(house: PagedHouse) -> None:
    expire(house.queues["work"], house.now + 60.0, house.now)


def fail(house: PagedHouse) -> None:
    settle_first(house, Outcome.FAILED)


def overflow(house: PagedHouse) -> None:
    house.publish("work", b"2")


WAYS = [
    pytest.param(to("dead"), reject, id="rejected"),
    pytest.param(to("dead", x_message_ttl=1000), expire_all, id="expired"),
    pytest.param(to("dead", x_delivery_limit=0), fail, id="delivery-limit"),
    pytest.param(to("dead", x_max_length=1), overflow, id="length"),
    pytest.param(to("dead", capacity_messages=1, overflow="drop-head"), overflow, id="capacity"),
]


def deliver(house: PagedHouse, queue: str) -> tuple[bytes, bool]:
    """Deliver the first message; return the original content, and whether the delivery waits for the disk."""
    batch = house.session.get(house.queues[queue], False, house.now)
    assert batch.messages[0] is not None
    return batch.messages[0].content.split(b"|")[0], batch.waits_for_disk


def put_mark_ahead(house: PagedHouse, *queues: str) -> None:
    """Put redelivery marks ahead of the deliveries, which say nothing of messages that come back elsewhere."""
    for name in queues:
        storage = house.queues[name].storage
        assert storage is not None
        storage.redelivery_mark = 100


@pytest.mark.parametrize(("arguments", "die"), WAYS)
@pytest.mark.parametrize("stored", [True, False])
def test_delivery_of_a_dead_letter_waits_while_a_kill_would_bring_the_message_back(
    arguments: dict[str, object], die: Callable[[PagedHouse], None], stored: bool
) -> None:
    shelf = Shelf()
    queues: Queues = {"dead": ({}, True), "work": (arguments, True)}
    house = house_of(shelf, queues)
    house.publish("work", b"1")
    if stored:
        house.settle()
    die(house)
    house.step()
    put_mark_ahead(house, "dead")
    assert deliver(house, "dead") == (b"1", stored)
    assert house.journal.open.urgent or not stored
    killed = house_of(copy.deepcopy(shelf), queues)
    assert (killed.drain("dead"), killed.drain("work")) == ([], [b"1"] if stored else [])


@pytest.mark.parametrize(("arguments", "die"), WAYS)
def test_written_dead_letter_comes_back_as_redelivered(
    arguments: dict[str, object], die: Callable[[PagedHouse], None]
) -> None:
    shelf = Shelf()
    queues: Queues = {"dead": ({}, True), "work": (arguments, True)}
    house = house_of(shelf, queues)
    house.publish("work", b"1")
    house.settle()
    die(house)
    house.step()
    assert deliver(house, "dead")[0] == b"1"
    house.write()
    killed = house_of(copy.deepcopy(shelf), queues)
    message = killed.get("dead")
    assert message is not None
    assert message.redelivered
    assert house.journal.last_move == 0


def test_other_message_of_the_same_group_does_not_wait() -> None:
    house = house_of(Shelf(), {"dead": ({}, True), "work": (to("dead"), True)})
    house.publish("work", b"1")
    house.settle()
    house.publish("dead", b"before")
    reject(house)
    house.step()
    house.publish("dead", b"after")
    put_mark_ahead(house, "dead")
    assert [deliver(house, "dead") for _ in range(3)] == [(b"before", False), (b"1", True), (b"after", False)]


@pytest.mark.parametrize("gap", [True, False])
def test_sealed_group_names_the_messages_that_moved(gap: bool) -> None:
    """Messages that left their queue before the group is sealed make room for the indexes of those behind."""
    house = house_of(Shelf(), {"dead": ({}, True), "work": (to("dead"), True)})
    house.publish("work", b"1")
    house.settle()
    house.publish("dead", b"gone")
    if gap:
        assert house.get("dead") is not None
    reject(house)
    house.step()
    house.publish("dead", b"after")
    house.begin_write()
    if not gap:
        assert house.get("dead") is not None
    put_mark_ahead(house, "dead")
    assert deliver(house, "dead") == (b"1", True)
    assert deliver(house, "dead") == (b"after", False)
    house.journal.written()
    assert house.journal.last_move == 0


def test_dead_letter_that_dies_again_in_the_same_group_waits() -> None:
    house = house_of(Shelf(), {"dead": (to("grave"), True), "grave": ({}, True), "work": (to("dead"), True)})
    house.publish("work", b"1")
    house.settle()
    reject(house)
    house.step()
    settle_first(house, Outcome.REJECTED, "dead")
    house.step()
    put_mark_ahead(house, "grave")
    assert deliver(house, "grave") == (b"1", True)


def test_dead_letter_that_a_full_queue_refuses_onwards_waits() -> None:
    full = to("grave", capacity_messages=1, overflow="reject-publish-dlx")
    house = house_of(Shelf(), {"dead": (full, True), "grave": ({}, True), "work": (to("dead"), True)})
    house.publish("work", b"1")
    house.publish("dead", b"old")
    house.settle()
    reject(house)
    for _ in range(3):
        house.step()
    put_mark_ahead(house, "grave")
    assert deliver(house, "grave") == (b"1", True)


def test_message_that_waits_for_another_try_waits_in_the_next_queue_too() -> None:
    work = to("dead", retry_delay=1, x_delivery_limit=1)
    house = house_of(Shelf(), {"dead": ({}, True), "work": (work, True)})
    house.publish("work", b"1")
    house.settle()
    fail(house)
    house.step(1.0)
    fail(house)
    house.step()
    put_mark_ahead(house, "dead")
    assert deliver(house, "dead") == (b"1", True)


def test_dead_letter_moved_back_in_the_same_group_waits() -> None:
    house = house_of(Shelf(), {"dead": ({}, True), "work": (to("dead"), True), "other": ({}, True)})
    house.publish("work", b"1")
    house.settle()
    reject(house)
    house.step()
    source = TransferSource(house.broker, house.queues["dead"], True, WorkProgress())
    filter = MessageFilter(house.broker.formats)
    for _ in Transfer(house.broker, "a move", source, ToQueue(house.queues["other"]), filter).steps():
        pass
    put_mark_ahead(house, "other")
    assert deliver(house, "other") == (b"1", True)
