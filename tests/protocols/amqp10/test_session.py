"""Sessions: ends, states, handles, and dispositions of deliveries.

The table of states has each state, and no way back.
"""

from __future__ import annotations

import pytest

from penstock.errors import NotAllowed
from penstock.protocols.amqp10.attach import LINKS_MAX
from penstock.protocols.amqp10.session import HANDLE_MAX, SessionLinks
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import Amqp10Dialogue, accepted, condition, data_section, names, performative, sender
from tests.support.amqp10_transactions import consuming


def test_range_is_settled_at_once() -> None:
    client = consuming(10)
    client.settle(0, 7, accepted())
    assert client.depth("q") == 2
    client.settle(9, 9, accepted())
    assert client.depth("q") == 1


def test_released_messages_are_back_in_order_and_not_counted() -> None:
    client = consuming(3)
    client.settle(0, 2, composite(spec.RELEASED))
    heard = client.flow(1, 3, delivery_count=3)
    bodies = [each.payload[-1] for each in heard if each.name == "transfer"]
    assert bodies == [0, 1, 2]
    queue = client.vhost.queues["q"]
    assert queue.messages == 3


@pytest.mark.parametrize(("failed", "count"), [(True, 1), (False, 0)])
def test_modified_counts_a_failed_delivery(failed: bool, count: int) -> None:
    client = consuming(1)
    client.settle(0, 0, composite(spec.MODIFIED, delivery_failed=failed))
    (heard,) = [each for each in client.flow(1, 1, delivery_count=1) if each.name == "transfer"]
    header = heard.payload[: heard.payload.index(b"\x00\x53\x75")]
    assert (b"\x52\x01" in header) == bool(count)


def test_receiver_that_settles_second_gets_our_settlement() -> None:
    client = consuming(1)
    (settled,) = client.settle(0, 0, accepted(), settled=False)
    assert (settled.name, settled.field("role"), settled.field("settled")) == ("disposition", False, True)
    assert client.depth("q") == 0


def test_disposition_of_the_future_ends_the_session_and_of_the_past_is_ignored() -> None:
    client = consuming(2)
    client.settle(0, 1, accepted())
    assert client.settle(0, 1, accepted()) == []
    (ended,) = client.settle(2, 2, accepted())
    assert (ended.name, condition(ended)) == ("end", "amqp:not-allowed")


def test_frame_on_a_handle_without_a_link_ends_the_session() -> None:
    client = Amqp10Dialogue()
    (ended,) = client.flow(2**31 - 1, 1, echo=True)
    assert (ended.name, condition(ended)) == ("end", "amqp:session:unattached-handle")
    client = Amqp10Dialogue()
    (ended,) = client.say(client.transfer(data_section(b"x"), handle=9))
    assert condition(ended) == "amqp:session:unattached-handle"
    (begun,) = client.begin(1)
    assert begun.field("remote_channel") == 1
    client.declare("q")
    client.attach_receiver("/queues/q", channel=1)
    (ended,) = client.say(client.transfer(data_section(b"x"), handle=1, channel=1))
    assert condition(ended) == "amqp:session:errant-link"


def test_end_puts_unsettled_messages_back() -> None:
    client = consuming(4)
    client.say(performative(spec.END))
    queue = client.vhost.queues["q"]
    assert queue.available() == 4


@pytest.mark.parametrize(("code", "failures"), [(spec.END, 0), (spec.CLOSE, 0), (None, 1)])
def test_end_by_the_peer_releases_and_a_loss_counts_as_a_failure(code: int | None, failures: int) -> None:
    client = consuming(2)
    if code is None:
        client.driver.disconnect(client.connection)
    else:
        client.say(performative(code))
    queue = client.vhost.queues["q"]
    found = [(message.redelivered, message.failures) for message in queue.ready_queue.messages()]
    assert found == [(True, failures)] * 2


def test_session_end_settles_deliveries_with_the_default_outcome_of_the_source() -> None:
    client = consuming(2)
    source = composite(spec.SOURCE, address="/queues/q", default_outcome=accepted())
    client.settle(0, 1, composite(spec.RELEASED))
    client.detach(1)
    client.attach_receiver(None, 4, credit=2, source=source)
    client.say(performative(spec.END))
    assert client.depth("q") == 0


def test_detach_with_very_many_unsettled_deliveries_is_done_in_slices() -> None:
    client = sender()
    for _ in range(3):
        client.put(*[b"x"] * 1000, settled=True)
    client.attach_receiver("/queues/q", 1, credit=3000)
    queue = client.vhost.queues["q"]
    assert int(queue.unacked_messages) == 3000
    client.connection.receive(performative(spec.DETACH, handle=1, closed=True))
    assert 0 < int(queue.coming_back) < 3000, "one turn does a part"
    assert names(client.listen()) == ["detach"]
    assert (int(queue.coming_back), int(queue.available())) == (0, 3000)


