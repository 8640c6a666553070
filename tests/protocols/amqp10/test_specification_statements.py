"""Statements of the specification that Broker-J's protocol tests of AMQP 1.0 check, as conversations of ours.

Those tests are in no package registry, so they are not run. The comments name the classes whose statements follow;
docs/clients.md has what differs.
"""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, encode, encode_composite
from penstock.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER, frame
from penstock.wire.amqp10.values import Symbol
from tests.support.amqp10_dialogue import (
    LARGEST_FRAME,
    Amqp10Dialogue,
    Heard,
    accepted,
    condition,
    data_section,
    login,
    names,
    performative,
    sender,
    transfers,
)
from tests.support.amqp10_transactions import TransactionalPeer, provisional, state_of
from tests.support.frame_splitter import FrameSplitter

EMPTY = b"\x00\x53%c\x45"
"""A performative without any field, by its descriptor."""


def receiver(*bodies: bytes, credit: int = 0, **fields: object) -> tuple[Amqp10Dialogue, list[Heard]]:
    """Return a receiver of a queue with these messages, and what it heard."""
    client = sender()
    client.put(*bodies, settled=True)
    return client, client.attach_receiver("/queues/q", credit=credit, **fields)


def flow(client: Amqp10Dialogue, **fields: object) -> list[Heard]:
    windows = {"next_incoming_id": 0, "incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9}
    return client.say(performative(spec.FLOW, **{**windows, **fields}))


# OpenTest, BeginTest, AttachTest, FlowTest


@pytest.mark.parametrize("code", [spec.BEGIN, spec.ATTACH, spec.FLOW, spec.TRANSFER, spec.DISPOSITION, spec.DETACH])
def test_performative_without_its_mandatory_fields_is_an_error(code: int) -> None:
    client = sender()
    ended = client.say(frame(7 if code == spec.BEGIN else 0, EMPTY % code))[-1]
    assert condition(ended) in ("amqp:decode-error", "amqp:invalid-field")


def test_channel_above_channel_max_closes_the_connection() -> None:
    client = Amqp10Dialogue(session=False)
    most = client.opened[0].performative.number("channel_max")
    (closed,) = client.begin(most + 1)
    assert (closed.name, condition(closed)) == ("close", "amqp:connection:framing-error")


def test_begin_is_answered_with_its_channel() -> None:
    (begun,) = Amqp10Dialogue(session=False).begin(37)
    assert begun.field("remote_channel") == 37


def test_empty_frame_is_no_error() -> None:
    client = Amqp10Dialogue()
    assert client.say(frame(0, b"")) == []
    assert names(client.say(performative(spec.CLOSE))) == ["close"]


def test_echo_of_a_session_and_of_a_link_is_answered_without_echo() -> None:
    client, _ = receiver()
    (session,) = flow(client, echo=True)
    (link,) = flow(client, echo=True, handle=1, link_credit=1, delivery_count=0, available=10)
    assert (session.field("handle"), link.field("handle")) == (None, 1)
    assert not any(each.performative.flag("echo") for each in (session, link))


def test_drain_of_an_empty_queue_uses_all_credit() -> None:
    client, _ = receiver()
    (drained,) = client.flow(1, 1, drain=True)
    assert (drained.field("drain"), drained.performative.number("link_credit", 0)) == (True, 0)
    assert drained.field("delivery_count") == 1


def test_drain_comes_after_the_messages_that_there_are() -> None:
    client, _ = receiver(b"a")
    heard = client.flow(1, 2, drain=True)
    assert names(heard) == ["transfer", "flow"]
    assert heard[1].field("delivery_count") == 2


def test_link_without_credit_gets_no_message() -> None:
    client, heard = receiver(b"a", credit=2)
    assert len(transfers(heard)) == 1
    (echoed,) = flow(client, handle=1, link_credit=0, delivery_count=1, echo=True)
    assert echoed.performative.number("link_credit", 0) == 0
    client.say(client.transfer(data_section(b"b"), settled=True))
    assert names(flow(client, echo=True)) == ["flow"]
    assert client.depth("q") == 1 + 1


def test_flow_with_an_unknown_handle_ends_the_session() -> None:
    (ended,) = flow(Amqp10Dialogue(), handle=2**31 - 1, link_credit=1, echo=True)
    assert (ended.name, condition(ended)) == ("end", "amqp:session:unattached-handle")


# LinkStealingTest, ResumeDeliveriesTest


def test_second_attach_of_a_name_steals_the_link() -> None:
    client = sender(attach={"name": "link"})
    stolen, attached = client.attach_sender("/queues/q", 1, name="link")[:2]
    assert (stolen.field("handle"), condition(stolen), attached.field("handle")) == (0, "amqp:link:stolen", 1)


def test_receiver_may_attach_again_with_an_empty_unsettled_map() -> None:
    client, heard = receiver(b"a", credit=1)
    client.settle(0, 0, accepted())
    (detached,) = client.say(performative(spec.DETACH, handle=1))
    (attached,) = client.attach_receiver("/queues/q", unsettled={})
    assert (len(transfers(heard)), detached.performative.flag("closed")) == (1, False)
    assert not attached.field("unsettled")


# TransferTest, MultiTransferTest, OutcomeTest


def test_delivery_of_several_frames_may_leave_out_its_id_and_tag() -> None:
    client = sender()
    body = data_section(bytes(1000))
    tag = (0).to_bytes(4, "big")
    (outcome,) = client.say(
        client.transfer(body[:300], more=True),
        performative(spec.TRANSFER, 0, body[300:500], handle=0, delivery_id=0, more=True),
        performative(spec.TRANSFER, 0, body[500:600], handle=0, delivery_tag=tag, more=True),
        performative(spec.TRANSFER, 0, body[600:], handle=0),
    )
    assert (outcome.field("first"), outcome.field("settled"), state_of(outcome).code) == (0, True, spec.ACCEPTED)


def test_messages_of_one_link_must_not_be_interleaved() -> None:
    client = sender()
    (ended,) = client.say(*(client.transfer(data_section(bytes(1000))[:300], more=True) for _ in range(2)))
    assert condition(ended) == "amqp:not-allowed"


def test_same_tag_may_be_used_on_two_links_and_after_settlement() -> None:
    client = sender()
    client.attach_sender("/queues/q", 1)
    for handle in (0, 1, 0):
        (outcome,) = client.say(client.transfer(data_section(b"x"), handle, delivery_tag=b"tag"))
        assert state_of(outcome).code == spec.ACCEPTED
    assert client.depth("q") == 3


def test_transfer_cannot_ask_for_second_where_the_link_is_first() -> None:
    client = sender(attach={"rcv_settle_mode": 0})
    (detached,) = client.say(client.transfer(data_section(b"x"), rcv_settle_mode=1))
    assert condition(detached) == "amqp:invalid-field"


@pytest.mark.parametrize("outcome", [spec.ACCEPTED, spec.REJECTED])
def test_outcome_of_a_receiver_that_settles_second_is_settled_by_us(outcome: int) -> None:
    client, heard = receiver(b"a", credit=1, rcv_settle_mode=1)
    (settled,) = client.settle(0, 0, composite(outcome), settled=False)
    assert (heard[0].field("rcv_settle_mode"), settled.field("settled")) == (1, True)
    assert client.settle(0, 0, composite(outcome), settled=True) == []


def test_receiver_may_tell_a_state_that_is_no_outcome() -> None:
    client, heard = receiver(b"a", credit=1, rcv_settle_mode=1)
    received = composite(spec.RECEIVED, section_number=0, section_offset=1)
    assert len(transfers(heard)) == 1
    assert client.settle(0, 0, received, settled=False) == []
    assert names(client.settle(0, 0, accepted(), settled=False)) == ["disposition"]


def test_messages_come_settled_where_the_receiver_asks_for_it() -> None:
    _, heard = receiver(b"a", credit=1, snd_settle_mode=1)
    assert (heard[0].field("snd_settle_mode"), transfers(heard)[0].field("settled")) == (1, True)


def test_unsettled_message_is_there_again_after_the_connection() -> None:
    client, heard = receiver(b"a", credit=1)
    assert (len(transfers(heard)), names(client.say(performative(spec.CLOSE)))) == (1, ["close"])
    again = Amqp10Dialogue(client.driver)
    assert len(transfers(again.attach_receiver("/queues/q", credit=1))) == 1


def test_text_between_the_sections_of_a_message_is_refused() -> None:
    client = sender()
    body = encode(spec.HEADER, ttl=10_000) + b"\xa1\x04text" + data_section(b"x")
    (rejected,) = client.say(client.transfer(body))
    assert (condition(rejected), client.depth("q")) == ("amqp:decode-error", 0)


# SaslTest


def sasl(data: bytes) -> tuple[list[Composite], bool]:
    """Return what the broker says to octets behind the SASL header, and whether it closes the connection."""
    client = Amqp10Dialogue.__new__(Amqp10Dialogue)
    other = Amqp10Dialogue()
    client.driver, client._splitter = other.driver, FrameSplitter(LARGEST_FRAME)
    client.connection = other.driver.connect(other.connection.peer)
    out = client.raw(SASL_HEADER + data)
    assert out.startswith(SASL_HEADER)
    return [each.performative for each in client._cut(out[8:])], client.connection.is_closing()


def test_login_and_open_may_be_sent_at_once() -> None:
    client = Amqp10Dialogue()
    connection = client.driver.connect(client.connection.peer)
    connection.receive(login() + AMQP_HEADER + performative(spec.OPEN, container_id="pipelined"))
    while client.driver.run_turn():
        pass
    out = connection.take_output()
    assert out.index(SASL_HEADER) < out.index(AMQP_HEADER)
    assert b"penstock" in out


@pytest.mark.parametrize("mechanism", ["NOT-A-MECHANISM", "PLAIN"])
def test_failed_login_is_answered_with_auth_and_closed(mechanism: str) -> None:
    init = composite(spec.SASL_INIT, mechanism=mechanism, initial_response=b"\0guest\0wrong")
    heard, closing = sasl(frame(0, encode_composite(init), spec.FRAME_SASL))
    assert (heard[-1].code, heard[-1].number("code"), heard[-1].fields["additional_data"]) == (
        spec.SASL_OUTCOME,
        1,
        None,
    )
    assert closing


@pytest.mark.parametrize(
    "said",
    [
        composite(spec.OPEN, container_id="bypass"),
        composite(spec.SASL_MECHANISMS, sasl_server_mechanisms=["X"]),
        composite(spec.SASL_CHALLENGE, challenge=b""),
        composite(spec.SASL_OUTCOME, code=0),
    ],
    ids=lambda said: said.name,
)
def test_what_only_a_server_says_and_open_before_the_login_close_the_connection(said: Composite) -> None:
    kind = spec.FRAME_AMQP if said.code == spec.OPEN else spec.FRAME_SASL
    heard, closing = sasl(frame(0, encode_composite(said), kind))
    assert ([each.code for each in heard], closing) == ([spec.SASL_MECHANISMS], True)


# DischargeTest, TransactionalTransferTest


def coordinated(**fields: object) -> tuple[TransactionalPeer, bytes]:
    """Return a peer with a sender to a queue, and an open transaction."""
    client = TransactionalPeer(**fields)
    client.declare("q")
    txn_id = client.begin_transaction()
    client.attach_sender("/queues/q")
    return client, txn_id


def test_discharge_of_an_unknown_transaction_is_rejected_or_detaches_the_link() -> None:
    for outcome, name in (("amqp:rejected:list", "disposition"), ("amqp:accepted:list", "detach")):
        client, _ = coordinated(source=composite(spec.SOURCE, outcomes=[outcome]))
        (told,) = client.discharge(b"unknown")
        assert (told.name, condition(told)) == (name, "amqp:transaction:unknown-id")


@pytest.mark.parametrize(("second", "closed"), [(False, False), (True, True)])
def test_message_of_a_transaction_outlives_the_link_that_sent_it(second: bool, closed: bool) -> None:
    client = TransactionalPeer()
    client.declare("q")
    txn_id = client.begin_transaction()
    client.attach_sender("/queues/q", rcv_settle_mode=int(second))
    (posted,) = client.say(client.post(txn_id))
    assert (posted.performative.flag("settled"), provisional(posted).code) == (not second, spec.ACCEPTED)
    client.say(performative(spec.DETACH, handle=0, closed=closed))
    (discharged,) = client.discharge(txn_id)
    assert (state_of(discharged).code, client.depth("q")) == (spec.ACCEPTED, 1)


def test_failed_discharge_leaves_nothing() -> None:
    client, txn_id = coordinated()
    client.say(client.post(txn_id))
    (discharged,) = client.discharge(txn_id, fail=True)
    assert (state_of(discharged).code, client.depth("q")) == (spec.ACCEPTED, 0)


def test_message_of_an_unknown_transaction_is_not_published() -> None:
    for settled, name in ((False, "disposition"), (True, "detach")):
        client, _ = coordinated()
        (told,) = client.say(client.post(b"unknown", settled=settled))
        assert (told.name, condition(told)) == (name, "amqp:transaction:unknown-id")
        assert client.depth("q") == 0


def test_transactional_and_other_messages_may_be_mixed() -> None:
    client, txn_id = coordinated()
    client.say(client.transfer(data_section(b"a")), client.post(txn_id, b"b"), client.transfer(data_section(b"c")))
    assert client.depth("q") == 2
    client.discharge(txn_id)
    assert client.depth("q") == 3


# TemporaryDestinationTest


def test_temporary_queue_may_be_sent_to_but_not_consumed_from_by_others() -> None:
    client = Amqp10Dialogue()
    target = composite(spec.TARGET, dynamic=True, expiry_policy="link-detach", capabilities=["temporary-queue"])
    terminus = client.attach_sender(None, target=target)[0].performative.inner("target")
    assert terminus is not None
    address = terminus.text("address")
    other = Amqp10Dialogue(client.driver, container_id="other")
    refused = other.attach_receiver(address)
    assert condition(refused[-1]) == "amqp:resource-locked"
    assert names(other.attach_sender(address, 3))[0] == "attach"
    client.say(performative(spec.CLOSE))
    assert condition(Amqp10Dialogue(client.driver, container_id="third").attach_sender(address)[-1]) == "amqp:not-found"


def test_filter_that_is_not_known_is_left_out() -> None:
    filters = {Symbol("unknown"): "x"}
    client = sender()
    source = composite(spec.SOURCE, address="/queues/q", filter=filters)
    (attached,) = client.attach_receiver("/queues/q", source=source)
    terminus = attached.performative.inner("source")
    assert terminus is not None
    assert not terminus.mapping("filter")
