"""Transactions: messages and settlements that take effect together, or not at all."""

from __future__ import annotations

import pytest

from penstock.core.publish.commit_delta import RETURN_SIZE, SIZE_MOST
from penstock.flow.work import UNLIMITED_WORK
from penstock.protocols.amqp10.transactions import RETIRED_AT_ONCE, RETIRED_MOST
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.values import Symbol
from tests.support.amqp10_dialogue import accepted, condition, data_section, names, performative
from tests.support.amqp10_transactions import (
    COORDINATOR,
    TransactionalPeer,
    consuming,
    in_transaction,
    peer,
    provisional,
    reserved,
    state_of,
    value_section,
)

RELEASED = composite(spec.RELEASED)
FAILED = composite(spec.MODIFIED, delivery_failed=True)


def begun(client: TransactionalPeer) -> tuple[TransactionalPeer, bytes]:
    """Return a peer, and the transaction that it has begun."""
    return client, client.begin_transaction()


# Messages


def test_messages_of_a_transaction_have_a_provisional_outcome_until_the_commit() -> None:
    client, txn_id = begun(peer())
    (heard,) = client.say(*(client.post(txn_id) for _ in range(50)))
    assert (heard.field("last"), heard.field("settled")) == (int(str(heard.field("first"))) + 49, True)
    assert state_of(heard) == in_transaction(txn_id, accepted())
    assert client.depth("q") == 0
    (answer,) = client.discharge(txn_id)
    assert state_of(answer) == accepted()
    assert client.depth("q") == 50
    assert reserved(client) == 0


def test_provisional_outcomes_ask_for_a_separate_flush() -> None:
    client, txn_id = begun(peer())
    client.driver.take_pending_output()
    client.connection.receive(client.post(txn_id))
    while client.driver.run_turn():
        pass
    assert client.driver.take_pending_output() == [client.connection]


def test_rolled_back_messages_never_come() -> None:
    client, txn_id = begun(peer())
    client.say(*(client.post(txn_id) for _ in range(5)))
    assert reserved(client) > 0
    (answer,) = client.discharge(txn_id, fail=True)
    assert state_of(answer) == accepted()
    assert client.depth("q") == 0
    assert reserved(client) == 0


def test_provisional_outcomes_precede_the_answer_to_the_discharge() -> None:
    client, txn_id = begun(peer())
    discharge = composite(spec.DISCHARGE, txn_id=txn_id)
    heard = client.say(client.post(txn_id), client.transfer(value_section(discharge), COORDINATOR))
    assert [state_of(each).code for each in heard if each.name == "disposition"] == [
        spec.TRANSACTIONAL_STATE,
        spec.ACCEPTED,
    ]


def test_message_in_several_frames_may_name_the_transaction_in_each() -> None:
    client, txn_id = begun(peer())
    body = data_section(bytes(1000))
    state = in_transaction(txn_id)
    first = client.transfer(body[:300], more=True, state=state)
    rest = performative(spec.TRANSFER, 0, body[300:], handle=0, state=state)
    (heard,) = client.say(first, rest)
    assert provisional(heard) == accepted()
    (heard,) = client.say(client.transfer(data_section(b"x")))
    assert state_of(heard) == accepted(), "the next message is in no transaction"
    assert client.depth("q") == 1
    client.discharge(txn_id)
    assert client.depth("q") == 2


def test_aborted_message_is_in_no_transaction() -> None:
    client, txn_id = begun(peer())
    first = client.transfer(data_section(bytes(100))[:30], more=True, state=in_transaction(txn_id))
    assert client.say(first, performative(spec.TRANSFER, handle=0, aborted=True)) == []
    (heard,) = client.say(client.transfer(data_section(b"x")))
    assert state_of(heard) == accepted()
    client.discharge(txn_id)
    assert client.depth("q") == 1


@pytest.mark.parametrize("state", [None, b"first"])
def test_frames_of_a_message_with_different_transactions_detach_the_link(state: bytes | None) -> None:
    client = peer()
    one, other = client.begin_transaction(), client.begin_transaction()
    before = None if state is None else in_transaction(one)
    first = client.transfer(data_section(bytes(100))[:30], more=True, state=before)
    (detached,) = client.say(first, performative(spec.TRANSFER, handle=0, state=in_transaction(other)))
    assert (detached.name, condition(detached)) == ("detach", "amqp:not-allowed")


def test_settled_message_is_in_the_transaction_too() -> None:
    client, txn_id = begun(peer())
    assert client.say(client.post(txn_id, settled=True)) == []
    assert client.depth("q") == 0
    client.discharge(txn_id)
    assert client.depth("q") == 1


