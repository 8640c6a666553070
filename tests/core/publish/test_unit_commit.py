"""How a commit waits, in turn and until its deadline, and which gates besides the queues' own stop it."""

from __future__ import annotations

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.effects import CloseSession
from penstock.core.publish.producer_state import ProducerState
from penstock.core.settings import changes
from penstock.errors import ResourceError
from penstock.setting_names import read_settings
from tests.support.broker_fixture import House, told
from tests.support.transaction_client import Client, traces


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def client(house: House) -> Client:
    return Client(house, "tx")


# How it waits and how it ends


def test_a_commit_stands_in_line_and_nobody_passes_whom_it_waits_behind(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=4, resume_messages=3)
    for _ in range(4):
        house.publish_now("a", 1)
    before, after = house.producer("before"), house.producer("after")
    house.publish(before, "a", 10)
    client.publish("a", 20, 20)
    assert not client.commit()
    house.publish(after, "a", 30)
    for _ in range(6):
        house.take("a")
    house.take("a")
    assert [int(m.charge) for m in house.vhost.queues["a"].ready_queue.ready] == [30]
    assert client.told() == 1
    assert told(after) == [(1, 1, True)]


def test_between_stop_and_capacity_it_goes_in_and_its_answer_is_withheld(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=9, stop_messages=2, resume_messages=1)
    client.publish("a", 1, 1, 1)
    assert not client.commit()
    assert house.depth("a") == 3
    house.take("a")
    assert client.told() == 0
    house.take("a")
    assert client.told() == 1
    client.publish("a", 1, 1, 1)
    assert not client.commit()
    house.later(31)
    assert client.told() == 2, "it is in the queue: at the deadline it is answered"
    assert client.producer.closing is None


def test_a_commit_that_finds_no_room_until_its_deadline_is_rolled_back(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=3, hold_deadline=5)
    for _ in range(3):
        house.publish_now("a", 10)
    tag = client.get("a")
    client.ack(tag)
    client.publish("a", 10, 10)
    assert not client.commit()
    client.publish("a", 10)
    house.later(4.9)
    assert client.producer.closing is None
    house.later(0.2)
    refused = [effect.error for effect in house.broker.effects() if isinstance(effect, CloseSession)]
    assert [str(error) for error in refused] == [
        "commit refused after its hold deadline of 5 s and rolled back; queue 'a' holds 3 messages, 30 bytes, of a "
        "capacity of 3 messages; the transaction adds 1 message, 10 bytes"
    ]
    assert isinstance(refused[0], ResourceError)
    assert client.session.unsettled.count() == 1
    client.end()
    assert traces(house, client) == []
    assert house.vhost.queues["a"].available() == 3


def test_what_follows_a_held_commit_is_the_next_transaction_and_answered_in_order(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=2)
    house.queue("b")
    house.publish_now("a", 1)
    client.publish("a", 1, 1)
    assert not client.commit()
    client.publish("b", 1)
    assert not client.commit(), "it stands behind"
    client.publish("b", 1)
    client.transaction.rollback()
    assert client.told() == 0
    client.publish("b", 1)
    assert (house.depth("b"), client.producer.hold_budget.messages) == (0, 4)
    house.take("a")
    assert (house.depth("a"), house.depth("b")) == (2, 1)
    house.take("a")
    assert client.told() == 3
    assert client.commit()
    assert house.depth("b") == 2


def test_what_was_published_before_tx_select_stays_in_line_and_goes_first(house: House) -> None:
    house.queue("a", capacity_messages=1)
    house.publish_now("a", 1)
    client = Client(house, "tx")
    plain = house.producer("plain", confirming=False)
    house.publish(plain, "a", 2)
    session = Client(house, "other").session
    transaction = type(client.transaction)(session, plain)
    house.publish(plain, "a", 3)
    transaction.commit()
    assert house.depth("a") == 1
    house.take("a")
    assert [int(m.charge) for m in house.vhost.queues["a"].ready_queue.ready] == [2]
    transaction.end()
    plain.close_gracefully()
    house.take("a")
    assert house.depth("a") == 0, "the held commit was rolled back"
    assert (plain.hold_budget.messages, plain.gate) == (0, None)


def test_saying_goodbye_rolls_back_commits_and_keeps_what_was_published_before(house: House) -> None:
    house.queue("a", capacity_messages=1)
    house.publish_now("a", 1)
    plain = house.producer("plain", confirming=False)
    house.publish(plain, "a", 2)
    client = Client(house, "other")
    transaction = type(client.transaction)(client.session, plain)
    house.publish(plain, "a", 3)
    transaction.commit()
    transaction.end()
    plain.close_gracefully()
    assert plain.state is ProducerState.LINGERING
    house.take("a")
    assert [int(m.charge) for m in house.vhost.queues["a"].ready_queue.ready] == [2]
    house.take("a")
    assert (house.depth("a"), house.broker.closed_session_budget.messages) == (0, 0)


