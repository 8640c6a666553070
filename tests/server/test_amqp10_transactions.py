"""Transactions of AMQP 1.0 on a durable queue, and a broker that is killed before it answers the discharge."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import accepted, performative
from tests.support.amqp10_socket import SocketPeer
from tests.support.amqp10_transactions import in_transaction, state_of
from tests.support.brokers import BrokerProcess, serving
from tests.support.pika_helpers import channel_of, client_of, take_all

COUNT = 40
"""Transactions of a round: each takes a message out of `from` and puts two into `to`."""
COORDINATOR, SENDER, RECEIVER = 0, 1, 2


def fill(broker: BrokerProcess) -> None:
    with client_of(broker) as client:
        for queue in ("from", "to"):
            client.channel.queue_declare(queue, durable=True)
        client.publish("from", *map(str, range(COUNT)))


class Mover(SocketPeer):
    """A peer that moves messages in transactions which were declared before."""

    def __init__(self, broker: BrokerProcess, count: int) -> None:
        super().__init__(broker)
        self.attach_sender(COORDINATOR, composite(spec.COORDINATOR))
        self.attach_sender(SENDER, composite(spec.TARGET, address="to"))
        self.ids: list[bytes] = []
        for _ in range(count):
            self.send(self.request(COORDINATOR, composite(spec.DECLARE)))
            self.ids.append(state_of(self.await_one("disposition")).octets("txn_id"))
        self.attach_receiver(RECEIVER, "from", count)
        self.bodies = [int(self.await_one("transfer").payload.rpartition(b"\xa0")[2][1:]) for _ in range(count)]

    def move(self, at: int) -> int:
        """Move the message of the delivery `at`; return the delivery-id of the discharge."""
        txn_id, number = self.ids[at], self.bodies[at]
        posts = [self.post(SENDER, txn_id, str(2 * number + half).encode()) for half in range(2)]
        state = in_transaction(txn_id, accepted())
        discharge = self.request(COORDINATOR, composite(spec.DISCHARGE, txn_id=txn_id))
        self.send(
            *posts,
            performative(spec.DISPOSITION, role=True, first=at, last=at, settled=True, state=state),
            discharge,
        )
        return self._next_id - 1

    def await_answers(self, count: int) -> set[int]:
        """Read until so many discharges are accepted, and return their delivery-ids."""
        answered: set[int] = set()
        while len(answered) < count:
            heard: Any = self.await_one("disposition")
            if heard.field("role"):
                assert state_of(heard) == accepted()
                answered.update(range(heard.field("first"), (heard.field("last") or heard.field("first")) + 1))
        return answered


@pytest.mark.parametrize("answers", [0, 1, 10, COUNT])
def test_killed_broker_has_all_of_a_transaction_or_nothing(tmp_path: Path, data: str, answers: int) -> None:
    with serving(tmp_path, "--data", data) as broker:
        fill(broker)
        with Mover(broker, COUNT) as peer:
            discharged = {peer.move(at): peer.bodies[at] for at in range(COUNT)}
            answered = peer.await_answers(answers)
            broker.kill()
            with contextlib.suppress(ConnectionError):
                answered |= peer.await_answers(COUNT)
    committed = {discharged[each] for each in answered}
    assert len(committed) >= answers
    with serving(tmp_path, "--data", data) as broker, client_of(broker) as client:
        left, moved = ([int(body) for body, _ in client.drain(queue)] for queue in ("from", "to"))
        gone = [number for number in range(COUNT) if number not in left]
        assert moved == [2 * number + half for number in gone for half in range(2)], "both halves, or none"
        assert committed.isdisjoint(left), "what was answered is there"


def test_open_transaction_of_a_killed_broker_is_rolled_back(tmp_path: Path, data: str) -> None:
    with serving(tmp_path, "--data", data) as broker:
        fill(broker)
        with Mover(broker, 1) as peer:
            state = in_transaction(peer.ids[0], accepted())
            peer.send(
                peer.post(SENDER, peer.ids[0], b"1"),
                performative(spec.DISPOSITION, role=True, first=0, last=0, settled=True, state=state),
                performative(
                    spec.FLOW, next_incoming_id=0, incoming_window=1, next_outgoing_id=0, outgoing_window=1, echo=True
                ),
            )
            peer.await_one("flow")
            broker.kill()
    with serving(tmp_path, "--data", data) as broker, channel_of(broker) as channel:
        assert take_all(channel, "from") == [b"%d" % number for number in range(COUNT)]
        assert take_all(channel, "to") == []
