"""Large messages at gates, in transactions and at their ends: no piece stays in the store."""

from __future__ import annotations

import pytest

from penstock.connections.connection_limits import ConnectionLimits
from penstock.content.properties import Properties
from penstock.core.large_content import body_of
from penstock.driver.driver import BrokerDriver
from penstock.flow.level import OVERHEAD
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp10 import spec as spec10
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.values import Described, Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, data_section, names, performative
from tests.support.driven_connection import Dialogue, make_driver, methods, publish
from tests.support.large_messages import frames_of, frames_received, payload, persistent, received
from tests.support.piece_store import PieceStore

MIB = 1024 * 1024
BODY = bytes(range(256)) * (2 * MIB // 256)


class Desk:
    """A driver with a store of pieces, and a publisher with confirms."""

    def __init__(self, **arguments: object) -> None:
        self.driver: BrokerDriver = make_driver(ConnectionLimits())
        self.store = PieceStore(self.driver.broker.large)
        self.client = Dialogue(self.driver)
        self.client.declare("q", **arguments)
        self.client.confirm()
        self.queue = self.driver.broker.vhosts["/"].queues["q"]

    def send(self, properties: Properties | None = None, body: bytes = BODY, queue: str = "q") -> list[str]:
        """Publish a large message, persistent so that it goes to the store; return the methods that come back."""
        properties = properties or Properties()
        properties.delivery_mode = 2
        self.driver.scheduler.receive(self.client.connection, publish(queue, body, properties=properties))
        return self.serve()

    def serve(self, now: float | None = None) -> list[str]:
        """Let broker and store work until nothing is to be done; return the methods that came to the publisher."""
        found = [method.name for method in methods(self.client.listen(now))]
        while self.store.write() or self.store.read() or self.driver.scheduler.begin_turn():
            self.driver.scheduler.serve()
            found += [method.name for method in methods(self.client.listen())]
        self.store.write()
        return found

    def bodies(self) -> set[int]:
        """Return the numbers of the bodies in the store."""
        return {number for number, _ in self.store.pieces}

    def take(self, client: Dialogue | None = None) -> bytes:
        """Get the next message, and return its body."""
        client = Dialogue(self.driver) if client is None else client
        frames = client.say(method_frame(1, spec.BASIC_GET, queue="q", no_ack=True))
        frames += frames_received(client, self.store.read)
        return b"".join(payload for kind, _, payload in frames if kind == spec.FRAME_BODY)


def test_large_message_is_charged_whole() -> None:
    desk = Desk()
    assert desk.send(Properties(message_id="7")) == ["basic.ack"]
    properties = len(b"\x00\x90\x02\x017")
    assert desk.queue.bytes == properties + len(BODY) + OVERHEAD
    assert desk.take() == BODY
    desk.serve()
    assert (desk.queue.bytes, desk.store.pieces) == (0, {})


def test_large_message_is_held_at_a_closed_gate_and_goes_in_whole() -> None:
    desk = Desk(capacity_bytes=3 * MIB)
    assert desk.send() == ["basic.ack"]
    assert "basic.ack" not in desk.send(body=BODY[::-1])
    assert desk.queue.messages == 1
    assert len(desk.bodies()) == 2
    assert desk.take() == BODY
    assert "basic.ack" in desk.serve()
    assert desk.queue.messages == 1
    assert desk.take() == BODY[::-1]
    desk.serve()
    assert desk.store.pieces == {}


def test_large_message_that_is_refused_at_its_deadline_leaves_the_store() -> None:
    desk = Desk(capacity_bytes=3 * MIB, hold_deadline=5)
    desk.send()
    desk.send()
    assert "basic.nack" in desk.serve(desk.driver.broker.now + 6)
    desk.serve()
    assert len(desk.bodies()) == 1


def test_publisher_that_goes_takes_its_held_large_message_along() -> None:
    desk = Desk(capacity_bytes=3 * MIB)
    desk.send()
    desk.send()
    assert len(desk.bodies()) == 2
    desk.driver.disconnect(desk.client.connection)
    desk.driver.run_turn()
    desk.store.write()
    assert len(desk.bodies()) == 1


@pytest.mark.parametrize(
    ("arguments", "properties", "answer"),
    [
        ({"capacity_bytes": MIB}, Properties(), "channel.close"),
        ({}, Properties(user_id="mallory"), "channel.close"),
        ({}, Properties(expiration="1000"), "basic.ack"),
    ],
    ids=["never fits", "forged user-id", "expires"],
)
def test_message_that_is_refused_or_expires_leaves_nothing(
    arguments: dict[str, object], properties: Properties, answer: str
) -> None:
    desk = Desk(**arguments)
    assert desk.send(properties)[-1] == answer
    desk.serve(desk.driver.broker.now + 2)
    desk.serve()
    assert desk.store.pieces == {}


@pytest.mark.parametrize(("policy", "room", "answers"), [
    ("reject", 1, ["basic.ack", "basic.nack"]), ("ring", 2, ["basic.ack"] * 4),
])  # fmt: skip
def test_overflow_policy_leaves_the_bodies_of_queued_messages_only(policy: str, room: int, answers: list[str]) -> None:
    desk = Desk(capacity_bytes=(2 * room + 1) * MIB, overflow=policy)
    assert [desk.send()[-1] for _ in answers] == answers
    assert (desk.queue.messages, len(desk.bodies())) == (room, room)


def test_message_that_expires_is_dead_lettered_with_its_body() -> None:
    desk = Desk(x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    desk.client.declare("dead")
    desk.send(Properties(expiration="1000"))
    desk.serve(desk.driver.broker.now + 2)
    dead = desk.driver.broker.vhosts["/"].queues["dead"]
    assert (desk.queue.messages, dead.messages, len(desk.bodies())) == (0, 1, 1)
    message = dead.ready_queue.next()
    body = body_of(message.content)
    assert body is not None
    assert desk.driver.broker.formats.find(message.content).deaths(message.content) == [("q", "expired")]
    del message, body
    dead.purge(0.0)
    desk.serve()
    assert desk.store.pieces == {}


@pytest.mark.parametrize("method", ["queue.purge", "queue.delete"])
def test_purge_or_deletion_deletes_bodies(method: str) -> None:
    desk = Desk()
    desk.send()
    desk.send()
    code = spec.QUEUE_PURGE if method == "queue.purge" else spec.QUEUE_DELETE
    assert desk.client.names(method_frame(1, code, queue="q")) == [f"{method}-ok"]
    desk.serve()
    assert desk.store.pieces == {}


def test_queues_of_a_fan_out_share_a_body_until_the_last_has_settled_it() -> None:
    desk = Desk()
    desk.client.declare("r")
    for queue in ("q", "r"):
        desk.client.say(method_frame(1, spec.QUEUE_BIND, queue=queue, exchange="amq.fanout"))
    data = publish("", BODY, exchange="amq.fanout", properties=Properties(delivery_mode=2))
    desk.driver.scheduler.receive(desk.client.connection, data)
    assert desk.serve() == ["basic.ack"]
    assert len(desk.bodies()) == 1
    desk.queue.purge(0.0)
    desk.serve()
    assert len(desk.bodies()) == 1
    desk.driver.broker.vhosts["/"].queues["r"].purge(0.0)
    desk.serve()
    assert desk.store.pieces == {}


def test_rolled_back_transaction_leaves_nothing() -> None:
    desk = Desk()
    client = Dialogue(desk.driver)
    client.say(method_frame(1, spec.TX_SELECT))
    desk.driver.scheduler.receive(client.connection, persistent("q", BODY))
    desk.serve()
    assert len(desk.bodies()) == 1
    assert client.names(method_frame(1, spec.TX_ROLLBACK)) == ["tx.rollback-ok"]
    desk.serve()
    assert desk.store.pieces == {}
    desk.driver.scheduler.receive(client.connection, publish("q", BODY))
    desk.serve()
    assert client.names(method_frame(1, spec.TX_COMMIT)) == ["tx.commit-ok"]
    assert desk.queue.messages == 1


# AMQP 1.0


def sending(desk: Desk, messages: int = 1, settled: bool = False) -> Amqp10Dialogue:
    """Return a peer that has sent large messages."""
    peer = Amqp10Dialogue(desk.driver)
    peer.attach_sender("/queues/q")
    for number in range(messages):
        for frame in frames_of(data_section(BODY), number, settled=settled):
            peer.say(frame)
            desk.store.write()
    return peer


def test_message_that_arrives_has_one_credit_and_is_charged_at_its_end() -> None:
    desk = Desk()
    peer = Amqp10Dialogue(desk.driver)
    peer.attach_sender("/queues/q")
    frames = frames_of(data_section(BODY), 0)
    for frame in frames[:-1]:
        peer.say(frame)
        desk.store.write()
    assert desk.queue.bytes == 0
    assert names(peer.say(frames[-1])) == ["disposition"]
    assert desk.queue.bytes == len(data_section(BODY)) + len(data_section(b"")) + OVERHEAD


def test_released_large_message_comes_again() -> None:
    desk = Desk()
    sending(desk)
    desk.serve()
    receiver = Amqp10Dialogue(desk.driver)
    receiver.attach_receiver("/queues/q", credit=1)
    while desk.store.read():
        receiver.listen()
    receiver.settle(0, 0, composite(spec10.RELEASED))
    receiver.say(performative(spec10.DETACH, handle=1, closed=True))
    assert desk.take() == BODY


def test_settled_messages_that_are_refused_leave_nothing() -> None:
    desk = Desk(capacity_bytes=3 * MIB, overflow="reject")
    sending(desk, 2, True)
    desk.serve()
    assert desk.queue.messages == 1
    assert len(desk.bodies()) == 1


# Routing


def test_large_message_is_routed_by_its_headers() -> None:
    desk = Desk()
    arguments = {"x-match": "all", "color": "red"}
    desk.client.say(method_frame(1, spec.QUEUE_BIND, queue="q", exchange="amq.headers", arguments=arguments))
    for color, count in (("blue", 0), ("red", 1)):
        data = publish("", BODY, exchange="amq.headers", properties=Properties(headers={"color": color}))
        desk.driver.scheduler.receive(desk.client.connection, data)
        desk.serve()
        assert desk.queue.messages == count
    assert desk.take() == BODY


def test_copies_of_a_large_message_share_its_body_and_blind_ones_stay_hidden() -> None:
    desk = Desk()
    desk.client.declare("r")
    desk.client.declare("s")
    desk.send(Properties(headers={"CC": ["r"], "BCC": ["s"], "color": "red"}))
    assert len(desk.bodies()) == 1
    formats = desk.driver.broker.formats
    for name in ("q", "r", "s"):
        message = desk.driver.broker.vhosts["/"].queues[name].ready_queue.next()
        assert formats.find(message.content).headers(message.content) == {"CC": ["r"], "color": "red"}


def test_selector_reads_the_properties_of_a_large_message() -> None:
    desk = Desk()
    for color in ("blue", "red"):
        desk.send(Properties(headers={"color": color}), color.encode() * MIB)
    receiver = Amqp10Dialogue(desk.driver)
    chosen = Described(Symbol("apache.org:selector-filter:string"), "color = 'red'")
    source = composite(spec10.SOURCE, address="/queues/q", filter={Symbol("selector"): chosen})
    heard = receiver.attach_receiver("/queues/q", credit=2, source=source) + received(receiver, desk.store.read)
    assert payload(heard).endswith(b"red" * MIB)
    assert desk.queue.available() == 1
