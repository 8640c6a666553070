"""Incoming links: messages in one and several frames, outcomes, and refusals."""

from __future__ import annotations

import pytest

from penstock.connections.partial_messages import PIECE_BYTES
from penstock.flow.level import OVERHEAD
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, encode
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Symbol, ulong
from tests.support.amqp10_dialogue import (
    Amqp10Dialogue,
    Heard,
    accepted,
    condition,
    data_section,
    names,
    performative,
    sender,
    transfers,
)


@pytest.fixture
def client() -> Amqp10Dialogue:
    return sender()


def test_messages_of_a_single_turn_are_accepted_in_a_single_disposition(client: Amqp10Dialogue) -> None:
    (settled,) = client.put(*[b"x"] * 50)
    assert (settled.field("first"), settled.field("last"), settled.field("settled")) == (0, 49, True)
    state = settled.performative.inner("state")
    assert state.code == spec.ACCEPTED


def test_settled_messages_get_no_disposition(client: Amqp10Dialogue) -> None:
    assert client.say(client.transfer(data_section(b"x"), settled=True)) == []
    assert client.depth("q") == 1


def test_message_may_come_in_several_frames(client: Amqp10Dialogue) -> None:
    body = data_section(bytes(1000))
    first = client.transfer(body[:300], more=True)
    second = performative(spec.TRANSFER, 0, body[300:600], handle=0, more=True)
    assert client.say(first, second) == []
    assert client.depth("q") == 0
    assert names(client.say(performative(spec.TRANSFER, 0, body[600:], handle=0))) == ["disposition"]
    assert client.depth("q") == 1
    assert client.connection.arriving == 0


def test_aborted_message_leaves_no_trace(client: Amqp10Dialogue) -> None:
    first = client.transfer(data_section(bytes(1000))[:300], more=True)
    assert client.say(first, performative(spec.TRANSFER, handle=0, aborted=True)) == []
    assert client.depth("q") == 0
    assert client.connection.arriving == 0
    assert names(client.say(client.transfer(data_section(b"x")))) == ["disposition"]


@pytest.mark.parametrize("said", [{"delivery_tag": b"other"}, {"message_format": 7}])
def test_frame_that_contradicts_the_first_frame_of_the_delivery_detaches_the_link(said: dict[str, object]) -> None:
    client = sender()
    body = data_section(bytes(1000))
    first = client.transfer(body[:300], more=True, delivery_tag=b"tag")
    (detached,) = client.say(first, performative(spec.TRANSFER, 0, body[300:], handle=0, **said))
    assert (detached.name, condition(detached)) == ("detach", "amqp:invalid-field")
    assert (client.depth("q"), client.connection.arriving) == (0, 0)


@pytest.mark.parametrize("first", [0, None])
def test_frame_may_repeat_the_fields_of_the_first_frame_of_the_delivery(
    first: int | None, client: Amqp10Dialogue
) -> None:
    body = data_section(bytes(1000))
    begun = client.transfer(body[:300], more=True, delivery_tag=b"tag", message_format=first)
    rest = performative(spec.TRANSFER, 0, body[300:], handle=0, delivery_id=0, delivery_tag=b"tag", message_format=0)
    assert names(client.say(begun, rest)) == ["disposition"]
    assert client.depth("q") == 1


def test_deliveries_of_two_links_may_be_interleaved_but_not_within_a_link(client: Amqp10Dialogue) -> None:
    client.attach_sender("/queues/q", handle=5)
    body = data_section(bytes(1000))
    client.say(client.transfer(body[:500], more=True), client.transfer(body[:300], handle=5, more=True))
    both = client.connection.arriving
    client.say(performative(spec.TRANSFER, 0, body[500:], handle=0))
    assert (both, client.connection.arriving) == (800 + 2 * PIECE_BYTES, 300 + PIECE_BYTES)
    client.say(performative(spec.TRANSFER, 0, body[300:], handle=5))
    assert (client.connection.arriving, client.depth("q")) == (0, 2)
    (detached,) = client.say(client.transfer(body[:500], more=True), client.transfer(body))
    assert (detached.name, condition(detached)) == ("detach", "amqp:not-allowed")
    assert client.connection.arriving == 0
    assert names(client.put(b"x", handle=5)) == ["disposition"], "the other link goes on"


