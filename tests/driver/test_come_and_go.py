"""Connections and queues that come and go leave no objects to the garbage collector.

The garbage collector frees an unused broker with all its objects.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable

import pytest

from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec as amqp091
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp10 import spec as amqp10
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.values import Described, Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, accepted, data_section, names, performative
from tests.support.amqp10_transactions import TransactionalPeer
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.left_objects import end, left_by, ours
from tests.support.logging_in import GREETING, start_ok, stranger

pytestmark = pytest.mark.once

ROUNDS = 200
CLOSES = {"reply_code": 0, "reply_text": "", "class_id": 0, "method_id": 0}
Round = Callable[[], object]


class Client091(Dialogue):
    """A 0-9-1 client whose broker has the queues `q`, and `full` with a message."""

    def __init__(self) -> None:
        super().__init__(make_driver())
        self.declare("q")
        self.declare("full", capacity_messages=1)
        self.say(publish("full", b"1"))

    def do(self, method: int, channel: int = 1, **args: object) -> list[str]:
        return self.names(method_frame(channel, method, **args))

    def open(self) -> None:
        assert self.do(amqp091.CHANNEL_OPEN, 2) == ["channel.open-ok"]

    def close(self) -> None:
        assert self.do(amqp091.CHANNEL_CLOSE, 2, **CLOSES)[-1] == "channel.close-ok"

    def consume(self, channel: int = 1, queue: str = "q", **arguments: object) -> None:
        table = {name.replace("_", "-"): value for name, value in arguments.items()}
        told = self.do(amqp091.BASIC_CONSUME, channel, queue=queue, consumer_tag="c", arguments=table)
        assert told[0] == "basic.consume-ok"

    def cancel(self) -> None:
        assert "basic.cancel-ok" in self.do(amqp091.BASIC_CANCEL, consumer_tag="c")

    def delete(self, queue: str) -> None:
        assert self.do(amqp091.QUEUE_DELETE, queue=queue)[-1] == "queue.delete-ok"

    def purge(self) -> None:
        assert self.do(amqp091.QUEUE_PURGE, queue="q")[-1] == "queue.purge-ok"

    def later(self, seconds: float) -> None:
        self.listen(self.driver.broker.now + seconds)

    # Kinds

    def channel(self) -> None:
        self.open()
        self.close()

    def channel_with_a_delivery(self) -> None:
        self.open()
        self.consume(2)
        self.say(publish("q", b"x", 2))
        self.close()
        self.purge()

    def channel_that_fails(self) -> None:
        self.open()
        self.do(amqp091.BASIC_CONSUME, 2, queue="none")
        self.do(amqp091.CHANNEL_CLOSE_OK, 2)

    def transactional_channel(self) -> None:
        self.open()
        self.do(amqp091.TX_SELECT, 2)
        self.say(publish("q", b"x", 2))
        self.do(amqp091.TX_COMMIT, 2)
        self.say(publish("q", b"x", 2))
        self.close()
        self.purge()

    def channel_with_held_publishes_that_are_refused(self) -> None:
        self.open()
        self.do(amqp091.CONFIRM_SELECT, 2)
        self.say(publish("full", b"x", 2) + publish("full", b"x", 2))
        self.later(100)
        self.close()

    def channel_that_leaves_held_publishes(self) -> None:
        self.open()
        self.say(publish("full", b"x", 2) + publish("full", b"x", 2))
        self.close()
        self.later(100)

    def channel_with_direct_replies(self) -> None:
        self.open()
        self.do(amqp091.BASIC_CONSUME, 2, queue="amq.rabbitmq.reply-to", no_ack=True)
        self.close()

    def channel_with_a_large_message(self) -> None:
        self.open()
        self.say(publish("q", b"x" * 3_000_000, 2))
        self.do(amqp091.BASIC_GET, 2, queue="q", no_ack=True)
        while self.listen():
            pass
        self.close()

    def consumer(self) -> None:
        self.consume()
        self.cancel()

    def consumer_with_a_rate(self) -> None:
        self.consume(max_rate=5)
        self.say(publish("q", b"x") + publish("q", b"x"))
        self.cancel()
        self.purge()
        self.do(amqp091.BASIC_ACK, delivery_tag=0, multiple=True)

    def queue(self) -> None:
        self.declare("w")
        self.say(publish("w", b"x"))
        self.delete("w")

    def queue_with_every_part(self) -> None:
        self.declare("w", x_message_ttl=1000, x_expires=10_000, x_dead_letter_exchange="e", x_max_length=5)
        self.say(publish("w", b"x") * 9)
        self.delete("w")

    def queue_with_priorities(self) -> None:
        self.declare("w", x_max_priority=5)
        self.say(publish("w", b"x"))
        self.delete("w")

    def queue_that_expires(self) -> None:
        self.declare("w", x_expires=1000)
        self.later(2)
        self.later(2)

    def queue_with_a_consumer(self) -> None:
        self.declare("w")
        self.open()
        self.consume(2, "w")
        self.delete("w")
        self.close()

    def queue_with_unacknowledged_messages(self) -> None:
        self.declare("w")
        self.say(publish("w", b"x"))
        self.do(amqp091.BASIC_GET, queue="w")
        self.delete("w")
        self.do(amqp091.BASIC_ACK, delivery_tag=0, multiple=True)

    def queue_with_held_publishes(self) -> None:
        self.declare("w", capacity_messages=1)
        self.open()
        self.say(publish("w", b"x", 2) * 3)
        self.delete("w")
        self.close()

    def exchange(self) -> None:
        for kind in ("direct", "fanout", "topic", "headers"):
            self.do(amqp091.EXCHANGE_DECLARE, exchange="e", type=kind)
            self.do(amqp091.QUEUE_BIND, queue="q", exchange="e", routing_key="a.*.#", arguments={"h": "1"})
            self.say(publish("a.b.c", b"x", exchange="e"))
            self.do(amqp091.EXCHANGE_DELETE, exchange="e")
        self.purge()

    def binding(self) -> None:
        for method in (amqp091.QUEUE_BIND, amqp091.QUEUE_UNBIND):
            self.do(method, queue="q", exchange="amq.topic", routing_key="a.*.#")

    def expiring_message(self) -> None:
        self.say(publish("q", b"x", properties=Properties(expiration="1000")))
        self.later(2)

    def gotten_message(self) -> None:
        self.say(publish("q", b"x"))
        self.do(amqp091.BASIC_GET, queue="q", no_ack=True)

    def whole_connection(self) -> None:
        client = Dialogue(self.driver)
        client.say(method_frame(0, amqp091.CONNECTION_CLOSE, **CLOSES))
        self.driver.disconnect(client.connection)

    def connection_that_is_lost(self) -> None:
        client = Dialogue(self.driver)
        client.say(method_frame(1, amqp091.QUEUE_DECLARE, queue="own", exclusive=True))
        client.say(method_frame(1, amqp091.BASIC_CONSUME, queue="own", consumer_tag="c"))
        client.confirm()
        client.say(publish("own", b"x") + publish("full", b"x") + publish("q", b"x")[: -len(b"x") - 8])
        self.driver.disconnect(client.connection)

    def stranger(self) -> None:
        self.driver.disconnect(stranger(self.driver, "127.0.0.1"))

    def refused_login(self) -> None:
        found = stranger(self.driver, "127.0.0.1")
        found.receive(GREETING + start_ok("wrong"))
        self.listen()
        found.take_output()
        self.driver.disconnect(found)
        self.later(20)

    def junk(self) -> None:
        found = stranger(self.driver, "127.0.0.1")
        found.receive(b"GET / HTTP/1.1\r\n\r\n")
        self.listen()
        found.take_output()
        self.driver.disconnect(found)


class Client10(TransactionalPeer):
    """A peer whose broker has the queues `q`, and `full` with a message, and link 0 to `q`."""

    def __init__(self) -> None:
        super().__init__()
        self.declare("q")
        self.declare("full", capacity_messages=1)
        self.attach_sender("/queues/q", 0)
        self.attach_sender("/queues/full", 1, name="fills")
        self.say(self.transfer(data_section(b"x"), 1))

    def detach(self, handle: int, closed: bool = True) -> None:
        assert "detach" in names(self.say(performative(amqp10.DETACH, handle=handle, closed=closed)))

    def purge(self) -> None:
        self.driver.broker.vhosts["/"].queues["q"].purge(self.driver.broker.now)

    # Kinds

    def session(self) -> None:
        self.begin(5)
        self.say(performative(amqp10.END, 5))

    def session_with_links(self) -> None:
        self.begin(5)
        self.attach_sender("/queues/q", 3, 5)
        self.attach_receiver("/queues/q", 4, 10, 5)
        self.say(self.transfer(data_section(b"x"), 3, 5, delivery_id=0))
        self.say(performative(amqp10.END, 5))
        self.purge()

    def session_that_fails(self) -> None:
        self.begin(5)
        self.attach_sender("/queues/q", 3, 5)
        assert "end" in names(self.say(performative(amqp10.DETACH, 5, handle=77, closed=True)))
        self.say(performative(amqp10.END, 5))

    def sender(self) -> None:
        self.attach_sender("/queues/q", 3, name="s")
        self.say(self.transfer(data_section(b"x"), 3))
        self.detach(3)
        self.purge()

    def sender_to_a_full_queue(self) -> None:
        self.attach_sender("/queues/full", 3, name="s")
        self.listen()
        self.detach(3)

    def receiver(self) -> None:
        self.attach_receiver("/queues/q", 4, 10, name="r")
        self.detach(4)

    def receiver_with_a_delivery(self) -> None:
        self.begin(5)
        self.attach_receiver("/queues/q", 4, 10, 5, name="r")
        self.say(self.transfer(data_section(b"x")))
        self.settle(0, 0, accepted(), channel=5)
        self.say(performative(amqp10.END, 5))
        self.purge()

    def receiver_with_a_selector(self) -> None:
        chosen = {Symbol("s"): Described(Symbol("apache.org:selector-filter:string"), "a = 1")}
        source = composite(amqp10.SOURCE, address="/queues/q", filter=chosen)
        self.attach_receiver("/queues/q", 4, 10, name="r", source=source)
        self.detach(4)

    def browser(self) -> None:
        source = composite(amqp10.SOURCE, address="/queues/q", distribution_mode="copy")
        self.attach_receiver("/queues/q", 4, 10, name="r", source=source)
        self.detach(4)

    def refused_link(self) -> None:
        self.attach_receiver("/queues/none", 4, name="r")
        self.say(performative(amqp10.DETACH, handle=4, closed=True))

    def suspended_receiver(self) -> None:
        source = composite(amqp10.SOURCE, address="/queues/q", expiry_policy="never", timeout=5)
        self.say(self.transfer(data_section(b"x")))
        self.attach_receiver("/queues/q", 4, 10, name="r", source=source)
        self.detach(4, closed=False)
        self.listen(self.driver.broker.now + 10)
        self.purge()

    def transaction(self) -> None:
        txn_id = self.begin_transaction()
        self.say(self.post(txn_id))
        self.discharge(txn_id)
        self.purge()

    def transaction_that_is_rolled_back(self) -> None:
        txn_id = self.begin_transaction()
        self.say(self.post(txn_id))
        self.discharge(txn_id, True)

    def coordinator(self) -> None:
        self.attach_coordinator(200)
        self.say(self.post(self.begin_transaction(200)))
        self.detach(200)

    def management_link(self) -> None:
        self.attach_sender("/management", 6, name="m", properties={Symbol("paired"): True})
        self.detach(6)

    def whole_connection(self) -> None:
        peer = Amqp10Dialogue(self.driver)
        source = composite(amqp10.SOURCE, dynamic=True)
        peer.attach_receiver(None, 4, 10, source=source)
        peer.say(performative(amqp10.CLOSE))
        self.driver.disconnect(peer.connection)

    def connection_that_is_lost(self) -> None:
        peer = Amqp10Dialogue(self.driver)
        peer.attach_sender("/queues/full", 4)
        peer.attach_sender("/exchanges/amq.direct", 6, name="anywhere")
        peer.attach_receiver("/queues/q", 5, 10)
        peer.say(peer.transfer(data_section(b"x"), 6, more=True))
        self.driver.disconnect(peer.connection)


def kinds_of(client: type) -> list[str]:
    """Return the kinds of a client: its own methods behind those that they are made of."""
    own = [name for name, each in vars(client).items() if callable(each)]
    return own[own.index("channel" if client is Client091 else "session") :]


@pytest.mark.parametrize("kind", kinds_of(Client091))
def test_amqp091_connections_leave_no_object_to_the_collector(kind: str) -> None:
    client = Client091()
    assert left_by(lambda: [getattr(client, kind)(), end(client.driver)], ROUNDS) == {}


@pytest.mark.parametrize("kind", kinds_of(Client10))
def test_amqp10_connections_leave_no_object_to_the_collector(kind: str) -> None:
    client = Client10()
    assert left_by(lambda: [getattr(client, kind)(), end(client.driver)], ROUNDS) == {}


@pytest.mark.parametrize("client", [Client091, Client10])
def test_collector_frees_brokers_that_are_dropped_with_their_connections(client: type[Client091 | Client10]) -> None:
    def come_and_go() -> None:
        for kind in kinds_of(client):
            getattr(client(), kind)()
        gc.collect()

    come_and_go()
    before = ours()
    come_and_go()
    assert ours() - before == Counter()
