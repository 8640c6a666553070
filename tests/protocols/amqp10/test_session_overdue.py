"""The broker ends a receiver's link: a delivery is overdue, the consumer is slow, or its queue is gone.

Only that link ends, with a reason of its own, and its deliveries return.
"""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.values import Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, accepted, condition, names, transfers
from tests.support.amqp10_transactions import TransactionalPeer
from tests.support.driven_connection import make_driver

TIMEOUT_S = 10.0
TERMS: dict[str, dict[str, object]] = {
    "plain": {},
    "default outcome accepted": {"default_outcome": composite(spec.ACCEPTED)},
    "durable": {"durable": 2, "expiry_policy": "never", "timeout": 600},
}


def two_receivers(source: dict[str, object] | None = None) -> Amqp10Dialogue:
    """A session with receivers of two queues and a sender; one delivery of q at 100.0 s, and one of r at 105.0 s."""
    driver = make_driver()
    driver.begin(100.0)
    client = Amqp10Dialogue(driver, idle_time_out=None)
    client.declare("q", consumer_timeout=int(TIMEOUT_S * 1000)).declare("r", consumer_timeout=int(TIMEOUT_S * 1000))
    client.attach_sender("/queues/q", 0)
    client.attach_sender("/queues/r", 5)
    client.put(b"1", settled=True)
    heard = client.attach_receiver(
        None, 1, credit=10, source=composite(spec.SOURCE, address="/queues/q", **(source or {}))
    )
    assert len(transfers(heard)) == 1
    client.listen(105.0)
    client.attach_receiver("/queues/r", 2, credit=10)
    assert len(transfers(client.put(b"2", handle=5, settled=True))) == 1
    return client


def only(heard: list[Heard]) -> Heard:
    (one,) = heard
    return one


@pytest.mark.parametrize("terms", TERMS)
def test_overdue_delivery_detaches_only_the_link(terms: str) -> None:
    client = two_receivers(TERMS[terms])
    assert client.listen(109.9) == []
    detached = only(client.listen(110.0))
    assert (detached.name, detached.field("handle"), condition(detached)) == ("detach", 1, "amqp:precondition-failed")
    assert "10000 ms" in str(detached.field("error"))
    assert (client.available("q"), client.available("r")) == (1, 0)
    message = client.vhost.queues["q"].ready_queue.next()
    assert message is not None
    assert message.failures == 1
    assert client.settle(0, 0, accepted()) == [], "the late outcome is ignored"
    assert (client.depth("q"), client.depth("r")) == (1, 1)
    client.settle(1, 1, accepted())
    assert client.depth("r") == 0, "the other link goes on"
    client.detach(1)
    assert len(transfers(client.attach_receiver("/queues/q", 1, credit=10))) == 1


@pytest.mark.parametrize(
    ("own_ms", "words"),
    [(4_000, "4000 ms of its own consumer-timeout"), (60_000, "10000 ms of the consumer-timeout of queue 'q'")],
)
def test_detach_for_an_overdue_delivery_names_the_timeout_that_counts(own_ms: int, words: str) -> None:
    client = Amqp10Dialogue(make_driver(), idle_time_out=None)
    client.driver.begin(100.0)
    client.declare("q", consumer_timeout=int(TIMEOUT_S * 1000)).attach_sender("/queues/q")
    client.put(b"1", settled=True)
    client.attach_receiver("/queues/q", 1, credit=1, properties={Symbol("consumer-timeout"): own_ms})
    due_s = min(own_ms / 1000, TIMEOUT_S)
    assert client.listen(100.0 + due_s - 0.1) == []
    detached = only(client.listen(100.0 + due_s))
    assert words in str(detached.field("error"))
    assert client.available("q") == 1


def test_links_are_detached_singly_as_deliveries_become_overdue() -> None:
    client = two_receivers()
    heard = client.listen(116.0) + client.listen(116.1)
    assert [each.field("handle") for each in heard] == [1, 2]
    assert names(client.put(b"3")) == ["disposition"], "the sender of the session goes on"


def test_settled_delivery_is_never_overdue() -> None:
    client = two_receivers()
    client.settle(0, 1, accepted())
    assert client.listen(200.0) == []


def test_delivery_of_a_detached_link_returns_when_overdue() -> None:
    client = two_receivers({"expiry_policy": "session-end"})
    assert names(client.detach(1, closed=False)) == ["detach"]
    assert client.available("q") == 0
    client.listen(110.0)
    assert client.available("q") == 1
    assert names(client.put(b"3")) == ["disposition"]


def test_overdue_delivery_settled_by_a_transaction_stays_until_the_transaction_ends() -> None:
    client = TransactionalPeer()
    client.driver.begin(100.0)
    client.declare("q", consumer_timeout=int(TIMEOUT_S * 1000))
    client.attach_sender("/queues/q")
    client.put(b"1", b"2", settled=True)
    client.attach_receiver("/queues/q", 1, credit=10)
    txn = client.begin_transaction()
    client.retire(txn, 0, 0)
    (detached,) = client.listen(110.0)
    assert detached.name == "detach"
    assert client.listen(111.0) == []
    client.discharge(txn)
    assert client.depth("q") == 1


SLOW = {"slow_consumer_rate": 50, "slow_consumer_period": 1, "slow_consumer_policy": "cancel"}


def test_slow_consumer_is_detached_with_the_rate_and_the_least_rate() -> None:
    driver = make_driver()
    driver.begin(100.0)
    client = Amqp10Dialogue(driver).declare("q", **SLOW)
    client.attach_sender("/queues/q")
    client.put(b"1", b"2", b"3", settled=True)
    client.attach_receiver("/queues/q", 1, credit=1)
    heard = client.listen(101.0) + client.listen(102.0)
    detached = only([each for each in heard if each.name == "detach"])
    assert condition(detached) == "amqp:link:detach-forced"
    assert "slow-consumer-rate is 50" in str(detached.field("error"))
    assert client.available("q") == 3


def test_consumer_of_a_deleted_queue_is_detached_with_the_name_of_the_queue() -> None:
    client = two_receivers()
    client.driver.broker.delete_queue(client.vhost.queues["q"])
    heard = client.listen()
    assert [condition(each) for each in heard] == ["amqp:resource-deleted"] * 2, "sender and receiver"
    detached = only([each for each in heard if each.field("handle") == 1])
    assert "queue 'q' was deleted" in str(detached.field("error"))