def test_malformed_message_is_rejected_and_the_link_stays(client: Amqp10Dialogue) -> None:
    (rejected,) = client.say(client.transfer(b"\x00\x53\x75\xa0\x05abc"))
    assert condition(rejected) == "amqp:decode-error"
    assert names(client.say(client.transfer(data_section(b"x")))) == ["disposition"]
    assert client.depth("q") == 1


def test_malformed_message_that_was_sent_settled_ends_the_link(client: Amqp10Dialogue) -> None:
    (detached,) = client.say(client.transfer(b"\x00\x53\x75\xa0\x05abc", settled=True))
    assert (detached.name, condition(detached)) == ("detach", "amqp:decode-error")


def annotated(code: int, key: object) -> bytes:
    return b"\x00\x53%c%s" % (code, encode_value({key: 1}))


@pytest.mark.parametrize("code", [spec.DELIVERY_ANNOTATIONS, spec.MESSAGE_ANNOTATIONS])
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("key", [Symbol("penstock"), Symbol("x"), Symbol(""), Symbol("X-a"), ulong(5), ulong(0)])
def test_annotation_with_a_reserved_key_detaches_the_link(code: int, key: object, settled: bool) -> None:
    client = sender()
    (detached,) = client.say(client.transfer(annotated(code, key) + data_section(b"x"), settled=settled))
    assert (detached.name, condition(detached)) == ("detach", "amqp:not-implemented")
    assert client.depth("q") == 0


@pytest.mark.parametrize("key", [Symbol("x-opt-nobody-knows-it"), Symbol("x-mine"), Symbol("x-" + "long" * 100)])
def test_annotation_with_a_free_key_passes(key: object, client: Amqp10Dialogue) -> None:
    said = annotated(spec.MESSAGE_ANNOTATIONS, key) + data_section(b"x")
    assert names(client.say(client.transfer(said))) == ["disposition"]
    (received,) = transfers(client.attach_receiver("/queues/q", credit=1))
    assert encode_value(key) in received.payload


def test_delivery_ids_and_tags_must_be_there_and_ids_in_order() -> None:
    for fields in ({"delivery_id": None}, {"delivery_tag": None}):
        client = sender()
        (ended,) = client.say(client.transfer(data_section(b"x"), **fields))
        assert (ended.name, condition(ended)) == ("detach", "amqp:invalid-field")
        client.attach_sender("/queues/q", 5)
        client.say(client.transfer(data_section(b"x"), handle=5, delivery_id=1 if "delivery_tag" in fields else 0))
        assert client.depth("q") == 1
    client = sender()
    client.say(client.transfer(data_section(b"x")))
    (ended,) = client.say(client.transfer(data_section(b"x"), delivery_id=7))
    assert condition(ended) == "amqp:not-allowed"


ACCEPTS = composite(spec.SOURCE, outcomes=["amqp:accepted:list"])


def test_sender_that_does_not_list_rejected_is_detached_instead() -> None:
    client = sender(attach={"source": ACCEPTS})
    (detached,) = client.say(client.transfer(b"\x00\x53\x75\xa0\x05abc"))
    assert (detached.name, condition(detached)) == ("detach", "amqp:decode-error")


def test_sender_to_any_address_is_detached_with_the_tag_of_the_delivery() -> None:
    client = Amqp10Dialogue()
    client.attach_sender(None, source=ACCEPTS)
    lost = encode(spec.PROPERTIES, to="/queues/none") + data_section(b"x")
    (detached,) = client.say(client.transfer(lost, delivery_tag=b"lost"))
    assert (detached.name, condition(detached)) == ("detach", "amqp:not-found")
    assert "lost" in str(detached.field("error"))


