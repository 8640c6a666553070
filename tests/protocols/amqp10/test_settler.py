"""Settler: ranges with gaps and over several links, default outcomes, large ranges, settlement by both sides."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite
from tests.support.amqp10_dialogue import Amqp10Dialogue, accepted, condition, names, performative, transfers


def filled(count: int, *queues: str) -> Amqp10Dialogue:
    """A peer with this many messages in each queue."""
    client = Amqp10Dialogue()
    for handle, queue in enumerate(queues):
        client.declare(queue)
        client.attach_sender(f"/queues/{queue}", handle=handle)
        for begin in range(0, count, 1000):
            some = range(begin, min(count, begin + 1000))
            client.put(*(b"%d" % n for n in some), handle=handle, settled=True)
    return client


def source(queue: str, default: Composite | None) -> Composite:
    return composite(spec.SOURCE, address=f"/queues/{queue}", default_outcome=default)


def depths(client: Amqp10Dialogue, *queues: str) -> list[tuple[int, int]]:
    """Return messages and unacknowledged messages of each queue."""
    found = [client.vhost.queues[queue] for queue in queues]
    return [(int(queue.messages), int(queue.unacked_messages)) for queue in found]


def test_deliveries_settled_without_an_outcome_get_the_default_of_the_links_source() -> None:
    client = filled(3, "a", "b", "c")
    client.attach_receiver("a", 10, credit=3, source=source("a", accepted()))
    client.attach_receiver("b", 11, credit=3, source=source("b", None))
    client.attach_receiver("c", 12, credit=3, source=source("c", composite(spec.REJECTED)))
    client.settle(1, 7, None)
    assert depths(client, "a", "b", "c") == [(1, 1), (3, 0), (1, 1)]


def test_range_with_gaps_omits_settled_deliveries() -> None:
    client = filled(10, "q")
    client.attach_receiver("q", 10, credit=10)
    for number in (2, 5, 8):
        client.settle(number, number, accepted())
    client.settle(1, 8, composite(spec.REJECTED))
    assert depths(client, "q") == [(2, 2)]
    client.settle(0, 9, accepted())
    assert depths(client, "q") == [(0, 0)]


@pytest.mark.parametrize("outcome", [spec.ACCEPTED, spec.REJECTED, spec.RELEASED, None])
def test_disposition_of_very_many_deliveries_is_done_in_slices(outcome: int | None) -> None:
    count = 3_000
    client = filled(count, "q")
    sent = len(transfers(client.attach_receiver("q", 10, credit=count)))
    assert sent == count
    client.connection.receive(
        performative(
            spec.DISPOSITION,
            role=True,
            first=0,
            last=count - 1,
            settled=True,
            state=None if outcome is None else composite(outcome),
        )
    )
    if outcome != spec.ACCEPTED:
        assert depths(client, "q") != [(0, 0)], "one turn does a part"
    client.listen()
    assert depths(client, "q") == [(0 if outcome in (spec.ACCEPTED, spec.REJECTED) else count, 0)]


def test_unsettled_outcome_is_followed_by_the_settlement() -> None:
    client = filled(2, "q")
    client.attach_receiver("q", 10, credit=2, rcv_settle_mode=1)
    (told,) = client.settle(0, 1, accepted(), settled=False)
    assert (told.name, told.field("settled"), told.field("first"), told.field("last")) == ("disposition", True, 0, 1)
    assert client.settle(0, 1, accepted()) == []
    assert depths(client, "q") == [(0, 0)]


def test_state_without_an_outcome_settles_no_delivery() -> None:
    client = filled(1, "q")
    client.attach_receiver("q", 10, credit=1)
    assert client.settle(0, 0, composite(spec.RECEIVED, section_number=0, section_offset=0), settled=False) == []
    assert client.settle(0, 0, None, settled=False) == []
    assert depths(client, "q") == [(1, 1)]


def test_delivery_ids_begin_again_at_zero() -> None:
    client = filled(4, "q")
    client.session().writer.ids.next_id = 0xFFFFFFFE
    client.session().windows.next_outgoing_id = 0xFFFFFFFE
    assert transfers(client.attach_receiver("q", 10)) == []
    sent = transfers(client.flow(10, 4, next_incoming_id=0xFFFFFFFE))
    assert [each.field("delivery_id") for each in sent] == [0xFFFFFFFE, 0xFFFFFFFF, 0, 1]
    (ended,) = Amqp10Dialogue(client.driver).settle(0, 0, accepted())
    assert ended.name == "end"
    client.settle(0xFFFFFFFF, 0, accepted())
    assert depths(client, "q") == [(2, 2)]
    (ended,) = client.settle(1, 2, accepted())
    assert condition(ended) == "amqp:not-allowed"


def test_detached_link_leaves_no_gap_in_the_delivery_ids() -> None:
    client = filled(6, "a", "b")
    client.say(performative(spec.FLOW, next_incoming_id=0, incoming_window=2, next_outgoing_id=0, outgoing_window=9))
    client.attach_receiver("a", 10)
    client.attach_receiver("b", 11)
    sent = transfers(client.flow(10, 6, incoming_window=2))
    sent += transfers(client.flow(11, 6, incoming_window=2))
    assert [each.field("delivery_id") for each in sent] == [0, 1]
    assert "detach" in names(client.detach(10))
    sent = transfers(client.flow(11, 6, next_incoming_id=2))
    assert [(each.field("handle"), each.field("delivery_id")) for each in sent] == [(11, n) for n in range(2, 8)]
    client.settle(0, 4, accepted())
    assert depths(client, "a", "b") == [(6, 0), (3, 3)]
    client.settle(5, 7, accepted())
    assert depths(client, "a", "b") == [(6, 0), (0, 0)]
