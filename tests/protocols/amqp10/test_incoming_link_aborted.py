"""Aborted deliveries restore their credit, on links to each terminus, whether the sender counts them or not.

Qpid Proton counts an aborted delivery in its delivery-count, and ProtonJ2 does not.
"""

from __future__ import annotations

from typing import Any

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode_composite
from penstock.wire.amqp10.values import serial_add, serial_distance
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, data_section, names, performative, transfers
from tests.support.amqp10_transactions import COORDINATOR, TransactionalPeer, in_transaction

TERMINI: dict[str, dict[str, Any]] = {
    "queue": {"address": "/queues/q"},
    "exchange and key": {"address": "/exchanges/amq.direct/q"},
    "exchange": {"address": "/exchanges/amq.direct"},
    "anonymous": {"address": None},
    "coordinator": {"address": None, "target": composite(spec.COORDINATOR)},
    "management": {"address": "/management"},
}
MODES: dict[str, dict[str, Any]] = {
    "unsettled": {},
    "settled": {"snd_settle_mode": 1},
    "mixed": {"snd_settle_mode": 2},
    "second": {"rcv_settle_mode": 1},
}
ABORTED = 150


class Aborter:
    """A sender that counts its credit by the flows of the broker."""

    def __init__(self, client: Amqp10Dialogue, counts: bool, handle: int = 0, initial: int = 0) -> None:
        self.client = client
        self.count = initial
        self._counts = counts
        self._handle = handle

    @property
    def credit(self) -> int:
        self.client.listen()
        flow = self.client.grants[0, self._handle]
        limit = serial_add(flow.performative.number("delivery_count", 0), flow.performative.number("link_credit", 0))
        return serial_distance(self.count, limit)

    def abort(self, frames: int = 2, **fields: object) -> list[Heard]:
        assert self.credit > 0
        said = [self.client.transfer(b"\x00\x53\x75", self._handle, more=frames > 1, aborted=frames == 1, **fields)]
        more = {"handle": self._handle, "aborted": True, "settled": True}
        said += [performative(spec.TRANSFER, 0, more=True, handle=self._handle)] * (frames - 2)
        said += [performative(spec.TRANSFER, 0, **more)] * (frames > 1)
        heard = self.client.say(*said)
        if self._counts:
            self.count = serial_add(self.count, 1)
        return heard

    def send(self, payload: bytes, **fields: object) -> list[Heard]:
        assert self.credit > 0
        self.count = serial_add(self.count, 1)
        return self.client.say(self.client.transfer(payload, self._handle, **fields))


def attached(
    terminus: str, counts: bool = True, capacity: int | None = None, initial: int = 0, **fields: object
) -> Aborter:
    client = TransactionalPeer()
    client.declare("q", **({"capacity_messages": capacity} if capacity else {}))
    client.vhost.bind("amq.direct", client.vhost.queues["q"], None, "q", {})
    heard = client.attach_sender(handle=0, initial_delivery_count=initial, **{**TERMINI[terminus], **fields})
    assert "detach" not in names(heard)
    client.grants[0, 0] = heard[-1] if heard[-1].name == "flow" else client.grants[0, 0]
    return Aborter(client, counts, initial=initial)


def message() -> bytes:
    return encode_composite(composite(spec.PROPERTIES, to="/queues/q", subject="q")) + data_section(b"x")


@pytest.mark.parametrize("frames", [1, 2, 4])
@pytest.mark.parametrize("counts", [True, False], ids=["counted", "not counted"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("terminus", TERMINI)
def test_aborted_deliveries_return_the_credit(terminus: str, mode: str, counts: bool, frames: int) -> None:
    sender = attached(terminus, counts, **MODES[mode])
    for _ in range(ABORTED):
        assert sender.abort(frames) == []
    assert sender.credit > 0
    assert sender.client.depth("q") == 0


@pytest.mark.parametrize("counts", [True, False], ids=["counted", "not counted"])
@pytest.mark.parametrize("capacity", [1, 10, None])
@pytest.mark.parametrize("terminus", ["queue", "exchange and key", "exchange", "anonymous"])
def test_messages_between_aborted_deliveries_are_accepted(terminus: str, capacity: int | None, counts: bool) -> None:
    sender = attached(terminus, counts, capacity)
    receiver = Amqp10Dialogue(sender.client.driver)
    receiver.attach_receiver("/queues/q", 1, credit=2000, snd_settle_mode=1)
    for _ in range(ABORTED):
        sender.abort()
        heard = sender.send(message())
        delivered = transfers(receiver.listen())
        (outcome,) = heard or sender.client.listen()
        assert outcome.performative.inner("state").code == spec.ACCEPTED
        assert len(delivered) == 1


@pytest.mark.parametrize("counts", [True, False], ids=["counted", "not counted"])
def test_credit_of_a_sender_shows_whether_aborted_deliveries_are_counted(counts: bool) -> None:
    sender = attached("queue", counts)
    client = sender.client
    for _ in range(4):
        for _ in range(20):
            sender.abort()
        granted = sender.credit
        client.say(*(client.transfer(message()) for _ in range(granted)))
        sender.count = serial_add(sender.count, granted)
    assert client.session().links.by_handle[0].delivery_count == sender.count


def test_aborted_deliveries_count_across_the_end_of_the_serial_numbers() -> None:
    sender = attached("queue", initial=(1 << 32) - 5)
    for _ in range(20):
        sender.abort()
    assert sender.credit > 0


def test_aborted_deliveries_in_transactions_return_the_credit() -> None:
    sender = attached("queue")
    client = sender.client
    assert isinstance(client, TransactionalPeer)
    txn = client.begin_transaction()
    for _ in range(ABORTED):
        sender.abort(state=in_transaction(txn))
    sender.send(message(), state=in_transaction(txn))
    client.discharge(txn)
    assert client.depth("q") == 1


def test_tag_of_an_aborted_delivery_may_be_used_again() -> None:
    sender = attached("queue")
    for _ in range(3):
        sender.abort(delivery_tag=b"tag")
    assert names(sender.send(message(), delivery_tag=b"tag")) == ["disposition"]


def test_flow_of_a_sender_shows_whether_aborted_deliveries_are_counted() -> None:
    sender = attached("queue", counts=False)
    client = sender.client
    for _ in range(5):
        sender.abort()
    client.flow(0, 0, delivery_count=0)
    link = client.session().links.by_handle[0]
    assert link.delivery_count == 0
    before = client.credit_of()
    sender.abort()
    assert (link.delivery_count, client.credit_of()) == (0, before)


def test_settled_aborted_request_leaves_the_coordinator_attached() -> None:
    client = TransactionalPeer()
    first = client.transfer(b"\x00\x53\x77", COORDINATOR, more=True)
    assert client.say(first, performative(spec.TRANSFER, handle=COORDINATOR, aborted=True, settled=True)) == []
    client.begin_transaction()