def test_links_of_a_connection_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Amqp10Dialogue().declare("q")
    endpoint = client.session().endpoint
    endpoint.link_count += LINKS_MAX - 2
    assert names(client.attach_receiver("q", 1)) == ["attach"]
    assert names(client.attach_sender("q", 2))[0] == "attach"
    attached, detached = client.attach_receiver("q", 3)
    assert (attached.field("source"), condition(detached)) == (None, "amqp:resource-limit-exceeded")
    client.detach(2)
    assert names(client.attach_receiver("q", 4)) == ["attach"]
    client.say(performative(spec.END))
    assert endpoint.link_count == LINKS_MAX - 2


def test_messages_of_all_links_are_accepted_as_a_single_range() -> None:
    client = Amqp10Dialogue().declare("q")
    for handle in range(4):
        client.attach_sender("/queues/q", handle)
    heard = client.say(*(client.transfer(data_section(b"x"), handle=n % 4) for n in range(40)))
    assert [(each.field("first"), each.field("last")) for each in heard if each.name == "disposition"] == [(0, 39)]


def test_range_of_accepted_messages_may_begin_again_at_zero() -> None:
    client = Amqp10Dialogue().declare("q")
    client._next_id = 0xFFFFFFFE
    for handle in range(2):
        client.attach_sender("/queues/q", handle, initial_delivery_count=0xFFFFFFFF)
    heard = client.say(*(client.transfer(data_section(b"x"), n % 2) for n in range(4)))
    assert [(each.field("first"), each.field("last")) for each in heard if each.name == "disposition"] == [
        (0xFFFFFFFE, 1)
    ]


def test_messages_of_a_refused_link_are_ignored_and_the_ids_count() -> None:
    client = Amqp10Dialogue().declare("q")
    client.attach_sender("/queues/none", 0)
    client.attach_sender("/queues/q", 1)
    lost = (client.transfer(data_section(b"x")), client.transfer(data_section(b"x"), more=True))
    heard = client.say(*lost, client.transfer(data_section(b"y"), handle=1))
    assert [(each.name, each.field("first")) for each in heard] == [("disposition", 2)]


def test_peer_with_few_handles_gets_no_larger_handle() -> None:
    client = Amqp10Dialogue(session=False)
    client.begin(0, handle_max=1)
    client.declare("q")
    attached, flow = client.attach_sender("/queues/q", 700)
    assert (attached.field("handle"), flow.field("handle")) == (0, 0)
    assert client.attach_receiver("/queues/q", 0)[0].field("handle") == 1
    client.say(client.transfer(data_section(b"x"), handle=700))
    (sent,) = [each for each in client.flow(0, 1) if each.name == "transfer"]
    assert sent.field("handle") == 1
    (ended,) = client.attach_receiver("/queues/q", 5)
    assert (ended.name, condition(ended)) == ("end", "amqp:not-allowed")


def test_frames_of_an_ended_session_are_ignored_until_the_peers_end() -> None:
    client = consuming(1)
    (ended,) = client.settle(7, 7, accepted())
    assert ended.name == "end"
    assert client.say(client.transfer(data_section(b"x"))) == []
    assert client.attach_sender("/queues/q", 3) == []
    assert client.flow(1, 1) == []
    assert client.settle(0, 0, accepted()) == []
    assert client.say(performative(spec.END)) == []
    assert client.depth("q") == 1


def test_ends_that_cross_close_the_session_once() -> None:
    client = consuming(1)
    assert names(client.say(client.transfer(b"", handle=99), performative(spec.END))) == ["end"]
    assert names(client.begin(0)) == ["begin"]


def test_closes_that_cross_end_the_connection() -> None:
    client = consuming(1)
    assert names(client.say(performative(spec.OPEN, container_id="again"), performative(spec.CLOSE))) == ["close"]
    assert client.connection.is_closed()


def test_handle_of_the_peer_is_used_if_the_peer_allows_all() -> None:
    links = SessionLinks(HANDLE_MAX)
    assert [int(links.free_handle(wanted)) for wanted in (0, 7, HANDLE_MAX)] == [0, 7, HANDLE_MAX]


def test_peer_with_few_handles_is_assigned_free_handles() -> None:
    client = Amqp10Dialogue(session=False)
    client.begin(0, handle_max=1)
    client.declare("q")
    links = client.session().links
    client.attach_receiver("q", 700)
    client.attach_receiver("q", 0)
    assert {peer: int(link.handle) for peer, link in links.by_handle.items()} == {700: 0, 0: 1}
    with pytest.raises(NotAllowed):
        links.free_handle(9)
    client.detach(700)
    assert int(links.free_handle(9)) == 0
    assert [links.receiver_of(link.consumer) for link in links.by_handle.values()] == list(links.by_handle.values())
