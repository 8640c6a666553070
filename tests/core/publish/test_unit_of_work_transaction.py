"""Transactions, all or nothing: pending work, and the conditions of a commit."""

from __future__ import annotations

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.effects import Returned
from penstock.errors import ContentTooLarge, NotFound, PreconditionFailed, ResourceError
from penstock.flow.work import AT_ONCE
from tests.support.broker_fixture import House
from tests.support.transaction_client import Client, traces


def returned(house: House) -> list[str]:
    return [e.route.envelope.routing_key for e in house.broker.effects() if isinstance(e, Returned)]


# Pending work


def test_transaction_publishes_no_message_before_the_commit_and_all_in_order_then(house: House, client: Client) -> None:
    house.queue("a", "b")
    client.publish("a", 1, 2)
    client.publish("b", 3)
    client.publish("a", 4)
    assert (house.depth("a"), house.depth("b")) == (0, 0)
    assert (client.producer.hold_budget.messages, client.producer.hold_budget.bytes) == (4, 10)
    assert client.commit()
    assert [int(message.charge) for message in house.vhost.queues["a"].ready_queue.ready] == [1, 2, 4]
    assert house.depth("b") == 1
    assert client.producer.hold_budget.messages == 0


def test_rollback_drops_publishes_and_leaves_deliveries_unacknowledged(house: House, client: Client) -> None:
    house.queue("a")
    house.publish_now("a", 5)
    tag = client.get("a")
    client.ack(tag)
    client.publish("a", 7)
    client.transaction.rollback()
    assert client.told() == 1
    assert house.depth("a") == 1
    assert house.vhost.queues["a"].available() == 0, "it is not delivered again by itself"
    assert client.producer.hold_budget.bytes == 0
    client.ack(tag)
    assert client.commit()
    assert house.depth("a") == 0


def test_acknowledgements_count_in_the_depth_and_the_prefetch_until_the_commit(house: House, client: Client) -> None:
    house.queue("a")
    client.session.credit.window = 2
    house.publish_now("a", 5, count=3)
    consumer = Consumer("c", client.session, house.vhost.queues["a"], False, False, 0)
    batch = client.session.take_batch(consumer, 2, house.broker.now)
    client.ack(int(batch.last()), multiple=True)
    assert (house.depth("a"), client.session.credit.left()) == (3, 0)
    assert client.commit()
    assert (house.depth("a"), client.session.credit.left()) == (1, 2)


def test_delivery_in_a_transaction_is_settled_once_and_an_unknown_tag_refused(house: House, client: Client) -> None:
    house.queue("a")
    for _ in range(4):
        house.publish_now("a", 5)
        client.get("a")
    client.ack(2)
    for tag, multiple in ((2, False), (5, False), (5, True), (0, False), (-1, False), (-1, True)):
        with pytest.raises(PreconditionFailed, match=f"unknown delivery tag {tag}"):
            client.ack(tag, multiple)
    client.ack(3, multiple=True)
    for tag, multiple in ((3, True), (1, False)):
        with pytest.raises(PreconditionFailed, match=f"unknown delivery tag {tag}"):
            client.discard(tag, multiple)
    client.requeue(0, multiple=True)
    client.ack(0, multiple=True)  # All there are: none.
    assert client.commit()
    queue = house.vhost.queues["a"]
    assert (house.depth("a"), queue.available(), client.session.unsettled.count()) == (1, 1, 0)


def test_rejected_delivery_leaves_and_a_requeued_delivery_returns_at_the_commit(house: House, client: Client) -> None:
    house.queue("a")
    house.publish_now("a", 5, count=3)
    client.discard(client.get("a"))
    client.requeue(client.get("a"))
    assert house.vhost.queues["a"].available() == 1
    assert client.commit()
    assert house.vhost.queues["a"].available() == 2
    assert int(house.vhost.queues["a"].ready_queue.pull().sequence) == 2


