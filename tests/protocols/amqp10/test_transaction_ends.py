"""Ends of transactions: with their links, sessions and connections, by time, and without a trace."""

from __future__ import annotations

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.values import Symbol
from tests.support.amqp10_dialogue import Heard, accepted, condition, data_section, names, performative
from tests.support.amqp10_transactions import COORDINATOR, TransactionalPeer, consuming, peer, reserved, state_of
from tests.support.driven_connection import drain


def test_detach_of_the_coordinator_rolls_back() -> None:
    client = consuming(1)
    txn_id = client.begin_transaction()
    client.say(client.post(txn_id))
    client.retire(txn_id, 0, 0, settled=True)
    client.detach(COORDINATOR)
    assert (client.depth("q"), client.available(), reserved(client)) == (1, 1, 0)
    (heard,) = client.say(client.post(txn_id))
    assert condition(heard) == "amqp:transaction:unknown-id"


def test_detach_of_the_coordinator_drops_a_held_commit() -> None:
    client = peer(capacity_messages=1)
    client.say(client.transfer(data_section(b"x")))
    txn_id = client.begin_transaction()
    client.say(client.post(txn_id))
    assert client.discharge(txn_id) == []
    assert names(client.detach(COORDINATOR)) == ["detach"]
    client.attach_receiver("/queues/q", credit=1)
    client.settle(0, 0, accepted())
    assert (client.depth("q"), reserved(client)) == (0, 0)


def two_sessions(**fields: object) -> tuple[TransactionalPeer, bytes]:
    """A transaction of a coordinator on channel 1, in which channel 0 has published and settled."""
    client = consuming(1)
    client.begin(1)
    before = client._next_id
    client._next_id = 0
    client.attach_coordinator(COORDINATOR, 1, **fields)
    txn_id = client.begin_transaction(channel=1)
    client._next_id = before
    client.say(client.post(txn_id))
    client.retire(txn_id, 0, 0)
    client._next_id = 1
    return client, txn_id


def test_session_end_rolls_back_the_transactions() -> None:
    client, txn_id = two_sessions()
    assert client.connection.engine.session(0).in_transaction()  # type: ignore[union-attr]
    client.say(performative(spec.END, 0))
    assert (client.depth("q"), client.available(), reserved(client)) == (1, 1, 0)
    (answer,) = client.discharge(txn_id, channel=1)
    assert condition(answer) == "amqp:transaction:rollback"
    assert "has ended" in str(answer.field("state"))


def test_session_end_refuses_the_held_commit_of_a_joined_transaction() -> None:
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
    assert (client.depth("q"), client.available(), reserved(client)) == (1, 0, 0)
    client.settle(0, 0, accepted())
    assert client.depth("q") == 0


def test_end_of_the_connection_rolls_back() -> None:
    client, _ = two_sessions()
    client.say(performative(spec.CLOSE))
    assert (client.depth("q"), client.available()) == (1, 1)
    assert client.connection.is_closed()


def test_overdue_transaction_is_rolled_back_and_the_discharge_reports_the_rollback() -> None:
    client = consuming(2)
    client.connection.limits.change(transaction_timeout_s=60)
    client.driver.begin(100.0)
    txn_id = client.begin_transaction()
    client.say(client.post(txn_id))
    client.retire(txn_id, 0, 0, settled=True)
    client.retire(txn_id, 1, 1)
    client.listen(159.0)
    assert reserved(client) > 0
    client.listen(161.0)
    assert (reserved(client), client.available()) == (0, 1)
    client.retire(txn_id, 1, 1, settled=True)
    assert client.available() == 2, "nobody else will settle it"
    (answer,) = client.discharge(txn_id)
    assert condition(answer) == "amqp:transaction:timeout"
    assert client.depth("q") == 2


def test_transaction_without_a_message_is_never_overdue() -> None:
    client = peer()
    client.driver.begin(100.0)
    txn_id = client.begin_transaction()
    client.listen(101.0 + 10 * client.connection.limits.start.transaction_timeout_s)
    client.say(client.post(txn_id))
    assert state_of(client.discharge(txn_id)[0]) == accepted()
    assert client.depth("q") == 1


# The connection


def test_session_is_in_a_transaction_while_taking_part() -> None:
    client, txn_id = two_sessions()
    sessions = [client.connection.engine.session(number) for number in (0, 1)]
    assert [session.in_transaction() for session in sessions if session] == [True, True]
    client.discharge(txn_id, channel=1)
    assert (client.depth("q"), client.available()) == (1, 1), "what each session did is applied"
    assert [session.in_transaction() for session in sessions if session] == [True, True], "both have a coordinator"
    client._next_id = 100
    client.detach(COORDINATOR)
    client.detach(COORDINATOR, channel=1)
    assert [session.in_transaction() for session in sessions if session] == [False, False]
    assert int(client.connection.pausing.budget.bound) == client.connection.limits.hold_bytes


def test_connection_with_a_coordinator_is_not_paused_and_may_have_more_held() -> None:
    client = TransactionalPeer()
    assert not client.connection.publishes_only()
    assert int(client.connection.pausing.budget.bound) == client.connection.limits.transaction_bytes
    client.detach(COORDINATOR)
    assert int(client.connection.pausing.budget.bound) == client.connection.limits.hold_bytes


def test_transactions_that_ended_leave_no_state() -> None:
    client = consuming(50)
    for number in range(0, 50, 2):
        txn_id = client.begin_transaction()
        client.say(client.post(txn_id))
        client.retire(txn_id, number, number + 1)
        client.discharge(txn_id, fail=number % 4 == 0)
    session = client.connection.engine.session(0)
    assert (session.settler.retired, session.transactions) == ({}, 0)  # type: ignore[attr-defined]
    assert len(session.producers()) == 2, "one lane is enough for one transaction at a time"
    assert reserved(client) == 0


