"""Property filters of sources: what matches, what is left out, and filters beside a selector, on topics and streams."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.content.selector.selector import PATTERN_MAX, parse_selector
from penstock.protocols.amqp10.property_filters import FIELDS_MAX, condition_of
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, encode
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, Typed
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, data_section, sender

ID = bytes(range(16))
PROPERTIES = "amqp:properties-filter"
APPLICATION = "amqp:application-properties-filter"


def source(address: str, capabilities: tuple[str, ...] = (), **filters: object) -> Composite:
    chosen = {Symbol(name): value for name, value in filters.items()}
    return composite(spec.SOURCE, address=address, filter=chosen or None, capabilities=list(capabilities))


def of_properties(**reference: object) -> Described:
    keys = {Symbol(name.replace("_", "-")): value for name, value in reference.items()}
    return Described(Symbol(PROPERTIES), keys)


def of_application(**reference: object) -> Described:
    return Described(Symbol(APPLICATION), reference)


def message(body: str, properties: dict[str, object] | None = None, application: dict[str, Any] | None = None) -> bytes:
    out = b""
    if properties:
        out += encode(spec.PROPERTIES, **properties)
    if application:
        out += b"\x00\x53\x74" + encode_value(application)
    return out + data_section(body.encode())


def bodies(heard: list[Heard]) -> list[str]:
    return [each.payload.rsplit(b"\xa0", 1)[1][1:].decode() for each in heard if each.name == "transfer"]


def received(messages: list[bytes], **filters: object) -> list[str]:
    client = sender()
    client.say(*(client.transfer(each) for each in messages))
    heard = client.attach_receiver(None, 1, credit=50, source=source("/queues/q", **filters))
    granted = heard[0].performative.inner("source").mapping("filter")
    assert granted.keys() == {Symbol(name) for name in filters}, "every filter is in effect"
    return bodies(heard)


@pytest.mark.parametrize(
    ("reference", "matching"),
    [
        ({"subject": "red"}, ["a"]),
        ({"subject": "&p:re"}, ["a", "d"]),
        ({"subject": "&s:d"}, ["a", "d"]),
        ({"subject": "&s:"}, ["a", "b", "c", "d"]),
        ({"subject": "&p:100%_"}, ["b"]),
        ({"subject": "&&p:x"}, ["c"]),
        ({"subject": "it's"}, []),
        ({"subject": None}, ["a", "b", "c", "d", "e"]),
        ({"message_id": Typed("ulong", 7)}, ["a"]),
        ({"message_id": Typed("uuid", ID)}, ["b"]),
        ({"message_id": "&p:or"}, ["c"]),
        ({"correlation_id": "x"}, ["d"]),
        ({"group_id": "g", "group_sequence": Typed("uint", 3)}, ["a"]),
        ({"group_id": "g", "group_sequence": Typed("uint", 4)}, []),
        ({"creation_time": Typed("timestamp", 1000)}, ["b"]),
        ({"content_type": Symbol("text/plain")}, ["c"]),
        ({"user_id": b"guest"}, ["d"]),
        ({"to": "&s:/queues/q", "reply_to": "there"}, ["e"]),
    ],
    ids=str,
)
def test_properties_filter_matches_all_its_properties(reference: dict[str, object], matching: list[str]) -> None:
    messages = [
        message("a", {"subject": "red", "message_id": Typed("ulong", 7), "group_id": "g", "group_sequence": 3}),
        message("b", {"subject": "100%_x", "message_id": Typed("uuid", ID), "creation_time": 1000}),
        message("c", {"subject": "&p:x", "message_id": "order-1", "content_type": "text/plain"}),
        message("d", {"subject": "retold", "correlation_id": "x", "user_id": b"guest"}),
        message("e", {"to": "/queues/q", "reply_to": "there"}),
    ]
    assert received(messages, p=of_properties(**reference)) == matching


@pytest.mark.parametrize(
    ("reference", "matching"),
    [
        ({"color": "red"}, ["a"]),
        ({"color": "&p:r"}, ["a", "b"]),
        ({"color": "&s:\\_"}, ["d"]),
        ({"n": 5}, ["a"]),
        ({"n": Typed("ubyte", 5)}, ["a"]),
        ({"n": 5.0}, ["a"]),
        ({"n": -7}, ["b"]),
        ({"n": "5"}, ["c"]),
        ({"b": True}, ["c"]),
        ({"b": False}, ["d"]),
        ({'odd " name': "x"}, ["d"]),
        ({"AND": "x"}, ["d"]),
        ({"n": None}, ["a", "b", "c"]),
        ({"color": "red", "n": 6}, []),
        ({"missing": "x"}, []),
    ],
    ids=str,
)
def test_application_properties_filter_compares_values_by_type(
    reference: dict[str, object], matching: list[str]
) -> None:
    messages = [
        message("a", application={"color": "red", "n": 5}),
        message("b", application={"color": "rose", "n": -7}),
        message("c", application={"n": "5", "b": True}),
        message("d", application={"b": False, 'odd " name': "x", "AND": "x", "color": "x\\_"}),
    ]
    assert received(messages, p=of_application(**reference)) == matching


def test_filters_and_selector_of_one_source_must_all_match() -> None:
    messages = [
        message(f"{subject}{number}", {"subject": subject}, {"n": number}) for subject in "ab" for number in range(4)
    ]
    text = Described(Symbol("apache.org:selector-filter:string"), "n = 1 OR n = 2")
    chosen = {"s": text, "p": of_properties(subject="b"), "q": of_application(n=2)}
    assert received(messages, **chosen) == ["b2"]


def test_filter_may_be_named_by_its_code() -> None:
    by_code = Described(Typed("ulong", 0x173), {Symbol("subject"): "a"})
    assert received([message("x", {"subject": "a"}), message("y", {"subject": "b"})], p=by_code) == ["x"]
    by_code = Described(Typed("ulong", 0x174), {"n": 1})
    assert received([message("x", None, {"n": 1}), message("y", None, {"n": 2})], p=by_code) == ["x"]


def test_filter_on_a_topic_filters_before_the_queue() -> None:
    client = Amqp10Dialogue()
    topic = source("amq.topic", ("topic",), p=of_application(color="&p:r"))
    client.attach_receiver(None, 1, credit=10, source=topic)
    client.attach_sender("/exchanges/amq.topic/news")
    sent = [message(color, None, {"color": color}) for color in ("red", "blue", "rose")]
    assert bodies(client.say(*(client.transfer(each) for each in sent))) == ["red", "rose"]
    assert sum(int(queue.messages) for queue in client.vhost.queues.values()) == 2


LEFT_OUT = [
    of_properties(colour="red"),
    of_properties(subject=5),
    of_properties(subject=Symbol("red")),
    of_properties(subject="&x:red"),
    of_properties(subject="&red"),
    of_properties(subject="&p:" + "x" * PATTERN_MAX),
    of_properties(message_id=b"binary"),
    of_properties(user_id=b"\xff"),
    of_properties(),
    Described(Symbol(PROPERTIES), "subject = 'red'"),
    Described(Symbol(PROPERTIES), {"subject": "red"}),
    of_application(),
    of_application(JMSPriority=5),
    of_application(**{"amqp.subject": "x"}),
    of_application(**{"": "x"}),
    of_application(n=Typed("ulong", 1 << 63)),
    of_application(n=float("nan")),
    of_application(n=[1]),
    of_application(n=Typed("decimal32", b"\0\0\0\0")),
    of_application(**{f"n{number}": 1 for number in range(FIELDS_MAX + 1)}),
    Described(Symbol(APPLICATION), {Symbol("n"): 1}),
    Described(Symbol("rabbitmq:stream-filter"), "red"),
]


@pytest.mark.parametrize("left_out", LEFT_OUT, ids=lambda each: str(each.value)[:40])
def test_filter_that_no_selector_can_say_is_left_out_of_the_answer(left_out: Described) -> None:
    client = sender()
    client.say(client.transfer(message("a", {"subject": "x"})))
    chosen = {"p": left_out, "q": of_properties(subject="x")}
    heard = client.attach_receiver(None, 1, credit=1, source=source("/queues/q", **chosen))
    assert list(heard[0].performative.inner("source").mapping("filter")) == [Symbol("q")]
    assert bodies(heard) == ["a"]


def test_filters_longer_than_a_selector_are_refused() -> None:
    client = sender()
    chosen = {f"p{number}": of_application(**{"n" * 2000: "x" * 200}) for number in range(5)}
    _, detached = client.attach_receiver(None, 1, source=source("/queues/q", **chosen))
    assert condition(detached) == "amqp:invalid-field"


@pytest.mark.parametrize("text", ["'", "''", "\\", "%", "_", "\\%", "a'b\"c", "é\U0001f600", "&&", "&p:'%_\\"])
@pytest.mark.parametrize("is_application", [True, False])
def test_condition_of_any_text_is_a_selector(text: str, is_application: bool) -> None:
    reference: dict[Any, object] = {"k'\"": text} if is_application else {Symbol("subject"): text}
    found = condition_of(is_application, reference)
    assert found is not None
    assert parse_selector(found) is not None