def test_recover_requeues_deliveries_not_settled_by_the_transaction(house: House, client: Client) -> None:
    house.queue("a")
    for _ in range(3):
        house.publish_now("a", 5)
        client.get("a")
    client.ack(2)
    client.transaction.recover()
    assert (house.vhost.queues["a"].available(), client.session.unsettled.count()) == (2, 1)
    assert client.commit()
    assert house.depth("a") == 2


def test_recover_of_very_many_requeues_a_part_in_each_turn(house: House, client: Client) -> None:
    house.queue("a")
    many = int(AT_ONCE) + 500
    house.publish_now("a", 5, count=many + 1)
    for _ in range(many + 1):
        client.get("a")
    client.ack(2)
    client.transaction.recover()
    queue = house.vhost.queues["a"]
    assert client.session.unsettled.count() == 1
    assert int(queue.unacked_messages) == 501
    while house.broker.turns.chores.pending():
        house.broker.turns.chores.run(house.broker.now)
    assert (int(queue.unacked_messages), queue.available()) == (1, many)


def test_publish_beyond_the_bound_of_a_transaction_ends_the_session(house: House) -> None:
    house.queue("a")
    client = Client(house, "tx", bound=100)
    client.publish("a", 500)
    assert client.producer.closing is None, "one message may always be kept"
    client.publish("a", 1)
    assert isinstance(client.producer.closing, ResourceError)
    assert "1 publishes (500 bytes) are held for this connection" in str(client.producer.closing)
    assert not client.commit()
    client.end()
    assert house.depth("a") == 0
    assert traces(house, client) == []


def test_message_that_can_never_fit_is_refused_at_the_publish(house: House, client: Client) -> None:
    house.queue("a", capacity_bytes=100)
    client.publish("a", 50, 101, 20)
    assert isinstance(client.producer.closing, ContentTooLarge)
    assert not client.commit()
    assert house.depth("a") == 0
    with pytest.raises(NotFound):
        client.publish("k", 1, exchange="gone")


# Conditions of a commit


def test_commit_waits_until_there_is_room_for_the_whole_commit(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=5, resume_messages=4)
    house.queue("b", capacity_messages=5)
    house.publish_now("a", 10, count=3)
    client.publish("b", 10, 10)
    client.publish("a", 10, 10, 10)
    assert not client.commit()
    assert (house.depth("a"), house.depth("b")) == (3, 0)
    assert client.producer.gates
    house.take("a")
    assert (house.depth("a"), house.depth("b")) == (5, 2)
    assert client.told() == 0, "the gate is closed: the answer is withheld"
    house.take("a")
    assert client.told() == 1
    assert not client.producer.gates


def test_commit_that_frees_as_much_as_added_is_stopped_by_no_depth(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=3, hold_deadline=0)
    house.publish_now("a", 10, count=3)
    other = house.published("other", "a", 10)
    assert len(other.outbox) == 1
    for _ in range(5):
        tags = [client.get("a") for _ in range(3)]
        client.ack(tags[-1], multiple=True)
        client.publish("a", 10, 10, 10)
        assert client.commit(), "it brings no more than it frees, and its answer is not withheld"
        assert house.depth("a") == 3
    assert len(other.outbox) == 1


def test_commit_that_frees_as_many_bytes_as_added_passes(house: House, client: Client) -> None:
    house.queue("a", capacity_bytes=100)
    house.publish_now("a", 60)
    house.publish_now("a", 40)
    client.ack(client.get("a"))
    client.publish("a", 20, 20, 20)
    assert client.commit()
    assert int(house.vhost.queues["a"].bytes) == 100
    client.ack(client.get("a"))
    client.publish("a", 41)
    assert not client.commit(), "one byte more than it frees"


def test_requeued_delivery_frees_no_room_for_a_commit(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=1)
    house.publish_now("a", 10)
    client.requeue(client.get("a"))
    client.publish("a", 10)
    assert not client.commit()
    assert house.vhost.queues["a"].available() == 0


