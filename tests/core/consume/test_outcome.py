"""Outcomes of deliveries: their effect on the message, its failures and its queue.

A message that a receiver calls undeliverable goes to other receivers only.
"""

from __future__ import annotations

import pytest

from penstock.core.broker import Broker
from penstock.core.consume.outcome import EXCLUDED_MAX, Outcome, modified
from penstock.core.consume.session import Session, settle_in_slices
from penstock.core.queue.queue import Queue
from penstock.flow.work import AT_ONCE
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, accepted, condition, data_section, sender, transfers
from tests.support.amqp10_transactions import TransactionalPeer, in_transaction
from tests.support.bare_queue import queue_with
from tests.support.topology import declare

LETTERS: dict[str, object] = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-delivery-limit": 1}


def delivered(count: int) -> tuple[Broker, Queue, Session]:
    """Return a broker, a queue with a delivery limit of 1 and dead letters, and a session that has its messages."""
    broker, queue = queue_with(count, arguments=LETTERS)
    declare(broker.vhosts["/"], "dead")
    session = Session()
    while session.get(queue, False, 0.0) is not None:
        pass
    return broker, queue, session


def dead(broker: Broker) -> int:
    while broker.run(1000) or broker.pending():
        pass
    return int(broker.vhosts["/"].queues["dead"].messages)


def test_modified_outcome_is_failed_released_or_undeliverable() -> None:
    assert modified(True, False) is Outcome.FAILED
    assert modified(False, False) is Outcome.RELEASED
    assert modified(False, True) is modified(True, True) is Outcome.UNDELIVERABLE


@pytest.mark.parametrize("first", [1, 2], ids=["from the front", "behind the front"])
@pytest.mark.parametrize("last", [2, 3], ids=["few", "more"])
@pytest.mark.parametrize(
    ("outcome", "back", "letters", "failures"),
    [
        (Outcome.ACCEPTED, False, False, 0),
        (Outcome.REJECTED, False, True, 0),
        (Outcome.RELEASED, True, False, 0),
        (Outcome.FAILED, True, False, 1),
        (Outcome.UNDELIVERABLE, False, True, 0),
    ],
)
def test_outcome_applies_to_a_range_of_deliveries(
    outcome: Outcome, back: bool, letters: bool, failures: int, first: int, last: int
) -> None:
    broker, queue, session = delivered(4)
    settled = last - first + 1
    touched = session.unsettled.settle(first, last, outcome, 0.0)
    assert touched == ([queue] if back else [])
    assert session.unsettled.count() == 4 - settled
    assert int(queue.available()) == (settled if back else 0)
    assert dead(broker) == (settled if letters else 0)
    assert int(queue.unacked_messages) == 4 - settled
    for _ in range(int(queue.available())):
        message = queue.ready_queue.pull()
        assert (message.redelivered, message.failures) == (True, failures)


def test_released_message_never_reaches_the_delivery_limit_unlike_a_failed_message() -> None:
    broker, queue, session = delivered(1)
    for _ in range(5):
        session.unsettled.settle(1, session.unsettled.last_number(), Outcome.RELEASED, 0.0)
        assert session.get(queue, False, 0.0) is not None
    for _ in range(2):
        assert int(queue.messages) == 1
        session.unsettled.settle(1, session.unsettled.last_number(), Outcome.FAILED, 0.0)
        session.get(queue, False, 0.0)
    assert (dead(broker), int(queue.messages)) == (1, 0)


@pytest.mark.parametrize("outcome", Outcome)
def test_outcome_of_very_many_deliveries_is_applied_in_slices(outcome: Outcome) -> None:
    many = int(AT_ONCE) + 500
    broker, queue, session = delivered(many + 2)
    settle_in_slices(broker, session, 2, many + 1, outcome)
    assert [number for number, _, _ in session.unsettled.deliveries(1, many + 2)] == [1, many + 2]
    letters = many if outcome in (Outcome.REJECTED, Outcome.UNDELIVERABLE) else 0
    back = many if outcome in (Outcome.RELEASED, Outcome.FAILED) else 0
    assert (dead(broker), int(queue.unacked_messages), int(queue.available())) == (letters, 2, back)


def filled(count: int, **arguments: object) -> Amqp10Dialogue:
    client = sender(**arguments)
    client.put(*(b"%d" % number for number in range(count)), settled=True)
    return client


def undeliverable(failed: bool = False) -> Composite:
    return composite(spec.MODIFIED, delivery_failed=failed, undeliverable_here=True)


