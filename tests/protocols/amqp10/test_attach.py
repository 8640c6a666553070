"""Attach: termini that are granted, and those that are refused.

Filters of sources: selectors on queues and topics, no-local, browsing, drain, and what is echoed.
"""

from __future__ import annotations

import pytest

from penstock.flow.level import OVERHEAD
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, Typed
from tests.support.amqp10_dialogue import (
    Amqp10Dialogue,
    Heard,
    accepted,
    condition,
    data_section,
    names,
    sender,
    transfers,
)


def test_sender_learns_the_largest_message_and_gets_credit() -> None:
    client = Amqp10Dialogue().declare("q", capacity_bytes=10_000)
    attached, flow = client.attach_sender("/queues/q")
    assert (attached.name, attached.field("role"), attached.field("max_message_size")) == (
        "attach",
        True,
        10_000 - OVERHEAD,
    )
    assert flow.field("handle") == 0
    assert int(str(flow.field("link_credit"))) > 0


def test_unknown_queue_is_answered_with_a_null_terminus_and_detached() -> None:
    client = Amqp10Dialogue()
    attached, detached = client.attach_sender("/queues/none")
    assert attached.field("target") is None
    assert (detached.name, detached.field("closed"), condition(detached)) == ("detach", True, "amqp:not-found")
    client.declare("q")
    assert client.say(client.transfer(b"")) == []
    assert client.detach(0) == []
    assert names(client.attach_sender("/queues/q")) == ["attach", "flow"]


def test_receiver_is_a_consumer_of_its_queue() -> None:
    client = Amqp10Dialogue().declare("q")
    (attached,) = client.attach_receiver("/queues/q")
    assert (attached.field("role"), attached.field("initial_delivery_count")) == (False, 0)
    assert len(client.vhost.queues["q"].consumers) == 1


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_sender_settle_mode_of_a_sender_is_granted(asked: int) -> None:
    client = Amqp10Dialogue().declare("q")
    attached = client.attach_sender("/queues/q", snd_settle_mode=asked, rcv_settle_mode=1)[0]
    assert (attached.field("snd_settle_mode"), attached.field("rcv_settle_mode")) == (asked, 1)


@pytest.mark.parametrize(("asked", "granted"), [(0, 0), (1, 1), (2, 0)])
def test_receiver_is_told_how_its_messages_are_settled(asked: int, granted: int) -> None:
    client = Amqp10Dialogue().declare("q")
    attached = client.attach_receiver("/queues/q", snd_settle_mode=asked, rcv_settle_mode=1)[0]
    assert (attached.field("snd_settle_mode"), attached.field("rcv_settle_mode")) == (granted, 1)


def test_sender_must_give_its_delivery_count() -> None:
    client = Amqp10Dialogue().declare("q")
    attached, detached = client.attach_sender("/queues/q", initial_delivery_count=None)
    assert (attached.field("target"), condition(detached)) == (None, "amqp:invalid-field")


def source(address: str, capabilities: tuple[str, ...] = (), **filters: object) -> Composite:
    chosen = {Symbol(name): value for name, value in filters.items()}
    return composite(spec.SOURCE, address=address, filter=chosen or None, capabilities=list(capabilities))


def selector(text: object) -> Described:
    return Described(Symbol("apache.org:selector-filter:string"), text)


NO_LOCAL = Described(Typed("ulong", 0x0000468C00000003), [])


def coloured(colour: str) -> bytes:
    return b"\x00\x53\x74" + encode_value({"colour": colour}) + data_section(colour.encode())


def bodies(heard: list[Heard]) -> list[str]:
    return [each.payload.rsplit(b"\xa0", 1)[1][1:].decode() for each in heard if each.name == "transfer"]


def with_colours(*colours: str) -> Amqp10Dialogue:
    client = sender()
    client.say(*(client.transfer(coloured(each)) for each in colours))
    return client


def test_consumer_gets_what_its_selector_matches_and_others_the_rest() -> None:
    client = with_colours("red", "blue", "red", "green")
    heard = client.attach_receiver(None, 1, credit=10, source=source("/queues/q", s=selector("colour = 'red'")))
    assert bodies(heard) == ["red", "red"]
    assert bodies(client.attach_receiver("/queues/q", 2, credit=10)) == ["blue", "green"]
    granted = heard[0].performative.inner("source")
    assert list(granted.mapping("filter")) == [Symbol("s")]


def test_on_a_topic_the_selector_filters_before_the_queue() -> None:
    client = Amqp10Dialogue()
    topic = source("amq.topic", ("topic",), s=selector("colour = 'red'"))
    client.attach_receiver(None, 1, credit=10, source=topic)
    client.attach_sender("/exchanges/amq.topic/news")
    heard = client.say(*(client.transfer(coloured(each)) for each in ("red", "blue", "red")))
    assert bodies(heard) == ["red", "red"]
    queues = client.vhost.queues.values()
    assert sum(int(queue.messages) for queue in queues) == 2


