"""Random sequences of transactions: exactly the committed ones are applied."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite
from tests.profiles import examples
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, accepted, data_section, names, performative
from tests.support.amqp10_transactions import TransactionalPeer, in_transaction, state_of, value_section

COORDINATOR, TO_A, TO_B, FROM_A, FROM_B = range(5)
SENDERS = {TO_A: "a", TO_B: "b"}
RECEIVERS = {FROM_A: "a", FROM_B: "b"}
OUTCOMES = [composite(spec.RELEASED), composite(spec.REJECTED), accepted(), accepted()]
LEAVING = {spec.REJECTED, spec.ACCEPTED}
"""Outcomes after which a message is gone."""


class Deed:
    """A transaction, or a message outside of transactions: what it publishes and consumes, and whether it was done."""

    def __init__(self, txn_id: bytes = b"") -> None:
        self.txn_id = txn_id
        self.published: list[int] = []
        self.consumed: list[int] = []
        self.done: bool | None = None
        """None while it is not known."""


class Peer:
    """A client with one coordinator and two sessions, which remembers what it has asked for."""

    def __init__(self) -> None:
        self.client = TransactionalPeer()
        self.client.say(performative(spec.END))
        self.now = 0.0
        for queue, room in (("a", 8), ("b", 1000)):
            self.client.declare(queue, capacity_messages=room, hold_deadline=5.0)
        self.client.connection.limits.change(transaction_timeout_s=30)
        self.bodies = 0
        self.next_ids = {0: 0, 1: 0}
        self.deeds: list[Deed] = []
        self.open: list[Deed] = []
        self.asked: dict[tuple[int, int], Deed] = {}
        """Who waits for an outcome, by session and delivery-id."""
        self.deliveries: dict[tuple[int, int], int] = {}
        """Bodies of the deliveries that nothing was done with, by session and delivery-id."""
        self.retired: dict[tuple[int, int], tuple[Deed, int, bool]] = {}
        for channel in (0, 1):
            self.begin(channel)

    def begin(self, channel: int) -> None:
        self.next_ids[channel] = 0
        client = self.client
        client.begin(channel)
        if channel == 0:
            client.attach_coordinator(COORDINATOR, channel)
        for handle, queue in SENDERS.items():
            client.attach_sender(queue, handle, channel, name=f"to {queue} on {channel}")
        for handle, queue in RECEIVERS.items():
            self.hear(client.attach_receiver(queue, handle, 50, channel, name=f"from {queue} on {channel}"))

    def transfer(self, channel: int, handle: int, payload: bytes, **fields: object) -> int:
        """Send a transfer; return its delivery-id."""
        number = self.next_ids[channel]
        self.next_ids[channel] += 1
        tag = number.to_bytes(4, "big")
        fields = {"delivery_id": number, "delivery_tag": tag, "message_format": 0, **fields}
        self.sent = performative(spec.TRANSFER, channel, payload, handle=handle, **fields)
        return number

    def hear(self, heard: list[Heard]) -> None:
        for each in heard:
            if each.name == "transfer":
                body = int.from_bytes(each.payload[-4:], "big")
                self.deliveries[each.channel, int(str(each.field("delivery_id")))] = body
            elif each.name == "disposition":
                first = int(str(each.field("first")))
                last = each.field("last")
                for number in range(first, (first if last is None else int(str(last))) + 1):
                    self.on_outcome(each.channel, number, each)
            else:
                assert each.name in ("attach", "flow", "end"), each

    def on_outcome(self, channel: int, number: int, heard: Heard) -> None:
        if not heard.field("role"):
            assert (channel, number) not in self.deliveries, "settled only as we have asked"
            return
        deed = self.asked.get((channel, number))
        state = state_of(heard)
        if deed is None or state.code == spec.TRANSACTIONAL_STATE:
            return
        del self.asked[channel, number]
        if state.code == spec.DECLARED:
            deed.txn_id = state.octets("txn_id")
            self.open.append(deed)
        elif deed.done is None:
            self.finish(deed, state.code == spec.ACCEPTED)

    def finish(self, deed: Deed, done: bool) -> None:
        deed.done = done
        for key, (owner, body, settled) in list(self.retired.items()):
            if owner is deed:
                del self.retired[key]
                if not done and not settled:
                    self.deliveries[key] = body

    # Steps

    def declare(self) -> None:
        deed = Deed()
        self.deeds.append(deed)
        number = self.transfer(0, COORDINATOR, value_section(composite(spec.DECLARE)))
        self.asked[0, number] = deed
        self.hear(self.client.say(self.sent))

    def publish(self, deed: Deed | None, channel: int, handle: int) -> None:
        self.bodies += 1
        fields: dict[str, object] = {} if deed is None else {"state": in_transaction(deed.txn_id)}
        number = self.transfer(channel, handle, data_section(self.bodies.to_bytes(4, "big")), **fields)
        if deed is None:
            deed = Deed()
            self.deeds.append(deed)
            self.asked[channel, number] = deed
        deed.published.append(self.bodies)
        self.hear(self.client.say(self.sent))

    def settle(self, deed: Deed | None, at: int, outcome: Composite, settled: bool) -> None:
        if not self.deliveries:
            return
        key = list(self.deliveries)[at % len(self.deliveries)]
        body = self.deliveries.pop(key)
        channel, number = key
        if deed is None:
            deed = Deed()
            deed.done = True
            self.deeds.append(deed)
            state = outcome
        else:
            self.retired[key] = (deed, body, settled)
            state = in_transaction(deed.txn_id, outcome)
        if outcome.code in LEAVING:
            deed.consumed.append(body)
        self.hear(self.client.settle(number, number, state, settled, channel))

    def discharge(self, deed: Deed, fail: bool) -> None:
        self.open.remove(deed)
        if fail:
            self.finish(deed, False)
        number = self.transfer(0, COORDINATOR, value_section(composite(spec.DISCHARGE, txn_id=deed.txn_id, fail=fail)))
        self.asked[0, number] = deed
        self.hear(self.client.say(self.sent))

    def end(self, channel: int) -> None:
        """End a session and begin it again; with the coordinator's, all open transactions are rolled back."""
        self.hear(self.client.say(performative(spec.END, channel)))
        for found in (self.deliveries, self.asked):
            for key in [key for key in found if key[0] == channel]:
                del found[key]  # type: ignore[arg-type]
        for key, (deed, body, _) in list(self.retired.items()):
            if key[0] == channel:
                self.retired[key] = (deed, body, True)
        if channel == 0:
            for deed in self.open:
                self.finish(deed, False)
            self.open = []
        self.begin(channel)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.hear(self.client.listen(self.now))

    # Verdict

    def check(self) -> None:
        """Close the connection, and compare what is left with what was asked for."""
        queues = [self.client.vhost.queues[name] for name in "ab"]
        unacknowledged = sum(int(queue.messages) - int(queue.available()) for queue in queues)
        assert len(self.deliveries) <= unacknowledged <= len(self.deliveries) + len(self.retired)
        engine = self.client.connection.engine
        self.client.say(performative(spec.CLOSE))
        assert int(self.client.connection.pausing.budget.bytes) == 0
        assert not engine.sessions()
        left = {"a": self.drain("a"), "b": self.drain("b")}
        found = left["a"] + left["b"]
        assert len(set(found)) == len(found), "nothing is there twice"
        consumed = {body for deed in self.deeds if deed.done for body in deed.consumed}
        doubtful = {body for deed in self.deeds if deed.done is None for body in deed.consumed}
        for deed in self.deeds:
            if deed.done is None:  # Its answer has not come: all or nothing.
                there = {body in found for body in deed.published if body not in consumed | doubtful}
                assert len(there) <= 1
                if deed.consumed and there:
                    assert {body in found for body in deed.consumed} <= {True not in there}
                continue
            for body in deed.published:
                if body not in doubtful:
                    assert (body in found) == (deed.done and body not in consumed), (body, deed.done)

    def drain(self, queue: str) -> list[int]:
        other = Amqp10Dialogue(self.client.driver)
        heard = other.attach_receiver(queue, credit=1000)
        heard += other.listen(self.now + 1)
        return [int.from_bytes(each.payload[-4:], "big") for each in heard if each.name == "transfer"]


