"""Messages that a receiver calls undeliverable: other receivers get them, and it does not."""

from __future__ import annotations

from penstock.core.consume.outcome import EXCLUDED_MAX
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite
from tests.support.amqp10_dialogue import (
    Amqp10Dialogue,
    Heard,
    accepted,
    condition,
    data_section,
    sender,
    transfers,
)
from tests.support.amqp10_transactions import TransactionalPeer, in_transaction


def filled(count: int, **arguments: object) -> Amqp10Dialogue:
    client = sender(**arguments)
    client.put(*(b"%d" % number for number in range(count)), settled=True)
    return client


def undeliverable(failed: bool = False) -> Composite:
    return composite(spec.MODIFIED, delivery_failed=failed, undeliverable_here=True)


def bodies(heard: list[Heard]) -> list[int]:
    return [int(each.payload.rpartition(b"\xa0")[2][1:]) for each in transfers(heard)]


def test_message_goes_to_another_link_and_not_to_its_own() -> None:
    client = filled(3)
    assert bodies(client.attach_receiver("/queues/q", credit=9)) == [0, 1, 2]
    for failed, number in ((False, 0), (True, 2)):
        assert client.settle(number, number, undeliverable(failed)) == []
    client.settle(1, 1, accepted())
    assert client.depth("q") == 2
    assert bodies(client.attach_receiver("/queues/q", 2, credit=9)) == [0, 2]
    client.settle(3, 4, accepted())
    assert client.depth("q") == 0


def test_link_gets_the_messages_behind_and_those_that_come_later() -> None:
    client = filled(6)
    assert bodies(client.attach_receiver("/queues/q", credit=3)) == [0, 1, 2]
    client.settle(0, 2, undeliverable())
    assert bodies(client.flow(1, 9, delivery_count=3)) == [3, 4, 5]
    assert bodies(client.say(client.transfer(data_section(b"6"), settled=True))) == [6]
    assert bodies(client.settle(3, 6, composite(spec.RELEASED))) == [3, 4, 5, 6]
    assert client.depth("q") == 7


def test_message_that_another_link_releases_does_not_come_to_the_one_that_excluded_it() -> None:
    client = filled(1)
    client.attach_receiver("/queues/q", credit=5)
    client.settle(0, 0, undeliverable())
    assert bodies(client.attach_receiver("/queues/q", 2, credit=1)) == [0]
    assert client.settle(1, 1, composite(spec.RELEASED)) == []
    assert client.depth("q") == 1
    assert bodies(client.flow(2, 1, delivery_count=1)) == [0]


def test_dead_letter_exchange_takes_it() -> None:
    client = Amqp10Dialogue().declare("dead")
    client.declare("q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    client.attach_sender("/queues/q")
    client.say(client.transfer(data_section(b"0")))
    client.attach_receiver("/queues/q", credit=5)
    client.settle(0, 0, undeliverable())
    client.listen()
    assert (client.depth("q"), client.depth("dead")) == (0, 1)


def test_default_outcome_of_a_link_destroys_nothing() -> None:
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


def test_link_is_detached_when_it_has_excluded_too_many() -> None:
    client = filled(EXCLUDED_MAX + 5)
    client.attach_receiver("/queues/q", credit=EXCLUDED_MAX + 5)
    assert client.settle(0, EXCLUDED_MAX - 2, undeliverable()) == []
    (detached,) = client.settle(EXCLUDED_MAX - 1, EXCLUDED_MAX - 1, undeliverable())
    assert (detached.name, condition(detached)) == ("detach", "amqp:resource-limit-exceeded")
    assert client.depth("q") == EXCLUDED_MAX + 5
    again = client.attach_receiver("/queues/q", 2, credit=EXCLUDED_MAX + 5)
    assert bodies(again + client.listen()) == list(range(EXCLUDED_MAX + 5))