def bodies(heard: list[Heard]) -> list[int]:
    return [int(each.payload.rpartition(b"\xa0")[2][1:]) for each in transfers(heard)]


def test_message_goes_to_another_link_and_not_to_the_returning_link() -> None:
    client = filled(3)
    assert bodies(client.attach_receiver("/queues/q", credit=9)) == [0, 1, 2]
    for failed, number in ((False, 0), (True, 2)):
        assert client.settle(number, number, undeliverable(failed)) == []
    client.settle(1, 1, accepted())
    assert client.depth("q") == 2
    assert bodies(client.attach_receiver("/queues/q", 2, credit=9)) == [0, 2]
    client.settle(3, 4, accepted())
    assert client.depth("q") == 0


def test_link_gets_the_later_messages_and_new_arrivals() -> None:
    client = filled(6)
    assert bodies(client.attach_receiver("/queues/q", credit=3)) == [0, 1, 2]
    client.settle(0, 2, undeliverable())
    assert bodies(client.flow(1, 9, delivery_count=3)) == [3, 4, 5]
    assert bodies(client.say(client.transfer(data_section(b"6"), settled=True))) == [6]
    assert bodies(client.settle(3, 6, composite(spec.RELEASED))) == [3, 4, 5, 6]
    assert client.depth("q") == 7


def test_message_released_by_another_link_stays_away_from_the_excluding_link() -> None:
    client = filled(1)
    client.attach_receiver("/queues/q", credit=5)
    client.settle(0, 0, undeliverable())
    assert bodies(client.attach_receiver("/queues/q", 2, credit=1)) == [0]
    assert client.settle(1, 1, composite(spec.RELEASED)) == []
    assert client.depth("q") == 1
    assert bodies(client.flow(2, 1, delivery_count=1)) == [0]


def test_dead_letter_exchange_takes_an_undeliverable_message() -> None:
    client = Amqp10Dialogue().declare("dead")
    client.declare("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    client.attach_sender("/queues/q")
    client.say(client.transfer(data_section(b"0")))
    client.attach_receiver("/queues/q", credit=5)
    client.settle(0, 0, undeliverable())
    client.listen()
    assert (client.depth("q"), client.depth("dead")) == (0, 1)


def test_default_outcome_of_a_link_destroys_no_message() -> None:
    client = filled(2)
    source = composite(spec.SOURCE, address="/queues/q", default_outcome=undeliverable())
    client.attach_receiver("/queues/q", credit=5, source=source)
    client.detach(1)
    assert bodies(client.attach_receiver("/queues/q", 2, credit=9)) == [0, 1]


def test_transaction_with_the_outcome_returns_the_message_to_other_links() -> None:
    peer = TransactionalPeer().declare("q")
    peer.attach_sender("/queues/q")
    peer.say(peer.transfer(data_section(b"0"), settled=True))
    assert bodies(peer.attach_receiver("/queues/q", credit=5)) == [0]
    txn_id = peer.begin_transaction()
    peer.settle(0, 0, in_transaction(txn_id, undeliverable()))
    assert transfers(peer.discharge(txn_id)) == []
    assert peer.depth("q") == 1
    assert bodies(peer.attach_receiver("/queues/q", 2, credit=5)) == [0]


def test_priorities_and_several_receivers_stay_in_order() -> None:
    client = filled(4, x_max_priority=5)
    client.attach_receiver("/queues/q", credit=2)
    client.attach_receiver("/queues/q", 2)
    client.settle(0, 1, undeliverable())
    assert bodies(client.flow(2, 9)) == [0, 1, 2, 3]


def test_link_is_detached_after_excluding_too_many_messages() -> None:
    client = filled(EXCLUDED_MAX + 5)
    client.attach_receiver("/queues/q", credit=EXCLUDED_MAX + 5)
    assert client.settle(0, EXCLUDED_MAX - 2, undeliverable()) == []
    (detached,) = client.settle(EXCLUDED_MAX - 1, EXCLUDED_MAX - 1, undeliverable())
    assert (detached.name, condition(detached)) == ("detach", "amqp:resource-limit-exceeded")
    assert client.depth("q") == EXCLUDED_MAX + 5
    again = client.attach_receiver("/queues/q", 2, credit=EXCLUDED_MAX + 5)
    assert bodies(again + client.listen()) == list(range(EXCLUDED_MAX + 5))