@pytest.mark.parametrize(
    ("outcomes", "name", "why"),
    [
        (None, "disposition", None),
        (["amqp:accepted:list", "amqp:rejected:list"], "disposition", "amqp:not-found"),
        (["amqp:accepted:list"], "detach", "amqp:not-found"),
    ],
)
def test_unroutable_message_is_released_only_where_the_source_lists_that(
    outcomes: list[str] | None, name: str, why: str | None
) -> None:
    client = Amqp10Dialogue()
    client.attach_sender("/exchanges/amq.topic/news", source=composite(spec.SOURCE, outcomes=outcomes))
    (heard,) = client.say(client.transfer(data_section(b"x")))
    assert (heard.name, condition(heard)) == (name, why)
    assert outcomes or heard.performative.inner("state").code == spec.RELEASED


@pytest.mark.parametrize(("source", "name"), [(ACCEPTS, "detach"), (composite(spec.SOURCE), "disposition")])
def test_message_held_beyond_the_deadline_is_rejected_or_detaches_the_link(source: Composite, name: str) -> None:
    client = sender(capacity_messages=1, hold_deadline=1.0, attach={"source": source})
    client.driver.begin(100.0)
    client.say(client.transfer(data_section(b"x")))
    client.say(client.transfer(data_section(b"y")))
    refused = next(each for each in client.listen(102.0) if condition(each) is not None)
    assert (refused.name, condition(refused)) == (name, "amqp:resource-limit-exceeded")
    assert name == "detach" or "retry-after" in str(refused.field("state"))
    assert client.depth("q") == 1


@pytest.mark.parametrize("code", [spec.DETACH, spec.END])
def test_end_of_link_or_session_gives_all_reserved_room_back(code: int) -> None:
    client = sender(capacity_messages=100)
    queue = client.vhost.queues["q"]
    assert queue.reserved.messages > 0
    client.say(performative(code, **({"handle": 0} if code == spec.DETACH else {})))
    assert queue.reserved.messages == 0


def test_unroutable_message_to_the_anonymous_terminus_is_rejected() -> None:
    client = sender()
    client.attach_sender(None, 7)
    lost = encode(spec.PROPERTIES, to="/queues/none") + data_section(b"x")
    (rejected,) = client.say(client.transfer(lost, handle=7))
    assert condition(rejected) == "amqp:not-found"
    found = encode(spec.PROPERTIES, to="/queues/q") + data_section(b"x")
    assert names(client.say(client.transfer(found, handle=7))) == ["disposition"]
    assert client.depth("q") == 1


def test_settled_unroutable_message_to_the_anonymous_terminus_detaches_the_link(client: Amqp10Dialogue) -> None:
    """Anonymous Terminus for Message Routing 1.0, section 2.2.2: nothing else would tell its sender."""
    client.attach_sender(None, 7)
    lost = encode(spec.PROPERTIES, to="/queues/none") + data_section(b"x")
    (detached,) = client.say(client.transfer(lost, handle=7, settled=True, delivery_tag=b"tag"))
    assert (detached.name, condition(detached)) == ("detach", "amqp:not-found")
    error = detached.performative.inner("error")
    assert error.fields["info"] == {Symbol("delivery-tag"): b"tag"}


def test_rejected_message_to_the_anonymous_terminus_is_named_by_tag(client: Amqp10Dialogue) -> None:
    client.attach_sender(None, 7)
    for body in (encode(spec.PROPERTIES, to="/queues/none") + data_section(b"x"), b"malformed"):
        (rejected,) = client.say(client.transfer(body, handle=7, delivery_tag=b"tag"))
        assert "{delivery-tag: b'tag'}" in str(rejected.field("state")).replace(
            "Symbol('delivery-tag')", "delivery-tag"
        )


def test_message_larger_than_announced_detaches_the_link() -> None:
    for several in (False, True):
        client = sender(capacity_bytes=10_000)
        body = data_section(bytes(10_000 - OVERHEAD))
        frames = [client.transfer(body)]
        if several:
            frames = [client.transfer(body[:5_000], more=True), performative(spec.TRANSFER, 0, body[5_000:], handle=0)]
        (detached,) = client.say(*frames)
        assert condition(detached) == "amqp:link:message-size-exceeded"
        assert client.connection.arriving == 0