STEPS = st.tuples(st.integers(0, 9), st.integers(0, 99), st.integers(0, 7), st.booleans())


@settings(max_examples=examples(60), derandomize=True, database=None, deadline=None)
@given(st.lists(STEPS, min_size=10, max_size=50))
def test_transactions_are_applied_as_a_whole_and_once(steps: list[tuple[int, int, int, bool]]) -> None:
    peer = Peer()
    for channel in (0, 1, 0, 1):
        peer.declare()
        peer.publish(None, channel, TO_B)
    for kind, at, other, flag in steps:
        deed = peer.open[at % len(peer.open)] if peer.open and other else None
        channel = other & 1
        if kind == 0:
            peer.declare()
        elif kind <= 4:
            peer.publish(deed, channel, TO_A if flag else TO_B)
        elif kind <= 6:
            peer.settle(deed, at, OUTCOMES[other % 4], flag)
        elif kind == 7 and deed is not None:
            peer.discharge(deed, other >= 5)
        elif kind == 8:
            peer.wait(float(other))
        elif kind == 9 and at < 20:
            peer.end(channel)
    peer.check()


def test_sequence_is_understood() -> None:
    """The model itself: one transaction of each kind."""
    peer = Peer()
    peer.publish(None, 0, TO_B)
    assert list(peer.deliveries.values()) == [1]
    peer.declare()
    peer.declare()
    kept, dropped = peer.open
    peer.publish(kept, 1, TO_B)
    peer.publish(dropped, 1, TO_B)
    peer.settle(kept, 0, accepted(), True)
    peer.discharge(kept, False)
    peer.discharge(dropped, False)
    assert [deed.done for deed in peer.deeds] == [True, True, True]
    assert names(peer.client.listen()) == []
    peer.check()
