"""Single messages of those who have no channel, at a gate that stays closed."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.protocols.common.single_publish import SinglePublish
from penstock.wire.amqp091.codec import Properties
from tests.support.driven_connection import Dialogue, make_hub


def send(hub: BrokerDriver) -> SinglePublish:
    publication = SinglePublish(hub, "guest", "here")
    publication.send(hub.broker.vhosts["/"], "", "q", Properties(), b"x")
    return publication


def at(hub: BrokerDriver, now: float) -> None:
    hub.begin(now)
    hub.run_turn()


def test_a_loop_of_single_messages_does_not_fill_the_zone_of_a_gate_that_stays_closed() -> None:
    hub = make_hub()
    at(hub, 100.0)
    Dialogue(hub).declare("q", capacity_messages=10, stop_messages=0, hold_deadline=5)
    queue = hub.broker.vhosts["/"].queues["q"]
    first, second = send(hub), send(hub)
    assert (queue.messages, len(second.outbox)) == (2, 0), "under way when the gate closed"
    at(hub, 104.0)
    third = send(hub)
    assert (queue.messages, len(third.outbox)) == (3, 0)
    at(hub, 105.0)
    fourth = send(hub)
    assert (queue.messages, len(fourth.outbox)) == (3, 1)
    at(hub, 110.0)
    assert hub.take_publications() == [first, second, third, fourth]
    assert [publication.refusal for publication in (first, second, third)] == [""] * 3
    assert (fourth.retriable, "refused after its hold deadline of 5 s" in fourth.refusal) == (True, True)
    queue.purge(hub.broker.now)
    hub.run_turn()
    fifth = send(hub)
    assert (queue.messages, len(fifth.outbox)) == (1, 0)