def test_text_that_is_no_selector_is_refused() -> None:
    client = with_colours()
    for handle, text in ((1, "colour ="), (2, 7)):
        _, detached = client.attach_receiver(None, handle, source=source("/queues/q", s=selector(text)))
        assert condition(detached) == "amqp:invalid-field"


def test_unknown_filters_are_not_echoed() -> None:
    client = with_colours("red")
    unknown = {"u": Described(Symbol("example:unknown"), "x"), "plain": "x"}
    heard = client.attach_receiver(None, 1, credit=1, source=source("/queues/q", **unknown))
    granted = heard[0].performative.inner("source")
    assert granted.mapping("filter") == {}
    assert bodies(heard) == ["red"]


def test_browser_takes_nothing_and_sees_arrivals() -> None:
    client = with_colours("red", "blue")
    copy = composite(spec.SOURCE, address="/queues/q", distribution_mode="copy")
    heard = client.attach_receiver(None, 1, credit=10, source=copy)
    assert bodies(heard) == ["red", "blue"]
    assert heard[0].field("snd_settle_mode") == 1, "the attach says that deliveries are settled"
    assert {each.field("settled") for each in heard if each.name == "transfer"} == {True}
    assert bodies(client.say(client.transfer(coloured("green")))) == ["green"]
    assert client.depth("q") == 3


def test_browser_with_a_selector_drains() -> None:
    client = with_colours("red", "blue", "red")
    fields = {"address": "/queues/q", "distribution_mode": "copy", "filter": {Symbol("s"): selector("colour='red'")}}
    client.attach_receiver(None, 1, source=composite(spec.SOURCE, **fields))
    *sent, flow = client.flow(1, 10, drain=True)
    assert bodies(sent) == ["red", "red"]
    assert (flow.name, flow.field("link_credit"), flow.field("delivery_count")) == ("flow", 0, 10)


def test_no_local_leaves_out_what_its_own_connection_has_published() -> None:
    client = with_colours("own")
    other = Amqp10Dialogue(client.driver)
    other.attach_sender("/queues/q")
    other.say(other.transfer(coloured("foreign")))
    assert bodies(client.attach_receiver(None, 1, credit=10, source=source("/queues/q", n=NO_LOCAL))) == ["foreign"]
    assert bodies(other.attach_receiver("/queues/q", 2, credit=10)) == ["own"]


def test_attach_tells_the_settings_of_the_consumer_that_are_in_force() -> None:
    client = Amqp10Dialogue().declare("q", consumer_max_rate=50, consumer_window_adaptive=True, consumer_window_max=20)
    asked = {"consumer-window-bytes": Typed("uint", 5000), "slow-consumer-rate": 0.5, "slow-consumer-policy": "cancel"}
    properties = {Symbol(name): value for name, value in asked.items()}
    (attached,) = client.attach_receiver("/queues/q", 1, properties=properties)
    assert {key.text: value for key, value in attached.performative.mapping("properties").items()} == {
        "consumer-window-bytes": Typed("ulong", 5000),
        "consumer-max-rate": 50.0,
        "slow-consumer-rate": 0.5,
        "slow-consumer-period": 5.0,
        "slow-consumer-policy": Symbol("cancel"),
        "consumer-window-adaptive": True,
        "consumer-window-min": Typed("uint", 1),
        "consumer-window-max": Typed("uint", 20),
    }
    client.declare("plain")
    (attached,) = client.attach_receiver("/queues/plain", 2)
    assert attached.field("properties") is None


def test_adaptive_window_narrows_link_credit_and_settlement_widens_it() -> None:
    client = sender(consumer_window_adaptive=True)
    for _ in range(20):
        client.say(client.transfer(coloured("red")))
    now = client.driver.broker.now
    sent = transfers(client.attach_receiver("/queues/q", 1, credit=15))
    for step in range(1, 9):
        assert len(sent) == 1
        delivery = int(str(sent[0].field("delivery_id")))
        client.driver.begin(now + step)
        sent = transfers(client.settle(delivery, delivery, accepted()))
    assert len(sent) == 2, "rate times time, and a quarter more"
    *rest, flow = client.flow(1, 15, drain=True)
    assert (len(transfers(rest)), flow.name, flow.field("link_credit")) == (5, "flow", 0), "its credit is used up"


def test_link_properties_are_settings_of_the_consumer() -> None:
    client = with_colours("red", "blue")
    properties = {Symbol("consumer-window-bytes"): 0, Symbol("rabbitmq:priority"): Typed("int", 7)}
    heard = client.attach_receiver("/queues/q", 1, credit=10, properties=properties)
    assert bodies(heard) == ["red"]
    (consumer,) = client.vhost.queues["q"].consumers
    assert consumer.priority == 7
    assert names(client.detach(1)) == ["detach"]
    client.attach_receiver("/queues/q", 2, properties={Symbol("exclusive"): True})
    _, detached = client.attach_receiver("/queues/q", 3)
    assert condition(detached) == "amqp:unauthorized-access"
