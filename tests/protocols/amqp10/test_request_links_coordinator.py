"""Coordinator links: attach, credit, declare, discharge, and refusals."""

from __future__ import annotations

import pytest

from penstock.protocols.amqp10 import request_links, transactions
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import accepted, condition, data_section, names, performative
from tests.support.amqp10_transactions import COORDINATOR, TransactionalPeer, state_of, value_section


def test_attach_of_a_coordinator_has_capabilities_and_grants_credit() -> None:
    attach, flow = TransactionalPeer().attached
    target = attach.performative.inner("target")
    assert target.code == spec.COORDINATOR
    assert target.texts("capabilities") == request_links.CAPABILITIES
    assert flow.name == "flow"


@pytest.fixture
def client() -> TransactionalPeer:
    return TransactionalPeer()


def test_transaction_ids_are_unique(client: TransactionalPeer) -> None:
    ids = {client.begin_transaction() for _ in range(5)}
    assert len(ids) == 5
    for txn_id in ids:
        (answer,) = client.discharge(txn_id)
        assert state_of(answer) == accepted()
        assert answer.field("settled")


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (value_section(composite(spec.DECLARE, global_id=b"xa")), "amqp:not-implemented"),
        (value_section(composite(spec.DISCHARGE, txn_id=b"none")), "amqp:transaction:unknown-id"),
        (value_section(composite(spec.ACCEPTED)), "amqp:invalid-field"),
        (data_section(b"declare"), "amqp:invalid-field"),
        (b"\x00\x53\x77\x00\x53\x32\x45", "amqp:invalid-field"),
        (b"\x00\x53\x77\xa1\x05ab", "amqp:decode-error"),
        (b"", "amqp:decode-error"),
    ],
)
def test_message_without_a_request_is_rejected_and_the_link_stays(message: bytes, expected: str) -> None:
    client = TransactionalPeer()
    heard = client.say(client.transfer(message, COORDINATOR))
    assert [condition(each) for each in heard if each.name != "flow"] == [expected]
    assert client.discharge(client.begin_transaction())[0].name == "disposition"


def test_request_may_come_with_other_sections_and_in_several_frames(client: TransactionalPeer) -> None:
    message = b"\x00\x53\x70\x45" + value_section(composite(spec.DECLARE))
    first = client.transfer(message[:6], COORDINATOR, more=True)
    rest = performative(spec.TRANSFER, 0, message[6:], handle=COORDINATOR)
    heard = client.say(first, rest)
    assert [state_of(each).code for each in heard] == [spec.DECLARED]


def test_aborted_request_leaves_no_trace(client: TransactionalPeer) -> None:
    first = client.transfer(value_section(composite(spec.DECLARE)), COORDINATOR, more=True)
    assert client.say(first, performative(spec.TRANSFER, handle=COORDINATOR, aborted=True)) == []
    client.begin_transaction()


def test_descriptor_may_be_a_symbol() -> None:
    name = b"amqp:declare:list"
    client = TransactionalPeer()
    (heard,) = client.say(
        client.transfer(b"\x00\x53\x77\x00\xa3" + bytes([len(name)]) + name + b"\xc0\x02\x01\x40", COORDINATOR)
    )
    assert state_of(heard).code == spec.DECLARED


def test_settled_request_detaches_the_link(client: TransactionalPeer) -> None:
    (detach,) = client.ask(composite(spec.DECLARE), settled=True)
    assert (detach.name, condition(detach)) == ("detach", "amqp:not-allowed")


def test_large_request_detaches_the_link(client: TransactionalPeer) -> None:
    (detach,) = client.say(client.transfer(data_section(bytes(5000)), COORDINATOR))
    assert (detach.name, condition(detach)) == ("detach", "amqp:link:message-size-exceeded")


def test_peer_that_does_not_know_rejected_is_detached() -> None:
    source = composite(spec.SOURCE, outcomes=["amqp:accepted:list"])
    client = TransactionalPeer(source=source)
    txn_id = client.begin_transaction()
    (detach,) = client.discharge(b"none")
    assert (detach.name, condition(detach)) == ("detach", "amqp:transaction:unknown-id")
    client.detach(COORDINATOR)
    client.attach_coordinator(7)
    assert condition(client.discharge(txn_id, handle=7)[0]) == "amqp:transaction:unknown-id"


def test_declare_beyond_the_most_is_rejected(monkeypatch: pytest.MonkeyPatch, client: TransactionalPeer) -> None:
    ids = [client.begin_transaction() for _ in range(transactions.TRANSACTIONS_MAX)]
    (rejected,) = client.ask(composite(spec.DECLARE))
    assert condition(rejected) == "amqp:resource-limit-exceeded"
    client.discharge(ids[0])
    client.begin_transaction()


def test_coordinator_is_not_suspended_but_ends_with_the_transactions(client: TransactionalPeer) -> None:
    txn_id = client.begin_transaction()
    (detach,) = client.detach(COORDINATOR, closed=False)
    assert (detach.name, detach.field("closed")) == ("detach", False)
    client.attach_coordinator(COORDINATOR)
    assert condition(client.discharge(txn_id)[0]) == "amqp:transaction:unknown-id"


def test_coordinator_attached_again_elsewhere_is_stolen() -> None:
    client = TransactionalPeer(name="control")
    txn_id = client.begin_transaction()
    client.begin(1)
    heard = client.attach_coordinator(7, 1, name="control")
    assert [(each.channel, condition(each)) for each in heard if each.name == "detach"] == [(0, "amqp:link:stolen")]
    client._next_id = 0
    assert condition(client.discharge(txn_id, handle=7, channel=1)[0]) == "amqp:transaction:unknown-id"
    client.begin_transaction(7, 1)


def test_second_discharge_of_a_transaction_names_an_unknown_transaction(client: TransactionalPeer) -> None:
    txn_id = client.begin_transaction()
    client.discharge(txn_id, fail=True)
    assert condition(client.discharge(txn_id)[0]) == "amqp:transaction:unknown-id"


def test_discharge_on_another_coordinator_link_names_an_unknown_transaction(client: TransactionalPeer) -> None:
    client.attach_coordinator(7)
    txn_id = client.begin_transaction()
    assert condition(client.discharge(txn_id, handle=7)[0]) == "amqp:transaction:unknown-id"
    assert state_of(client.discharge(txn_id)[0]) == accepted()


def test_held_commit_is_rejected_with_gate_and_time_at_the_deadline() -> None:
    client = TransactionalPeer().declare("q", capacity_messages=1, hold_deadline=1.0)
    client.attach_sender("/queues/q")
    client.driver.begin(100.0)
    client.say(client.transfer(data_section(b"x")))
    txn_id = client.begin_transaction()
    client.say(client.post(txn_id))
    assert client.discharge(txn_id) == []
    assert names(client.ask(composite(spec.DECLARE))) == ["disposition"], "a held commit blocks no other transaction"
    rejected = next(each for each in client.listen(102.0) if condition(each))
    assert condition(rejected) == "amqp:transaction:rollback"
    error = state_of(rejected).inner("error")
    assert {str(key) for key in error.mapping("info")} == {"reason", "gate", "retry-after"}
    assert client.depth("q") == 1