def test_acknowledgements_alone_do_not_wait(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=1)
    house.publish_now("a", 10)
    house.publish(house.producer("other"), "a", 10)
    house.broker.gates.block("user", "", "alice", "")
    client.ack(client.get("a"))
    assert client.commit()


def test_transaction_that_can_never_fit_is_refused_at_once(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=3)
    house.queue("b")
    client.publish("b", 1)
    client.publish("a", 1, 1, 1, 1)
    assert not client.commit()
    error = client.producer.closing
    assert isinstance(error, ContentTooLarge)
    assert str(error) == (
        "a transaction that brings 4 messages, 4 bytes can never fit into queue 'a' with its capacity of 3 messages; "
        "it was rolled back"
    )
    assert (house.depth("a"), house.depth("b")) == (0, 0)
    client.end()
    assert traces(house, client) == []


def test_held_commit_that_can_no_longer_fit_is_refused(house: House, client: Client) -> None:
    house.set("queue", "a", capacity_messages=3)
    house.queue("a")
    house.publish_now("a", 1)
    client.publish("a", 1, 1, 1)
    assert not client.commit()
    house.set("queue", "a", capacity_messages=2)
    house.take("a")
    assert isinstance(client.producer.closing, ContentTooLarge)
    assert house.depth("a") == 0


@pytest.mark.parametrize("policy", ["reject", "drop-new", "ring-strict", "self-destruct"])
def test_overflow_policy_that_refuses_a_publish_refuses_the_whole_commit(
    house: House, client: Client, policy: str
) -> None:
    house.queue("a", capacity_messages=2, overflow=policy)
    house.queue("b")
    house.publish_now("a", 1, count=2)
    reader = Client(house, "reader")
    reader.get("a")
    client.publish("b", 1)
    client.publish("a", 1)
    assert not client.commit()
    assert isinstance(client.producer.closing, ResourceError)
    assert "commit refused and rolled back; queue 'a' holds 2 messages" in str(client.producer.closing)
    assert house.depth("b") == 0
    assert ("a" in house.vhost.queues) == (policy != "self-destruct")


@pytest.mark.parametrize("policy", ["reject", "drop-new", "ring-strict", "drop-head"])
def test_overflow_policy_counts_the_settlements_of_a_commit_as_done(house: House, client: Client, policy: str) -> None:
    house.queue("a", capacity_messages=2, overflow=policy)
    house.publish_now("a", 1, count=2)
    client.get("a")
    client.ack(client.get("a"), multiple=True)
    client.publish("a", 1, 1)
    assert client.commit()
    assert house.depth("a") == 2


def test_drop_head_makes_room_and_keeps_the_last(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=3, overflow="drop-head")
    house.publish_now("a", 9)
    client.publish("a", 1, 2, 3, 4, 5)
    assert client.commit()
    assert [int(message.charge) for message in house.vhost.queues["a"].ready_queue.ready] == [3, 4, 5]
    client.get("a")
    client.get("a")
    client.get("a")
    client.publish("a", 6)
    assert not client.commit(), "what is with a consumer cannot be dropped"
    assert client.producer.closing is not None


def test_deleted_queue_takes_no_publish_of_a_commit_and_mandatory_publishes_return(
    house: House, client: Client
) -> None:
    house.queue("a", "b")
    house.vhost.bind("amq.fanout", house.vhost.queues["a"], None, "", {})
    house.vhost.bind("amq.fanout", house.vhost.queues["b"], None, "", {})
    client.publish("a", 1, mandatory=True)
    client.publish("to both", 2, exchange="amq.fanout", mandatory=True)
    client.publish("nowhere", 3, mandatory=True)
    house.broker.delete_queue(house.vhost.queues["a"])
    assert returned(house) == []
    assert client.commit()
    assert returned(house) == ["a", "nowhere"]
    assert house.depth("b") == 1
