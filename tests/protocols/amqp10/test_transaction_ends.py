"""Ends of transactions: of their links, sessions and connections, by time, and what they leave behind."""

from __future__ import annotations

from penstock.wire.amqp10 import spec
from tests.support.amqp10_dialogue import accepted, condition, data_section, names, performative
from tests.support.amqp10_transactions import (
    COORDINATOR,
    TransactionalPeer,
    consuming,
    peer,
    ready,
    reserved,
    state_of,
)


def test_detach_of_the_coordinator_rolls_back() -> None:
    client = consuming(1)
    txn_id = client.begin_transaction()
    client.say(client.post(txn_id))
    client.retire(txn_id, 0, 0, settled=True)
    client.say(performative(spec.DETACH, handle=COORDINATOR, closed=True))
    assert (client.depth("q"), ready(client), reserved(client)) == (1, 1, 0)
    (heard,) = client.say(client.post(txn_id))
    assert condition(heard) == "amqp:transaction:unknown-id"


def test_detach_of_the_coordinator_drops_a_held_commit() -> None:
    client = peer(capacity_messages=1)
    client.say(client.transfer(data_section(b"x")))
    txn_id = client.begin_transaction()
    client.say(client.post(txn_id))
    assert client.discharge(txn_id) == []
    assert names(client.say(performative(spec.DETACH, handle=COORDINATOR, closed=True))) == ["detach"]
    client.attach_receiver("/queues/q", credit=1)
    client.settle(0, 0, accepted())
    assert (client.depth("q"), reserved(client)) == (0, 0)


def two_sessions() -> tuple[TransactionalPeer, bytes]:
    """A transaction of a coordinator on channel 1, in which channel 0 has published and settled."""
    client = consuming(1)
    client.begin(1)
    before = client._next_id
    client._next_id = 0
    client.attach_coordinator(COORDINATOR, 1)
    txn_id = client.begin_transaction(channel=1)
    client._next_id = before
    client.say(client.post(txn_id))
    client.retire(txn_id, 0, 0)
    client._next_id = 1
    return client, txn_id


def test_end_of_a_session_rolls_back_what_it_took_part_in() -> None:
    client, txn_id = two_sessions()
    assert client.connection.engine.session(0).in_transaction()  # type: ignore[union-attr]
    client.say(performative(spec.END, 0))
    assert (client.depth("q"), ready(client), reserved(client)) == (1, 1, 0)
    (answer,) = client.discharge(txn_id, channel=1)
    assert condition(answer) == "amqp:transaction:rollback"
    assert "has ended" in str(answer.field("state"))


def test_end_of_a_session_refuses_the_held_commit_that_it_took_part_in() -> None:
    client, txn_id = two_sessions()
    client.declare("full", capacity_messages=1)
    client.attach_sender("/queues/full", handle=3)
    before = client._next_id
    client._next_id = 2
    client.say(client.transfer(data_section(b"x"), handle=3), client.post(txn_id, handle=3))
    client._next_id = before
    assert client.discharge(txn_id, channel=1) == []
    heard = client.say(performative(spec.END, 0))
    assert [condition(each) for each in heard if each.channel == 1] == ["amqp:transaction:rollback"]
    assert (client.depth("q"), client.depth("full"), reserved(client)) == (1, 1, 0)


def test_end_of_the_coordinators_session_rolls_back() -> None:
    client, _ = two_sessions()
    client.say(performative(spec.END, 1))
    assert (client.depth("q"), ready(client), reserved(client)) == (1, 0, 0)
    client.settle(0, 0, accepted())
    assert client.depth("q") == 0


def test_end_of_the_connection_rolls_back() -> None:
    client, _ = two_sessions()
    client.say(performative(spec.CLOSE))
    assert (client.depth("q"), ready(client)) == (1, 1)
    assert client.connection.is_closed()


def test_overdue_transaction_is_rolled_back_and_its_discharge_says_so() -> None:
    client = consuming(2)
    client.connection.limits.transaction_timeout_s = 60.0
    client.driver.begin(100.0)
    txn_id = client.begin_transaction()
    client.say(client.post(txn_id))
    client.retire(txn_id, 0, 0, settled=True)
    client.retire(txn_id, 1, 1)
    client.listen(159.0)
    assert reserved(client) > 0
    client.listen(161.0)
    assert (reserved(client), ready(client)) == (0, 1)
    client.retire(txn_id, 1, 1, settled=True)
    assert ready(client) == 2, "nobody else will settle it"
    (answer,) = client.discharge(txn_id)
    assert condition(answer) == "amqp:transaction:timeout"
    assert client.depth("q") == 2


def test_transaction_without_a_message_is_never_overdue() -> None:
    client = peer()
    client.driver.begin(100.0)
    txn_id = client.begin_transaction()
    client.listen(101.0 + 10 * client.connection.limits.transaction_timeout_s)
    client.say(client.post(txn_id))
    assert state_of(client.discharge(txn_id)[0]) == accepted()
    assert client.depth("q") == 1


# The connection


def test_session_is_in_a_transaction_while_it_takes_part() -> None:
    client, txn_id = two_sessions()
    sessions = [client.connection.engine.session(number) for number in (0, 1)]
    assert [session.in_transaction() for session in sessions if session] == [True, True]
    client.discharge(txn_id, channel=1)
    assert [session.in_transaction() for session in sessions if session] == [True, True], "both have a coordinator"
    client._next_id = 100
    client.say(performative(spec.DETACH, handle=COORDINATOR, closed=True))
    client.say(performative(spec.DETACH, 1, handle=COORDINATOR, closed=True))
    assert [session.in_transaction() for session in sessions if session] == [False, False]
    assert int(client.connection.pausing.budget.bound) == client.connection.limits.hold_bytes


def test_connection_with_a_coordinator_is_not_paused_and_may_have_more_held() -> None:
    client = TransactionalPeer()
    assert not client.connection.publishes_only()
    assert int(client.connection.pausing.budget.bound) == client.connection.limits.transaction_bytes
    client.say(performative(spec.DETACH, handle=COORDINATOR, closed=True))
    assert int(client.connection.pausing.budget.bound) == client.connection.limits.hold_bytes


def test_nothing_is_left_behind() -> None:
    client = consuming(50)
    for number in range(0, 50, 2):
        txn_id = client.begin_transaction()
        client.say(client.post(txn_id))
        client.retire(txn_id, number, number + 1)
        client.discharge(txn_id, fail=number % 4 == 0)
    session = client.connection.engine.session(0)
    assert session is not None
    assert (session.settler.retired, session.transactions) == ({}, 0)  # type: ignore[attr-defined]
    assert len(session.producers()) == 2, "one lane is enough for one transaction at a time"
    assert reserved(client) == 0
