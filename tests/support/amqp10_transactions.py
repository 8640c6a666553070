"""A transactional peer: an `Amqp10Dialogue` that declares and discharges transactions."""

from __future__ import annotations

from penstock.connections.connection_limits import ConnectionLimits
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, as_described, composite
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, ulong
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, accepted, data_section, transfers
from tests.support.driven_connection import make_driver

COORDINATOR = 100
"""Handle of the coordinator link."""


def value_section(value: Composite) -> bytes:
    """Return a message whose body is this value."""
    return encode_value(Described(ulong(spec.AMQP_VALUE), as_described(value)))


def in_transaction(txn_id: bytes, outcome: Composite | None = None) -> Composite:
    """Return a transactional-state."""
    return composite(spec.TRANSACTIONAL_STATE, txn_id=txn_id, outcome=outcome)


class TransactionalPeer(Amqp10Dialogue):
    """A peer with a coordinator link on channel 0."""

    def __init__(self, **fields: object) -> None:
        limits = ConnectionLimits()
        limits.change(heartbeat_s=0)  # Its silence may last.
        super().__init__(make_driver(limits))
        self.attached = self.attach_coordinator(COORDINATOR, **fields)

    def attach_coordinator(self, handle: int, channel: int = 0, **fields: object) -> list[Heard]:
        target = composite(spec.COORDINATOR, capabilities=["amqp:local-transactions"])
        name = f"coordinator {handle} on {channel}"
        return self.attach_sender(None, handle, channel, **{"name": name, "target": target, **fields})

    def ask(self, request: Composite, handle: int = COORDINATOR, channel: int = 0, **fields: object) -> list[Heard]:
        """Send a message to the coordinator and return what comes back, without flows."""
        heard = self.say(self.transfer(value_section(request), handle, channel, **fields))
        return [each for each in heard if each.name != "flow"]

    def begin_transaction(self, handle: int = COORDINATOR, channel: int = 0) -> bytes:
        """Declare a transaction and return its id."""
        (heard,) = self.ask(composite(spec.DECLARE), handle, channel)
        state = heard.performative.inner("state")
        assert state.code == spec.DECLARED
        assert heard.field("settled")
        return state.octets("txn_id")

    def discharge(self, txn_id: bytes, fail: bool = False, handle: int = COORDINATOR, channel: int = 0) -> list[Heard]:
        return self.ask(composite(spec.DISCHARGE, txn_id=txn_id, fail=fail), handle, channel)

    def post(self, txn_id: bytes, body: bytes = b"x", handle: int = 0, channel: int = 0, **fields: object) -> bytes:
        """Return a transfer in a transaction."""
        return self.transfer(data_section(body), handle, channel, state=in_transaction(txn_id), **fields)

    def retire(
        self, txn_id: bytes, first: int, last: int, outcome: Composite | None = None, settled: bool = False
    ) -> list[Heard]:
        """Settle deliveries of the broker in a transaction, by default as accepted."""
        return self.settle(first, last, in_transaction(txn_id, outcome or accepted()), settled)


def state_of(heard: Heard) -> Composite:
    """Return the delivery state of a disposition."""
    state = heard.performative.inner("state")
    assert state is not None
    return state


def provisional(heard: Heard) -> Composite:
    """Return the outcome in the transactional-state of a disposition."""
    outcome = state_of(heard).inner("outcome")
    assert outcome is not None
    return outcome


def peer(**arguments: object) -> TransactionalPeer:
    """A peer with a coordinator link, and a link to queue q."""
    client = TransactionalPeer()
    client.declare("q", **arguments)
    client.attach_sender("/queues/q")
    return client


def consuming(count: int, **fields: object) -> TransactionalPeer:
    """The same with this many unsettled deliveries from q, numbered by delivery-id; bodies are these modulo 256."""
    client = peer()
    for begin in range(0, count, 1000):
        client.put(*(bytes([n % 256]) for n in range(begin, min(begin + 1000, count))))
    come = transfers(client.attach_receiver("/queues/q", credit=min(count, 1000), **fields))
    for begin in range(1000, count, 1000):
        next_id = {"next_incoming_id": begin}
        come += transfers(client.flow(1, min(count - begin, 1000), delivery_count=begin, **next_id))
    assert [each.field("delivery_id") for each in come] == list(range(count))
    return client


def reserved(client: TransactionalPeer) -> int:
    """Bytes that the connection has held for its transactions."""
    return int(client.connection.pausing.budget.bytes)