def test_detach_in_the_middle_of_a_delivery_drops_the_delivery(client: Amqp10Dialogue) -> None:
    client.say(client.transfer(data_section(bytes(100))[:50], more=True))
    assert names(client.detach(0)) == ["detach"]
    assert (client.connection.arriving, client.depth("q")) == (0, 0)


def test_messages_that_come_with_the_detach_are_accepted_before_the_detach(client: Amqp10Dialogue) -> None:
    heard = client.say(client.transfer(data_section(b"x")), performative(spec.DETACH, handle=0, closed=True))
    assert names(heard) == ["disposition", "detach"]


@pytest.mark.parametrize(("mode", "settled"), [(0, True), (1, False)])
def test_delivery_that_breaks_the_settle_mode_detaches_the_link(mode: int, settled: bool) -> None:
    client = sender(attach={"snd_settle_mode": mode})
    (detached,) = client.say(client.transfer(data_section(b"x"), settled=settled))
    assert condition(detached) == "amqp:invalid-field"


def test_mixed_sender_settles_some_deliveries_in_any_frame(client: Amqp10Dialogue) -> None:
    body = data_section(bytes(100))
    settled = client.transfer(body, settled=True)
    late = client.transfer(body[:50], more=True) + performative(spec.TRANSFER, 0, body[50:], handle=0, settled=True)
    (disposition,) = client.say(settled, late, client.transfer(body))
    assert (disposition.field("first"), disposition.field("last")) == (2, None)
    assert client.depth("q") == 3


def test_receiver_settles_second_if_the_link_or_the_transfer_asks() -> None:
    client = sender(attach={"rcv_settle_mode": 1})
    body = data_section(b"x")
    heard = client.say(client.transfer(body), client.transfer(body, rcv_settle_mode=0), client.transfer(body))
    assert {each.field("first"): each.field("settled") for each in heard} == {0: False, 1: True, 2: False}
    settle = performative(spec.DISPOSITION, role=False, first=0, last=2, settled=True, state=accepted())
    assert client.say(settle) == []
    client = sender()
    (detached,) = client.say(client.transfer(body, rcv_settle_mode=1))
    assert condition(detached) == "amqp:invalid-field"


def test_messages_sent_on_credit_fit_the_capacity_and_none_is_refused() -> None:
    client = Amqp10Dialogue().declare("q", capacity_messages=100)
    heard: list[Heard] = []
    for handle in range(8):
        heard += client.attach_sender("/queues/q", handle)
    sent, going = 0, True
    while going:
        going = False
        for handle in range(8):
            credit = client.credit_of(handle)
            if credit:
                going = True
                sent += credit
                heard += client.say(*(client.transfer(data_section(b"x"), handle) for _ in range(credit)))
    queue = client.vhost.queues["q"]
    assert sent == queue.messages <= 100
    assert all(condition(each) is None for each in heard if each.name == "disposition")
    assert queue.reserved.messages == 0


def test_sender_that_drains_returns_the_room() -> None:
    client = sender(capacity_messages=100)
    queue = client.vhost.queues["q"]
    reserved = int(queue.reserved.messages)
    assert reserved == client.credit_of() > 0
    client.flow(0, 0, delivery_count=reserved)
    assert client.grants.get((0, 0)) is None or client.credit_of() == queue.reserved.messages


def test_messages_beyond_the_credit_are_held_up_to_a_bound_and_then_detach() -> None:
    client = sender(capacity_messages=10)
    body = data_section(bytes(100_000))
    heard: list[Heard] = []
    for _ in range(200):
        heard += client.say(client.transfer(body))
        if any(each.name == "detach" for each in heard):
            break
    detached = next(each for each in heard if each.name == "detach")
    assert condition(detached) == "amqp:link:transfer-limit-exceeded"
    assert client.depth("q") <= 10
    assert client.connection.pausing.budget.bytes <= client.connection.limits.hold_bytes + 101_000
