"""Waiting commits: their turn, their deadline, and the gates that stop them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.consume.consumer import Consumer
from penstock.core.effects import CloseSession
from penstock.core.publish.waiting_publisher import ProducerState
from penstock.errors import ResourceError
from penstock.settings.read import read_settings
from tests.profiles import examples
from tests.support import at_once
from tests.support.broker_fixture import House, told
from tests.support.transaction_client import Client, traces

# Waits and ends


def test_commit_waits_in_line_and_later_publishes_wait_behind(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=4, resume_messages=3)
    house.publish_now("a", 1, count=4)
    before, after = house.producer("before"), house.producer("after")
    house.publish(before, "a", 10)
    client.publish("a", 20, 20)
    assert not client.commit()
    house.publish(after, "a", 30)
    house.take("a", count=6)
    house.take("a")
    assert [int(m.charge) for m in house.vhost.queues["a"].ready_queue.ready] == [30]
    assert client.told() == 1
    assert told(after) == [(1, 1, True)]


def test_commit_between_stop_and_capacity_is_applied_and_the_answer_withheld(house: House, client: Client) -> None:
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


def test_commit_without_room_until_the_deadline_is_rolled_back(house: House, client: Client) -> None:
    house.queue("a", capacity_messages=3, hold_deadline=5)
    house.publish_now("a", 10, count=3)
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


def test_transaction_after_a_held_commit_is_answered_in_order(house: House, client: Client) -> None:
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


def test_publishes_before_tx_select_stay_in_line_and_go_first(house: House) -> None:
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


def test_graceful_close_rolls_back_commits_and_keeps_earlier_publishes(house: House) -> None:
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
def test_session_that_ends_with_a_held_commit_leaves_no_trace(house: House, client: Client, graceful: bool) -> None:
    house.queue("a", capacity_messages=2)
    house.publish_now("a", 1, count=2)
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
    house.take("a", count=2)
    assert house.depth("a") == 1
    assert told(waiting) == [(1, 1, True)]
    assert traces(house, client) == []


def test_session_end_does_not_admit_the_own_commit(house: House, client: Client) -> None:
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


def test_commit_continues_when_the_full_queue_is_deleted(house: House, client: Client) -> None:
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


def test_commit_is_checked_as_a_whole_against_the_sum_of_a_virtual_host(house: House, client: Client) -> None:
    house.queue("a", "b")
    house.set("vhost", "#", capacity_bytes=1000)
    house.publish_now("a", 100, count=9)
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


def test_commit_counts_a_message_once_in_the_depth_of_an_address(house: House, client: Client) -> None:
    for name in ("a", "b"):
        house.queue(name)
        house.vhost.bind("amq.fanout", house.vhost.queues[name], None, "", {})
    at_once.set_settings(house.broker, "address", "amq.fanout", read_settings("address", "#", {"capacity-messages": 2}))
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


def test_operator_gate_holds_a_commit_with_publishes(house: House, client: Client) -> None:
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


def test_rate_gate_counts_each_message_of_a_commit(house: House, client: Client) -> None:
    house.queue("a")
    limits = read_settings("user", "alice", {"rate-messages": 10, "burst-messages": 2})
    at_once.set_settings(house.broker, "user", "alice", limits)
    client.publish("a", *[1] * 12)
    assert client.commit(), "what is larger than the burst passes and leaves a debt"
    client.publish("a", 1)
    assert not client.commit()
    house.later(1.0)
    assert client.told() == 1
    house.later(0.2)
    assert client.told() == 2


# Commits that may be repeated


@pytest.fixture
def retrying(house: House) -> Client:
    """A client whose refused commits stay open, and queue a with room for one of two messages."""
    client = Client(house, "tx")
    client.transaction.coordinator.keeps_refused = True
    house.queue("a", capacity_messages=2, stop_messages=2, resume_messages=2, hold_deadline=5)
    return client


def test_commit_refused_at_the_deadline_may_be_tried_again_and_applies_once(house: House, retrying: Client) -> None:
    house.publish_now("a", 1)
    house.publish_now("a", 2)
    tag = retrying.get("a")
    retrying.publish("a", 10, 11)
    retrying.ack(tag)
    held = retrying.producer.hold_budget
    assert not retrying.commit()
    house.later(5.1)
    assert (retrying.told(), retrying.refused, retrying.producer.closing) == (0, True, None)
    assert (house.depth("a"), retrying.session.unsettled.count()) == (2, 1)
    assert (held.messages, held.bytes, held.uncommitted) == (2, 21, 21)
    retrying.refused = False
    assert not retrying.commit()
    house.later(4.9)
    assert not retrying.refused, "it waits for a whole deadline again"
    house.later(0.2)
    assert (retrying.told(), retrying.refused) == (0, True)
    retrying.refused = False
    house.take("a")
    assert retrying.commit()
    assert [int(each.charge) for each in house.vhost.queues["a"].ready_queue.ready] == [10, 11]
    assert (held.messages, held.bytes, held.uncommitted, retrying.session.unsettled.count()) == (0, 0, 0, 0)


def test_commit_that_was_refused_may_be_rolled_back(house: House, retrying: Client) -> None:
    house.publish_now("a", 1)
    tag = retrying.get("a")
    retrying.publish("a", 10, 10)
    house.publish_now("a", 1)
    retrying.ack(tag)
    assert not retrying.commit()
    house.later(5.1)
    assert retrying.told() == 0
    retrying.refused = False
    retrying.transaction.rollback()
    assert retrying.told() == 1
    assert (retrying.producer.hold_budget.messages, retrying.producer.hold_budget.uncommitted) == (0, 0)
    retrying.ack(tag)
    assert retrying.commit()
    assert house.depth("a") == 1
    retrying.end()
    assert traces(house, retrying) == []


def test_commits_behind_a_refused_commit_are_refused_too_and_kept_in_order(house: House, retrying: Client) -> None:
    house.queue("b", hold_deadline=60)
    house.publish_now("a", 1)
    retrying.publish("a", 10, 11)
    assert not retrying.commit()
    house.later(3)
    retrying.publish("b", 20)
    assert not retrying.commit()
    retrying.publish("b", 21)
    house.later(2.1)
    refusals = [outcome.refusal for outcome in retrying.producer.confirms.take()]
    assert [refusal is not None and refusal.retriable for refusal in refusals] == [True, True]
    assert [str(refusal and refusal.describe()).partition(";")[0] for refusal in refusals] == [
        "commit refused after its hold deadline of 5 s and not rolled back",
        "commit refused with an earlier one, and not rolled back",
    ]
    assert (house.depth("a"), house.depth("b"), retrying.producer.hold_budget.messages) == (1, 0, 4)
    house.take("a")
    retrying.transaction.commit()
    (outcome,) = retrying.producer.confirms.take()
    assert outcome.confirmed
    assert [int(each.charge) for each in house.vhost.queues["a"].ready_queue.ready] == [10, 11]
    assert [int(each.charge) for each in house.vhost.queues["b"].ready_queue.ready] == [20, 21]


def test_rollback_behind_a_held_commit_drops_the_refused_publishes(house: House, retrying: Client) -> None:
    house.publish_now("a", 1)
    tag = retrying.get("a")
    house.publish_now("a", 1)
    retrying.publish("a", 10)
    retrying.publish("a", 10)
    retrying.ack(tag)
    retrying.commit()
    retrying.transaction.rollback()
    retrying.publish("a", 11)
    house.later(5.1)
    retrying.told()
    assert retrying.producer.hold_budget.messages == 1
    retrying.refused = False
    house.take("a")
    retrying.ack(tag)
    assert retrying.commit()
    assert [int(each.charge) for each in house.vhost.queues["a"].ready_queue.ready] == [11]


def test_commit_that_was_refused_and_can_never_fit_any_more_ends_the_session(house: House, retrying: Client) -> None:
    house.publish_now("a", 1)
    retrying.publish("a", 10, 10)
    retrying.commit()
    house.later(5.1)
    retrying.publish("a", 10)
    retrying.commit()
    closed = [effect.error for effect in house.broker.effects() if isinstance(effect, CloseSession)]
    assert [(error.code, "can never fit" in str(error)) for error in closed] == [(311, True)]
    retrying.end()
    assert traces(house, retrying) == []


def test_commit_that_was_refused_counts_in_the_bound_of_the_connection(house: House) -> None:
    client = Client(house, "tx", bound=25)
    client.transaction.coordinator.keeps_refused = True
    house.queue("a", capacity_messages=2, hold_deadline=5)
    house.publish_now("a", 1)
    client.publish("a", 10, 10)
    client.commit()
    house.later(5.1)
    client.publish("a", 10)
    closed = [effect.error for effect in house.broker.effects() if isinstance(effect, CloseSession)]
    assert [type(error) for error in closed] == [ResourceError]
    client.end()
    assert traces(house, client) == []


def test_session_that_ends_with_a_refused_commit_rolls_the_commit_back(house: House, retrying: Client) -> None:
    house.publish_now("a", 1, count=2)
    retrying.ack(retrying.get("a"))
    retrying.publish("a", 10, 10)
    retrying.commit()
    house.later(5.1)
    retrying.end()
    assert traces(house, retrying) == []
    assert (house.depth("a"), house.vhost.queues["a"].available()) == (2, 2)


def test_commit_that_an_operators_gate_held_may_be_tried_again(house: House, retrying: Client) -> None:
    house.broker.gates.block("queue", "/", "a", "stocktaking")
    retrying.publish("a", 10)
    assert not retrying.commit()
    house.later(5.1)
    assert (retrying.told(), retrying.refused, retrying.producer.closing) == (0, True, None)
    house.broker.gates.unblock("queue", "/", "a")
    house.broker.run(1000)
    retrying.refused = False
    assert retrying.commit()
    assert house.depth("a") == 1


class Requests:
    """A client that commits and rolls back without waiting for answers, and what comes out of its queue."""

    def __init__(self) -> None:
        self.house = House()
        self.client = Client(self.house, "tx")
        self.client.transaction.coordinator.keeps_refused = True
        self.house.queue("a", capacity_messages=4, stop_messages=3, resume_messages=3, hold_deadline=5)
        for _ in range(4):
            self.house.publish_now("a", 1)
        self.asked: list[list[int] | None] = []
        """The publishes before each commit since the request before it; None for a rollback."""
        self.outcomes: dict[int, bool] = {}
        """Whether a request has succeeded, by its number."""
        self.since: list[int] = []
        """The publishes since the last request."""
        self.came_out: list[int] = []

    def do(self, step: str, charge: int) -> None:
        queue = self.house.vhost.queues["a"]
        if "publish" in step and len(self.since) < 4:
            self.client.publish("a", charge)
            self.since.append(charge)
        if "commit" in step:
            self.asked.append(self.since)
            self.since = []
            self.client.transaction.commit()
        elif step == "rollback":
            self.asked.append(None)
            self.since = []
            self.client.transaction.rollback()
        elif step == "fill" and queue.fits(1):
            self.house.publish_now("a", 1)
        elif step == "take":
            self.take()
        elif "wait" in step:
            self.house.later(2.6 if step == "wait" else 5.1)
        self.listen()

    def take(self) -> bool:
        ready = self.house.vhost.queues["a"].ready_queue.ready
        self.came_out += [int(ready[0].charge)] if ready else []
        return self.house.take("a")

    def listen(self) -> None:
        for outcome in self.client.producer.confirms.take():
            numbers = range(int(outcome.first), int(outcome.last) + 1)
            self.outcomes.update(dict.fromkeys(numbers, outcome.confirmed))

    def finish(self) -> None:
        """Empty the queue, and hear all answers."""
        while self.take() or self.client.producer.outbox:
            self.house.later(0.1)
        self.house.later(6)
        self.listen()

    def known(self) -> tuple[list[int], list[int]]:
        """Return what is committed by the answers, in their order, and what waits for another attempt."""
        committed: list[int] = []
        kept: list[int] = []
        for number, publishes in enumerate(self.asked, 1):
            kept = [] if publishes is None else kept + publishes
            if publishes is not None and self.outcomes[number]:
                committed += kept
                kept = []
        return committed, kept


STEPS = ("publish", "publish and commit", "commit", "rollback", "fill", "take", "wait", "wait long")


@settings(max_examples=examples(300), deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), min_size=10, max_size=40))
def test_commits_that_are_tried_again_in_any_order_apply_each_publish_once_in_order(steps: list[str]) -> None:
    rig = Requests()
    producer = rig.client.producer
    for number, step in enumerate(steps, 1):
        rig.do(step, 100 + number)
        if producer.closing is not None:
            return  # Together they can never fit: other tests are about that.
    rig.finish()
    committed, kept = rig.known()
    assert sorted(rig.outcomes) == list(range(1, len(rig.asked) + 1)), "each request is answered once"
    assert [each for each in rig.came_out if each > 1] == committed
    assert int(producer.hold_budget.messages) == len(kept) + len(rig.since)
    rig.client.end()
    assert traces(rig.house, rig.client) == []


def test_work_of_a_commit_is_the_work_of_the_publishes_and_settlements(house: House, client: Client) -> None:
    house.queue("a")
    house.publish_now("a", 1, count=500)
    for _ in range(500):
        client.ack(client.get("a"))
    client.publish("a", *[1] * 1000)
    before = house.broker.work.done
    assert client.commit()
    assert house.broker.work.done - before >= 1000 + 500 + 1500 // 2
