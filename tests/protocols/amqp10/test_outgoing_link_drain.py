"""A drain at a consumer rate is answered when its credit is used up, or the queue has nothing for it.

Nothing is said before: "nothing is left" would be wrong while messages are ready, and the next token comes by itself.
"""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, data_section, names, transfers

RED = {Symbol("s"): Described(Symbol("apache.org:selector-filter:string"), "colour = 'red'")}
SOURCES: dict[str, dict[str, object]] = {
    "consumer": {},
    "selector": {"filter": RED},
    "browser": {"distribution_mode": "copy"},
    "browser with a selector": {"distribution_mode": "copy", "filter": RED},
}
COUNT = 20


def coloured(colour: str) -> bytes:
    return b"\x00\x53\x74" + encode_value({"colour": colour}) + data_section(b"x")


def receiver(kind: str, rate: float, attach: dict[object, object] | None = None) -> Amqp10Dialogue:
    """A receiver of a queue with 20 red and 20 blue messages, at 100.0 s."""
    client = Amqp10Dialogue().declare("q", **({} if attach else {"consumer_max_rate": rate}))
    client.driver.begin(100.0)
    client.attach_sender("/queues/q")
    client.say(*(client.transfer(coloured(each), settled=True) for each in ("red", "blue") * COUNT))
    source = composite(spec.SOURCE, address="/queues/q", **SOURCES[kind])
    client.attach_receiver(None, 1, source=source, properties=attach)
    return client


def listen_until_flow(client: Amqp10Dialogue, heard: list[Heard], now: float) -> tuple[int, Heard, float]:
    """Let time go on until a flow comes; return the deliveries until then, the flow, and its time."""
    deliveries = 0
    while True:
        deliveries += len(transfers(heard))
        flows = [each for each in heard if each.name == "flow"]
        if flows:
            return deliveries, flows[0], now
        assert now < 1000.0
        now += 0.005
        heard = client.listen(now)


@pytest.mark.parametrize("credit", [1, 3, 1000])
@pytest.mark.parametrize("rate", [1.0, 100.0, 5000.0])
@pytest.mark.parametrize("kind", SOURCES)
def test_drain_at_a_rate_brings_the_messages_of_credit_and_queue(kind: str, rate: float, credit: int) -> None:
    client = receiver(kind, rate)
    there = COUNT if "selector" in kind else 2 * COUNT
    got, flow, now = listen_until_flow(client, client.flow(1, credit, drain=True), 100.0)
    assert got == min(credit, there)
    assert (flow.field("link_credit"), flow.field("delivery_count")) == (0, credit)
    assert now - 100.0 >= (got - 1) / rate - 0.05, "the rate holds"


@pytest.mark.parametrize("kind", SOURCES)
def test_drains_of_single_messages_in_succession_empty_the_queue(kind: str) -> None:
    client = receiver(kind, 100.0)
    there = COUNT if "selector" in kind else 2 * COUNT
    now, count, got = 100.0, 0, 1
    while got == 1:
        got, flow, now = listen_until_flow(client, client.flow(1, 1, delivery_count=count, drain=True), now)
        count = flow.performative.number("delivery_count")
    assert count == there + 1


def test_drain_at_the_rate_of_a_link_waits_too() -> None:
    client = receiver("consumer", 0.0, {Symbol("consumer-max-rate"): 50.0})
    got, _, _ = listen_until_flow(client, client.flow(1, 7, drain=True), 100.0)
    assert got == 7


def test_drain_that_waits_for_a_rate_ends_when_other_consumers_take_the_messages() -> None:
    client = receiver("consumer", 0.1)
    assert names(client.flow(1, 10, drain=True)) == ["transfer"]
    client.vhost.purge_queue(client.vhost.queues["q"], client.driver.broker.now)
    got, flow, now = listen_until_flow(client, client.listen(100.1), 100.1)
    assert (got, flow.field("link_credit"), now <= 111.0) == (0, 0, True)


def test_cancelled_drain_at_a_rate_is_not_answered() -> None:
    client = receiver("consumer", 1.0)
    assert names(client.flow(1, 3, drain=True)) == ["transfer"]
    assert client.flow(1, 2, delivery_count=1) == []
    assert names(client.listen(101.5) + client.listen(103.0) + client.listen(110.0)) == ["transfer"] * 2