@pytest.mark.parametrize("graceful", [True, False])
def test_a_session_that_goes_with_a_held_commit_leaves_no_trace(house: House, client: Client, graceful: bool) -> None:
    house.queue("a", capacity_messages=2)
    for _ in range(2):
        house.publish_now("a", 1)
    waiting = house.producer("waiting")
    client.ack(client.get("a"))
    client.publish("a", 1, 1)
    assert not client.commit()
    house.publish(waiting, "a", 1)
    client.publish("a", 1)
    if graceful:
        client.end()
    else:
        client.transaction.end()
        house.broker.end_session(client.session)
        client.producer.abort()
    house.take("a")
    house.take("a")
    assert house.depth("a") == 1
    assert told(waiting) == [(1, 1, True)]
    assert traces(house, client) == []


def test_the_end_of_a_session_does_not_let_its_own_commit_in(house: House, client: Client) -> None:
    """Its consumer was the last of an auto-delete queue: the commit that waited for that queue must be gone first."""
    queue = house.vhost.declare_queue("a", {"capacity-messages": 1}, False, True, None, None)
    house.queue("b")
    house.publish_now("a", 1)
    house.broker.consume(client.session, Consumer("c", client.session, queue, False, False, 0))
    client.publish("a", 1)
    client.publish("b", 1)
    assert not client.commit()
    client.end()
    assert queue.deleted
    assert house.depth("b") == 0
    assert traces(house, client) == []


def test_the_deletion_of_the_queue_that_was_full_lets_the_commit_go_on(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=1)
    house.queue("b")
    house.publish_now("a", 1)
    client.publish("a", 1)
    client.publish("b", 1)
    assert not client.commit()
    house.broker.delete_queue(house.vhost.queues["a"])
    house.broker.run(1000)
    assert client.told() == 1
    assert house.depth("b") == 1


# Other gates


def test_the_sum_of_a_virtual_host_is_for_the_whole_commit(house: House, client: Client) -> None:
    house.queue("a")
    house.queue("b")
    changes.set_settings(house.broker, "vhost", "#", read_settings("vhost", "#", {"capacity-bytes": 1000}))
    for _ in range(9):
        house.publish_now("a", 100)
    client.publish("a", 100)
    client.publish("b", 100)
    assert not client.commit()
    assert house.depth("b") == 0
    client.transaction.end()
    swap = Client(house, "swap")
    swap.get("a")
    swap.ack(swap.get("a"), multiple=True)
    swap.publish("b", 100, 100)
    assert swap.commit(), "what it takes from one queue it may bring to another of the same host"
    big = Client(house, "big")
    big.publish("a", 600)
    big.publish("b", 600)
    assert not big.commit()
    assert "never fit into vhost '/'" in str(big.producer.closing)


def test_the_depth_of_an_address_counts_a_message_once_and_what_the_commit_frees(house: House, client: Client) -> None:
    for name in ("a", "b"):
        house.queue(name)
        house.vhost.bind("amq.fanout", house.vhost.queues[name], None, "", {})
    changes.set_settings(house.broker, "address", "amq.fanout", read_settings("address", "#", {"capacity-messages": 2}))
    client.publish("k", 10, 10, exchange="amq.fanout")
    assert not client.commit()
    assert house.depth("a") == 2
    next_one = Client(house, "next")
    next_one.publish("k", 10, exchange="amq.fanout")
    assert not next_one.commit()
    assert len(next_one.producer.outbox) == 1
    next_one.end()
    swap = Client(house, "swap")
    swap.ack(swap.get("a"))
    swap.ack(swap.get("b"))
    swap.publish("k", 10, exchange="amq.fanout")
    assert swap.commit(), "both copies of a message leave, one message comes"
    half = Client(house, "half")
    half.ack(half.get("a"))
    half.publish("k", 10, exchange="amq.fanout")
    assert not half.commit(), "the other copy stays"


def test_an_operators_gate_holds_a_commit_with_publishes(house: House, client: Client) -> None:
    house.queue("a")
    house.publish_now("a", 1)
    house.broker.gates.block("queue", "/", "a", "stocktaking")
    client.ack(client.get("a"))
    client.publish("a", 1)
    assert not client.commit()
    assert house.depth("a") == 1
    house.broker.gates.unblock("queue", "/", "a")
    house.broker.run(1000)
    assert client.told() == 1
    assert house.vhost.queues["a"].unacked_messages == 0


def test_a_rate_counts_every_message_of_a_commit(house: House, client: Client) -> None:
    house.queue("a")
    limits = read_settings("user", "alice", {"rate-messages": 10, "burst-messages": 2})
    changes.set_settings(house.broker, "user", "alice", limits)
    client.publish("a", *[1] * 12)
    assert client.commit(), "what is larger than the burst passes and leaves a debt"
    client.publish("a", 1)
    assert not client.commit()
    house.later(1.0)
    assert client.told() == 1
    house.later(0.2)
    assert client.told() == 2