def test_message_of_an_unknown_transaction_is_rejected() -> None:
    client = peer()
    (heard,) = client.say(client.post(b"none"))
    assert condition(heard) == "amqp:transaction:unknown-id"
    assert names(client.say(client.transfer(data_section(b"x")))) == ["disposition"], "the link stands"
    (heard,) = client.say(client.post(b"none", settled=True))
    assert (heard.name, condition(heard)) == ("detach", "amqp:transaction:unknown-id")
    assert client.depth("q") == 1


def test_refused_message_rolls_the_transaction_back() -> None:
    client, txn_id = begun(peer())
    client.say(client.post(txn_id))
    (heard,) = client.say(client.transfer(b"\x00\x53\x75\xa0\x05abc", state=in_transaction(txn_id)))
    error = provisional(heard).inner("error")
    assert error.fields["condition"] == "amqp:decode-error"
    (heard,) = client.say(client.post(txn_id))
    assert provisional(heard).code == spec.REJECTED, "nothing more is taken"
    assert reserved(client) == 0
    (answer,) = client.discharge(txn_id)
    assert condition(answer) == "amqp:transaction:rollback"
    assert client.depth("q") == 0


def test_refused_message_that_was_sent_settled_fails_the_discharge() -> None:
    client, txn_id = begun(peer())
    malformed = client.transfer(b"\x00\x53\x75\xa0\x05abc", settled=True, state=in_transaction(txn_id))
    assert client.say(malformed) == []
    (answer,) = client.discharge(txn_id)
    assert condition(answer) == "amqp:transaction:rollback"
    assert "a message was refused" in str(answer.field("state"))
    assert client.depth("q") == 0


def test_message_that_detaches_the_link_rolls_the_transaction_back() -> None:
    client, txn_id = begun(peer(capacity_bytes=1000))
    (heard,) = client.say(client.post(txn_id, bytes(2000)))
    assert (heard.name, condition(heard)) == ("detach", "amqp:link:message-size-exceeded")
    assert condition(client.discharge(txn_id)[0]) == "amqp:transaction:rollback"