# Commits that may be repeated

RETRY = {"desired_capabilities": ["penstock:commit-retry"]}
ROOM_FOR_ONE = {"capacity_messages": 2, "stop_messages": 2, "resume_messages": 2, "hold_deadline": 5}


def refused(**fields: object) -> tuple[TransactionalPeer, bytes, list[Heard]]:
    """A peer whose commit of two messages and a settlement has been rejected, its transaction and the answers."""
    client = TransactionalPeer(**fields)
    client.driver.begin(100.0)
    client.declare("q", **ROOM_FOR_ONE)
    client.declare("source")
    client.attach_sender("/queues/q")
    client.attach_sender("/queues/source", 1)
    client.say(client.transfer(data_section(b"0")), client.transfer(data_section(b"1"), 1))
    client.attach_receiver("/queues/source", 2, credit=1)
    txn_id = client.begin_transaction()
    client.say(client.post(txn_id, b"a"), client.post(txn_id, b"b"))
    client.retire(txn_id, 0, 0)
    assert client.discharge(txn_id) == []
    return client, txn_id, [each for each in client.listen(105.1) if each.name == "disposition"]


def test_rejected_commit_leaves_the_transaction_open_for_a_link_that_asked() -> None:
    client, txn_id, (answer,) = refused(**RETRY)
    assert client.attached[0].performative.texts("offered_capabilities") == ["penstock:commit-retry"]
    error = state_of(answer).inner("error")
    assert error is not None
    assert (state_of(answer).code, condition(answer)) == (spec.REJECTED, "amqp:resource-limit-exceeded")
    assert "not rolled back; queue 'q' holds 1 message" in error.text("description")
    assert {Symbol("gate"), Symbol("reason"), Symbol("retry-after")} == set(error.mapping("info"))
    assert (client.depth("q"), client.depth("source")) == (1, 1)
    client.say(client.post(txn_id, b"never fits"))
    drain(client.driver, "q")
    client.vhost.queues["q"].purge(106.0)
    (rejected,) = client.discharge(txn_id)
    assert condition(rejected) == "amqp:transaction:rollback", "three never fit: that ends it"


def test_rejected_commit_is_discharged_again_and_applied_once() -> None:
    client, txn_id, _ = refused(**RETRY)
    assert client.discharge(txn_id) == []
    (again,) = [each for each in client.listen(110.3) if each.name == "disposition"]
    assert condition(again) == "amqp:resource-limit-exceeded", "it waited a whole deadline again"
    drain(client.driver, "q")
    answers = client.discharge(txn_id)
    assert accepted() in [state_of(each) for each in answers if each.field("role")]
    assert (client.depth("q"), client.depth("source"), reserved(client)) == (2, 0, 0)
    assert condition(client.discharge(txn_id)[0]) == "amqp:transaction:unknown-id"
    assert client.depth("q") == 2


def test_rejected_commit_may_be_rolled_back_by_a_discharge() -> None:
    client, txn_id, _ = refused(**RETRY)
    (answer,) = client.discharge(txn_id, fail=True)
    assert state_of(answer) == accepted()
    assert (client.depth("q"), client.depth("source"), reserved(client)) == (1, 1, 0)
    client.settle(0, 0, accepted(), True)
    assert client.depth("source") == 0, "the delivery is its receiver's again"


def test_rejected_commit_without_a_repetition_ends_at_the_timeout_or_with_the_link() -> None:
    client, txn_id, _ = refused(**RETRY)
    client.connection.limits.change(transaction_timeout_s=60)
    assert client.discharge(txn_id) == []
    client.listen(110.3)
    client.listen(169.0)
    assert reserved(client) > 0
    client.listen(171.0)
    assert reserved(client) == 0
    assert condition(client.discharge(txn_id)[0]) == "amqp:transaction:timeout"
    client, txn_id, _ = refused(**RETRY)
    client.detach(COORDINATOR)
    assert (reserved(client), client.depth("q"), client.depth("source")) == (0, 1, 1)


def test_rejected_commit_of_a_session_that_ends_in_that_turn_is_rolled_back() -> None:
    client, txn_id = two_sessions(**RETRY)
    client.driver.begin(100.0)
    client.declare("full", capacity_messages=1, hold_deadline=5)
    client.attach_sender("/queues/full", handle=3)
    before = client._next_id
    client._next_id = 2
    client.say(client.transfer(data_section(b"x"), handle=3), client.post(txn_id, handle=3))
    client._next_id = before
    assert client.discharge(txn_id, channel=1) == []
    client.driver.begin(105.1)
    client.driver.broker.timers.run(105.1)
    (answer,) = [each for each in client.say(performative(spec.END, 0)) if each.channel == 1]
    assert (condition(answer), "has ended" in str(answer.field("state"))) == ("amqp:transaction:rollback", True)
    assert (client.depth("q"), client.depth("full"), reserved(client)) == (1, 1, 0)


def test_rejected_commit_of_a_link_that_did_not_ask_ends_the_transaction() -> None:
    client, txn_id, (answer,) = refused()
    assert condition(answer) == "amqp:transaction:rollback"
    assert not client.attached[0].performative.texts("offered_capabilities")
    assert condition(client.discharge(txn_id)[0]) == "amqp:transaction:unknown-id"
    assert reserved(client) == 0
