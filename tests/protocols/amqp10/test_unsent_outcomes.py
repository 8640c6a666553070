"""Outcomes that the sender of an incoming link does not know: bounded, settled, and taken over when it resumes."""

from __future__ import annotations

import tracemalloc

import pytest

from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.flow.pool import Pools
from penstock.protocols.amqp10.delivery_tags import (
    OF_CONNECTION_MAX,
    SHARE_OF_MEMORY,
    STEP,
    STEP_BYTES,
    TAGS_MAX,
    StoredTags,
    TagCount,
)
from penstock.protocols.amqp10.session import LINKS_A_UNIT
from penstock.protocols.amqp10.unsent_outcomes import UnsentOutcomes
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.transfer import ACCEPTED_STATE
from tests.support.amqp10_dialogue import Amqp10Dialogue, accepted, condition, data_section, names, performative, sender
from tests.support.broker_fixture import House


@pytest.fixture
def total() -> TagCount:
    return TagCount(StoredTags(House().broker.gates, Pools()))


@pytest.fixture
def client() -> Amqp10Dialogue:
    return Amqp10Dialogue().declare("q")


BODY = data_section(b"x")
LASTING = composite(spec.TARGET, address="/queues/q", expiry_policy="never")


def sender_of_unsent_outcomes(**arguments: object) -> Amqp10Dialogue:
    return sender(address=None, attach={"target": LASTING}, **arguments)


def test_withheld_outcome_is_known_after_the_link_is_resumed() -> None:
    client = sender_of_unsent_outcomes(capacity_messages=10, stop_messages=1, resume_messages=0)
    client.driver.begin(100.0)
    heard = client.say(client.transfer(BODY), client.transfer(BODY), client.transfer(BODY))
    assert [each.field("first") for each in heard if each.name == "disposition"] == [0]
    client.driver.disconnect(client.connection)
    again = Amqp10Dialogue(client.driver)
    unsettled = {n.to_bytes(4, "big"): None for n in (1, 2, 7)}
    attached = again.attach_sender(None, target=LASTING, unsettled=unsettled)[0]
    known = attached.performative.mapping("unsettled")
    assert set(known) == {(1).to_bytes(4, "big"), (2).to_bytes(4, "big")}
    tag = {"delivery_tag": (2).to_bytes(4, "big")}
    (told,) = again.say(again.transfer(BODY, resume=True, **tag))
    assert (told.name, told.field("settled"), told.performative.inner("state")) == ("disposition", True, accepted())
    assert again.say(again.transfer(BODY, resume=True, **tag)) == [], "one that is not known is ignored"
    assert client.depth("q") == 3


def test_held_message_leaves_no_trace() -> None:
    client = sender_of_unsent_outcomes(capacity_messages=1)
    client.say(client.transfer(BODY), client.transfer(BODY))
    client.detach(0, closed=False)
    unsettled = {n.to_bytes(4, "big"): None for n in (0, 1)}
    attached = client.attach_sender(None, target=LASTING, unsettled=unsettled)[0]
    assert (1).to_bytes(4, "big") not in attached.performative.mapping("unsettled")
    assert client.depth("q") == 1


def test_outcome_that_the_sender_has_not_settled_is_remembered(client: Amqp10Dialogue) -> None:
    client.attach_sender(None, target=LASTING, rcv_settle_mode=1)
    client.say(client.transfer(BODY), client.transfer(BODY))
    client.say(performative(spec.DISPOSITION, role=False, first=0, settled=True, state=accepted()))
    client.detach(0, closed=False)
    unsettled = {n.to_bytes(4, "big"): None for n in (0, 1)}
    attached = client.attach_sender(None, target=LASTING, rcv_settle_mode=1, unsettled=unsettled)[0]
    assert list(attached.performative.mapping("unsettled")) == [(1).to_bytes(4, "big")]
    settled = client.transfer(b"", resume=True, settled=True, delivery_tag=(1).to_bytes(4, "big"))
    assert client.say(settled) == []


def test_resumed_delivery_of_several_frames_is_read_over() -> None:
    client = sender_of_unsent_outcomes()
    first = client.transfer(BODY, resume=True, more=True)
    assert client.say(first, performative(spec.TRANSFER, 0, BODY, handle=0)) == []
    assert names(client.say(client.transfer(BODY))) == ["disposition"]
    assert client.depth("q") == 1


def test_sender_without_a_map_starts_without_unsettled_deliveries() -> None:
    client = sender_of_unsent_outcomes()
    client.say(client.transfer(BODY))
    client.detach(0, closed=False)
    attached = client.attach_sender(None, target=LASTING)[0]
    assert attached.field("unsettled") is None


def take(unsent: UnsentOutcomes, number: int, tag: bytes) -> None:
    assert unsent.take(tag, 0, len(tag), number, 0)