def test_messages_past_the_bound_roll_back_and_free_the_memory() -> None:
    client = peer()
    bound = int(client.connection.pausing.budget.bound)
    assert bound == client.connection.limits.transaction_bytes
    txn_id = client.begin_transaction()
    body = bytes(64 * 1024)
    heard = client.say(*(client.post(txn_id, body) for _ in range(bound // len(body) + 1)))
    errors = [provisional(each).inner("error") for each in heard if provisional(each).code == spec.REJECTED]
    assert [error.fields["condition"] for error in errors if error] == [
        "amqp:resource-limit-exceeded",
        "amqp:transaction:rollback",
    ]
    assert reserved(client) == 0
    assert condition(client.discharge(txn_id)[0]) == "amqp:transaction:rollback"
    assert client.depth("q") == 0


def test_unroutable_message_is_released_provisionally_and_the_rest_are_committed() -> None:
    client = peer()
    client.attach_sender("/exchanges/amq.topic/news", handle=3)
    txn_id = client.begin_transaction()
    (heard,) = client.say(client.post(txn_id, handle=3))
    assert provisional(heard) == RELEASED
    client.say(client.post(txn_id))
    assert state_of(client.discharge(txn_id)[0]) == accepted()
    assert client.depth("q") == 1


def test_link_with_messages_of_transactions_reserves_no_room() -> None:
    """Else the commit would wait for the room of the credit that came with it."""
    client = peer(capacity_messages=20)
    queue = client.vhost.queues["q"]
    assert queue.reserved.messages > 0
    txn_id = client.begin_transaction()
    client.say(*(client.post(txn_id) for _ in range(10)))
    assert queue.reserved.messages == 0
    assert state_of(client.discharge(txn_id)[0]) == accepted()
    assert client.depth("q") == 10


@pytest.mark.once
@pytest.mark.parametrize("octets", [1024, 10_000, 1_500_000])
def test_transaction_larger_than_the_hold_room_gets_credit_until_complete(octets: int) -> None:
    client, txn_id = begun(peer())
    messages = 6_000_000 // octets
    for sent in range(messages):
        grant = client.grants.get((0, 0))
        if grant is None:
            assert sent < 64, "the first grant"
        else:
            (count, credit) = (int(str(grant.field(name))) for name in ("delivery_count", "link_credit"))
            assert count + credit > sent, "the sender may go on"
        body = data_section(bytes(octets))
        pieces = [body[at : at + 100_000] for at in range(0, len(body), 100_000)]
        first = client.transfer(pieces[0], state=in_transaction(txn_id), more=len(pieces) > 1)
        rest = [performative(spec.TRANSFER, 0, each, handle=0, more=each is not pieces[-1]) for each in pieces[1:]]
        client.say(first, *rest)
    assert state_of(client.discharge(txn_id)[0]) == accepted()
    assert client.depth("q") == messages
    assert int(client.connection.pausing.budget.uncommitted) == 0


@pytest.mark.parametrize(("mode", "closed"), [(0, False), (1, True)])
def test_detached_link_leaves_the_messages_in_the_transaction(mode: int, closed: bool) -> None:
    client = TransactionalPeer().declare("q")
    client.attach_sender("/queues/q", rcv_settle_mode=mode)
    txn_id = client.begin_transaction()
    (posted,) = client.say(client.post(txn_id))
    assert (posted.performative.flag("settled"), provisional(posted)) == (mode == 0, accepted())
    client.detach(0, closed)
    assert state_of(client.discharge(txn_id)[0]) == accepted()
    assert client.depth("q") == 1


def test_held_commit_makes_room_for_no_other_commit() -> None:
    """A second transaction takes what the first one waits for room for: neither waits for the other."""
    client = consuming(2)
    client.declare("full", capacity_messages=1)
    client.attach_sender("/queues/full", handle=3)
    client.say(client.transfer(data_section(b"x"), handle=3))
    client.attach_receiver("/queues/full", handle=4, credit=1)
    held, frees = client.begin_transaction(), client.begin_transaction()
    client.say(client.post(held, handle=3))
    assert client.discharge(held) == []
    client.retire(frees, 2, 2)
    answers = [each for each in client.discharge(frees) if each.field("role")]
    assert [state_of(each) for each in answers] == [accepted(), accepted()]
    assert client.depth("full") == 1


# Settlements


def test_settlement_takes_effect_with_the_commit_and_is_confirmed_to_the_receiver() -> None:
    client, txn_id = begun(consuming(4))
    assert client.retire(txn_id, 0, 2) == []
    assert client.depth("q") == 4
    answer, settled = client.discharge(txn_id)
    assert state_of(answer) == accepted()
    assert (settled.field("role"), settled.field("first"), settled.field("last")) == (False, 0, 2)
    assert settled.field("settled")
    assert client.depth("q") == 1


def test_receiver_that_has_settled_gets_no_disposition() -> None:
    client, txn_id = begun(consuming(2))
    client.retire(txn_id, 0, 1, settled=True)
    assert len(client.discharge(txn_id)) == 1
    assert client.depth("q") == 0


@pytest.mark.parametrize(
    ("outcome", "left"),
    [(RELEASED, 2), (composite(spec.REJECTED), 0), (FAILED, 2), (accepted(), 0)],
)
def test_outcome_is_applied_by_the_commit(outcome: Composite, left: int) -> None:
    client, txn_id = begun(consuming(2))
    client.retire(txn_id, 0, 1, outcome)
    assert client.available() == 0
    client.discharge(txn_id)
    assert client.available() == left


def test_commit_adds_the_annotations_of_modified() -> None:
    client, txn_id = begun(consuming(1))
    client.retire(txn_id, 0, 0, composite(spec.MODIFIED, message_annotations={Symbol("x-opt-why"): "later"}))
    client.discharge(txn_id)
    (heard,) = [each for each in client.flow(1, 1, delivery_count=1) if each.name == "transfer"]
    assert b"x-opt-why" in heard.payload


def test_rolled_back_delivery_stays_with_the_receiver() -> None:
    client, txn_id = begun(consuming(2))
    client.retire(txn_id, 0, 1)
    assert len(client.discharge(txn_id, fail=True)) == 1
    assert (client.depth("q"), client.available()) == (2, 0)
    client.settle(0, 0, accepted())
    client.settle(1, 1, RELEASED)
    assert (client.depth("q"), client.available()) == (1, 1)


def test_rolled_back_delivery_settled_by_the_receiver_gets_the_default_outcome() -> None:
    source = composite(spec.SOURCE, address="/queues/q", default_outcome=FAILED)
    client, txn_id = begun(consuming(2, source=source))
    client.retire(txn_id, 0, 0, settled=True)
    client.retire(txn_id, 1, 1)
    client.settle(1, 1, None)
    client.discharge(txn_id, fail=True)
    assert client.available() == 2
    heard = [each for each in client.flow(1, 2, delivery_count=2) if each.name == "transfer"]
    assert [b"\x52\x01" in each.payload[:20] for each in heard] == [True, True], "a delivery failed, and is counted"


def test_settlement_outside_of_the_transaction_changes_nothing() -> None:
    client, txn_id = begun(consuming(4))
    client.retire(txn_id, 1, 2)
    client.settle(0, 3, RELEASED)
    assert client.available() == 2, "the first and the last"
    client.discharge(txn_id)
    assert (client.depth("q"), client.available()) == (2, 2)


def test_receiver_that_settles_second_gets_dispositions_outside_transactions() -> None:
    client, txn_id = begun(consuming(3))
    client.retire(txn_id, 1, 1)
    heard = client.settle(0, 2, accepted(), settled=False)
    assert [(each.field("first"), each.field("settled")) for each in heard] == [(0, True), (2, True)]
    assert client.depth("q") == 1
    assert [each.field("first") for each in client.discharge(txn_id) if not each.field("role")] == [1]


@pytest.mark.once
@pytest.mark.parametrize("settled", [False, True])
def test_settlements_past_the_bound_roll_back(settled: bool) -> None:
    most = SIZE_MOST // RETURN_SIZE
    client, txn_id = begun(consuming(most + 2))
    client.retire(txn_id, 0, most - 1, composite(spec.REJECTED))
    assert client.retire(txn_id, most, most + 1, composite(spec.REJECTED), settled) == []
    answer = client.discharge(txn_id)[0]
    assert condition(answer) == "amqp:transaction:rollback"
    assert client.depth("q") == most + 2
    assert client.available() == (2 if settled else 0), "what its receiver has settled has its default outcome"
    client.settle(0, most - 1, accepted())
    assert client.depth("q") == 2


def test_disposition_of_very_many_deliveries_in_a_transaction_is_done_in_slices() -> None:
    count = 2 * RETIRED_AT_ONCE + 1
    client, txn_id = begun(consuming(count))
    work, retired = client.driver.broker.work, client.session().settler.retired
    state = in_transaction(txn_id, accepted())
    work.limit = work.done
    client.connection.receive(
        performative(spec.DISPOSITION, role=True, first=0, last=count - 1, settled=False, state=state)
    )
    assert len(retired) == RETIRED_AT_ONCE, "a share does a part"
    for done in (2 * RETIRED_AT_ONCE, count):
        client.connection.resume_input()
        assert len(retired) == done
    work.limit = UNLIMITED_WORK
    client.discharge(txn_id)
    assert client.depth("q") == 0


@pytest.mark.once
def test_deliveries_of_a_session_in_open_transactions_are_bounded() -> None:
    client = consuming(RETIRED_MOST + 1)
    txns = [client.begin_transaction() for _ in range(3)]
    half = RETIRED_MOST // 2
    client.retire(txns[0], 0, half - 1)
    client.retire(txns[1], half, 2 * half - 1)
    client.retire(txns[2], 2 * half, 2 * half)
    (answer, *_) = client.discharge(txns[2])
    assert condition(answer) == "amqp:transaction:rollback"
    assert "the most is 32,768" in str(answer.performative.fields)
    client.discharge(txns[0])
    client.discharge(txns[1])
    assert client.depth("q") == 1


def test_delivery_is_settled_in_a_single_transaction_at_most() -> None:
    client = consuming(2)
    one, other = client.begin_transaction(), client.begin_transaction()
    client.retire(one, 0, 0)
    client.retire(other, 0, 1, RELEASED)
    client.discharge(other)
    assert (client.depth("q"), client.available()) == (2, 1)
    client.discharge(one)
    assert (client.depth("q"), client.available()) == (1, 1)


def test_transactional_state_without_an_outcome_waits_for_an_outcome() -> None:
    client, txn_id = begun(consuming(1))
    assert client.settle(0, 0, in_transaction(txn_id), settled=False) == []
    client.retire(txn_id, 0, 0)
    client.discharge(txn_id)
    assert client.depth("q") == 0


@pytest.mark.parametrize(("fail", "left"), [(False, (1, 1)), (True, (3, 3))])
def test_closed_link_leaves_the_settlements_in_the_transaction(fail: bool, left: tuple[int, int]) -> None:
    client, txn_id = begun(consuming(3))
    client.retire(txn_id, 0, 1)
    client.detach(1)
    assert (client.depth("q"), client.available()) == (3, 1)
    client.discharge(txn_id, fail)
    assert (client.depth("q"), client.available()) == left


def test_disposition_in_an_unknown_transaction_detaches_the_receiver() -> None:
    client = consuming(1)
    (detached,) = client.retire(b"none", 0, 0)
    assert (detached.name, condition(detached)) == ("detach", "amqp:transaction:unknown-id")
    assert client.available() == 1


def test_flow_that_acquires_in_a_transaction_is_refused() -> None:
    client = consuming(1)
    properties = {Symbol("txn-id"): client.begin_transaction()}
    fields = {"next_incoming_id": 0, "incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9}
    (heard,) = client.say(performative(spec.FLOW, handle=1, link_credit=1, properties=properties, **fields))
    assert (heard.name, condition(heard)) == ("detach", "amqp:not-implemented")
