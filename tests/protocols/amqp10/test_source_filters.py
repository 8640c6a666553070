"""Filters of sources: selectors on queues and topics, no-local, browsing, drain, and what is echoed."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, Typed
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, data_section, sender


@pytest.fixture
def client() -> Amqp10Dialogue:
    return Amqp10Dialogue()


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


def test_consumer_gets_messages_matching_the_selector_and_other_consumers_the_rest() -> None:
    client = with_colours("red", "blue", "red", "green")
    heard = client.attach_receiver(None, 1, credit=10, source=source("/queues/q", s=selector("colour = 'red'")))
    assert bodies(heard) == ["red", "red"]
    assert bodies(client.attach_receiver("/queues/q", 2, credit=10)) == ["blue", "green"]
    granted = heard[0].performative.inner("source")
    assert list(granted.mapping("filter")) == [Symbol("s")]


def test_selector_on_a_topic_filters_before_the_queue() -> None:
    client = Amqp10Dialogue()
    topic = source("amq.topic", ("topic",), s=selector("colour = 'red'"))
    client.attach_receiver(None, 1, credit=10, source=topic)
    client.attach_sender("/exchanges/amq.topic/news")
    heard = client.say(*(client.transfer(coloured(each)) for each in ("red", "blue", "red")))
    assert bodies(heard) == ["red", "red"]
    queues = client.vhost.queues.values()
    assert sum(int(queue.messages) for queue in queues) == 2


def test_invalid_selector_is_refused() -> None:
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


def test_browser_removes_no_message_and_sees_arrivals() -> None:
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


def test_subscription_with_no_local_omits_messages_of_the_own_connection() -> None:
    client = with_colours("own")
    other = Amqp10Dialogue(client.driver)
    other.attach_sender("/queues/q")
    other.say(other.transfer(coloured("foreign")))
    assert bodies(client.attach_receiver(None, 1, credit=10, source=source("/queues/q", n=NO_LOCAL))) == ["foreign"]
    assert bodies(other.attach_receiver("/queues/q", 2, credit=10)) == ["own"]