def test_outcomes_that_are_stored_are_bounded_and_the_oldest_are_dropped() -> None:
    client = sender(capacity_messages=TAGS_MAX * 2, stop_messages=0, resume_messages=0)
    for _ in range(TAGS_MAX // 16 + 1):
        client.say(*(client.transfer(BODY) for _ in range(16)))
    client.detach(0, closed=False)
    assert client.session().endpoint.shared.suspended.outcomes.taken == TAGS_MAX
    unsettled = {n.to_bytes(4, "big"): None for n in (15, 16)}
    known = client.attach_sender("/queues/q", unsettled=unsettled)[0].performative.mapping("unsettled")
    assert list(known) == [(16).to_bytes(4, "big")]


def test_outcomes_of_all_links_of_a_connection_are_bounded_and_given_back(total: TagCount) -> None:
    links = [UnsentOutcomes(total) for _ in range(OF_CONNECTION_MAX // TAGS_MAX + 2)]
    for link in links:
        for number in range(1, TAGS_MAX + 1):
            take(link, number, b"%d" % number)
        link.await_settlement(1, TAGS_MAX // 2, 0, ACCEPTED_STATE)
        link.tags.forget(TAGS_MAX // 2)
    assert total.count == OF_CONNECTION_MAX
    links[0].on_settled(0, 9)
    assert total.count == OF_CONNECTION_MAX - 10
    for link in links:
        link.end()
    assert total.count == 0


def awaited(total: TagCount, count: int) -> UnsentOutcomes:
    """Return a link whose sender_of_unsent_outcomes has not settled so many deliveries, each with the longest tag."""
    link = UnsentOutcomes(total)
    for number in range(1, count + 1):
        take(link, number, b"%032d" % number)
        link.await_settlement(number, number, number, ACCEPTED_STATE)
        link.tags.forget(number)
    return link


def test_stored_tags_have_a_sixteenth_of_the_memory_and_each_connection_a_step() -> None:
    gates, steps = House().broker.gates, 10
    level = Level(UNLIMITED, SHARE_OF_MEMORY * STEP_BYTES * (steps + 1))  # A sixteenth of it is for operators.
    gates.set_memory_capacity(Thresholds(level, level, level), 0)
    of_all = StoredTags(gates, Pools())
    totals = [TagCount(of_all) for _ in range(4)]
    links = [awaited(total, TAGS_MAX) for total in totals]
    # The tag of a delivery is stored besides while its outcome is written.
    assert [int(total.count) for total in totals] == [TAGS_MAX, 3 * STEP - 1, STEP - 1, STEP - 1]
    assert gates.other_memory.bytes == steps * STEP_BYTES
    links[0].on_settled(1, TAGS_MAX // 2)
    assert gates.other_memory.bytes == (steps - 4) * STEP_BYTES
    links[3].end()
    links[3] = awaited(totals[3], TAGS_MAX)
    assert totals[3].count == 5 * STEP - 1
    for link in links:
        link.end()
    assert gates.other_memory.bytes == 0


def test_awaited_outcomes_take_at_most_the_counted_memory(total: TagCount) -> None:
    tracemalloc.start()
    try:
        link = awaited(total, TAGS_MAX)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert STEP_BYTES // 2 * (TAGS_MAX // STEP) < taken <= STEP_BYTES * (TAGS_MAX // STEP)
    link.end()


def test_lost_connection_takes_the_awaited_outcomes_out_of_the_nodes_memory(client: Amqp10Dialogue) -> None:
    gates = client.driver.broker.gates
    before = int(gates.other_memory.bytes)
    client.attach_sender("q", rcv_settle_mode=1)
    for _ in range(0, STEP + 16, 16):
        client.say(*(client.transfer(BODY) for _ in range(16)))
    assert gates.other_memory.bytes == before + STEP_BYTES
    client.driver.disconnect(client.connection)
    while client.driver.run_turn():
        pass
    assert gates.other_memory.bytes == before


def test_awaited_outcomes_of_a_link_leave_the_count_of_the_connection_with_the_link(client: Amqp10Dialogue) -> None:
    client.attach_sender(None, target=LASTING, rcv_settle_mode=1)
    endpoint = client.session().endpoint
    for _ in range(3):
        client.say(client.transfer(BODY), client.transfer(BODY))
        assert endpoint.unsent.count == 2
        client.detach(0, closed=False)
        client.listen()
        assert endpoint.unsent.count == 0
        client.attach_sender(None, target=LASTING, rcv_settle_mode=1)


def awaiting(*ids: int) -> UnsentOutcomes:
    """Return the deliveries of a link that its sender_of_unsent_outcomes is to settle, with these delivery-ids."""
    unsent = UnsentOutcomes(TagCount(StoredTags(House().broker.gates, Pools())))
    for number, delivery_id in enumerate(ids, start=1):
        take(unsent, number, b"%d" % delivery_id)
        unsent.await_settlement(number, number, delivery_id, ACCEPTED_STATE)
        unsent.tags.forget(number)
    return unsent


@pytest.mark.parametrize(
    ("first", "last", "looked_at", "kept"),
    [
        (3, 3, 1, {1, 2, 4, 0xFFFFFFFE, 0xFFFFFFFF}),
        (0xFFFFFFFF, 2, 4, {3, 4, 0xFFFFFFFE}),
        (4, 3, 0, {1, 2, 3, 4, 0xFFFFFFFE, 0xFFFFFFFF}),
        (2, 1000, 6, {1, 0xFFFFFFFE, 0xFFFFFFFF}),
        (0xFFFFFF00, 2, 6, {3, 4}),
    ],
)
def test_range_settled_by_the_sender_is_looked_up_by_the_shorter_side(
    first: int, last: int, looked_at: int, kept: set[int]
) -> None:
    unsent = awaiting(1, 2, 3, 4, 0xFFFFFFFE, 0xFFFFFFFF)
    assert unsent.on_settled(first, last) == looked_at
    producer = House().producer("p")
    assert {int(tag) for tag in unsent.outcomes(producer)} == kept


def test_settlement_by_the_sender_counts_the_deliveries_looked_up(client: Amqp10Dialogue) -> None:
    client.attach_sender(None, target=LASTING, rcv_settle_mode=1)
    for _ in range(10):
        client.say(*[client.transfer(BODY) for _ in range(32)])
    work = client.driver.broker.work

    def spent(first: int, last: int) -> int:
        before = work.done
        client.say(performative(spec.DISPOSITION, role=False, first=first, last=last, settled=True, state=accepted()))
        return int(work.done - before)

    one = spent(5000, 5000)
    assert spent(5000, 9000) - one == 320 // LINKS_A_UNIT
    assert spent(0, 159) - one == 160 // LINKS_A_UNIT


def test_settlement_by_the_sender_counts_the_links_that_are_asked(client: Amqp10Dialogue) -> None:
    client.attach_sender(None, target=LASTING, rcv_settle_mode=1)
    work = client.driver.broker.work
    settled = performative(spec.DISPOSITION, role=False, first=0, last=1 << 30, settled=True)

    def spent() -> int:
        before = work.done
        client.say(settled)
        return int(work.done - before)

    one = spent()
    for handle in range(1, 8 * LINKS_A_UNIT):
        client.attach_sender(None, handle=handle, name=f"s{handle}", target=LASTING, rcv_settle_mode=1)
    assert spent() - one == 8


def test_map_of_unsettled_deliveries_counts_the_entries() -> None:
    def spent(count: int) -> int:
        client = sender_of_unsent_outcomes()
        client.detach(0, closed=False)
        before = client.driver.broker.work.done
        client.attach_sender(None, target=LASTING, unsettled={n.to_bytes(8, "big"): None for n in range(count)})
        return int(client.driver.broker.work.done - before)

    assert spent(2_000) - spent(0) >= 2_000


@pytest.mark.parametrize("target", [{}, {"expiry_policy": "session-end"}])
def test_sender_that_reattaches_in_the_session_gets_missed_outcomes(target: dict[str, object]) -> None:
    """Its terminus lasts until the session ends (section 3.5.6), and so do the outcomes (section 2.6.13)."""
    client = Amqp10Dialogue().declare("q", capacity_messages=10, stop_messages=1, resume_messages=0)
    place = composite(spec.TARGET, address="/queues/q", **target)
    client.attach_sender(None, target=place)
    client.say(*(client.transfer(BODY) for _ in range(3)))
    client.detach(0, closed=False)
    unsettled = {n.to_bytes(4, "big"): None for n in (1, 2, 7)}
    attached = client.attach_sender(None, target=place, unsettled=unsettled)[0]
    known = attached.performative.mapping("unsettled")
    assert set(known) == {(1).to_bytes(4, "big"), (2).to_bytes(4, "big")}
    (told,) = client.say(client.transfer(BODY, resume=True, delivery_tag=(2).to_bytes(4, "big")))
    assert (told.name, told.field("settled"), told.performative.inner("state")) == ("disposition", True, accepted())
    assert client.depth("q") == 3


def test_outcomes_missed_by_a_sender_end_with_the_session() -> None:
    client = sender(capacity_messages=10, stop_messages=1, resume_messages=0)
    client.say(*(client.transfer(BODY) for _ in range(3)))
    client.detach(0, closed=False)
    suspended = client.session().endpoint.shared.suspended
    assert (suspended.count(), suspended.outcomes.taken) == (1, 2)
    client.say(performative(spec.END))
    client.listen()
    assert (suspended.count(), suspended.outcomes.taken) == (0, 0)


def test_tag_of_an_outcome_missed_by_the_sender_is_used_until_the_settlement() -> None:
    client = sender(capacity_messages=10, stop_messages=1, resume_messages=0)
    client.say(*(client.transfer(BODY) for _ in range(3)))
    client.detach(0, closed=False)
    tag = (1).to_bytes(4, "big")
    client.attach_sender("/queues/q", unsettled={tag: None})
    assert condition(client.say(client.transfer(BODY, delivery_tag=tag))[0]) == "amqp:invalid-field"
