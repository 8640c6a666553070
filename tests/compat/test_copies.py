"""CC and BCC: a message with more than one routing key."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from tests.support.routing_helpers import Routes

pytestmark = pytest.mark.clients


def test_message_goes_to_the_union_to_each_queue_once(routes: Routes) -> None:
    routes.exchange("x", "direct")
    for short in "abcd":
        routes.bind(short, "x", short)
        routes.bind(short, "x", "all")
    assert routes.reached("x", "a", {"CC": ["b", "all", "b", "nobody's"]}) == "a b c d"
    assert routes.reached("x", "a", {"CC": ["b", "a"], "BCC": ["c", "b"]}) == "a b c"
    assert routes.reached("x", "nobody's", {"BCC": ["d"]}) == "d"
    assert routes.reached("x", "a", {"CC": [], "BCC": []}) == "a"


def test_cc_and_bcc_route_by_queue_names_too(routes: Routes) -> None:
    a, b, c = (routes.queue(short) for short in "abc")
    assert routes.reached("", a, {"CC": [b, "none", a], "BCC": [c]}) == "a b c"


def test_exchange_to_exchange_bindings_match_all_keys_of_cc_and_bcc(routes: Routes) -> None:
    routes.exchange("rest", "topic")
    routes.bind("other", "rest", "o.*")
    routes.exchange("inner", "topic")
    routes.bind("q", "inner", "k.#")
    routes.exchange("x", "direct", alternate="rest")
    routes.lead("x", "inner", "go")
    assert routes.reached("x", "go", {"CC": ["k.1"]}) == "q"
    assert routes.reached("x", "k.1", {"CC": ["go"]}) == "q"
    assert routes.reached("x", "nobody's", {"BCC": ["o.1"]}) == "other"
    assert routes.reached("x", "o.1", {"BCC": ["go"]}) == "", "one of the keys is taken"


def test_exchange_by_headers_may_be_on_the_way(routes: Routes) -> None:
    routes.exchange("x", "headers")
    routes.exchange("y", "direct")
    routes.lead("x", "y", "", {"h": 1})
    routes.bind("q", "y", "k")
    assert routes.reached("x", "other", {"CC": ["k"], "h": 1}) == "q"
    assert routes.reached("x", "other", {"CC": ["k"], "h": 2}) == ""


def test_cc_is_delivered_and_bcc_is_not(routes: Routes) -> None:
    a, b, c = (routes.queue(short) for short in "abc")
    properties = pika.BasicProperties(
        headers={"first": 1, "CC": [b], "BCC": [c], "last": {"BCC": "inside"}}, priority=5, message_id="m"
    )
    routes.channel.basic_publish("", a, b"body", properties)
    for short in "abc":
        found = routes.take(short)
        assert found is not None
        method, got, body = found
        assert (method.exchange, method.routing_key, body) == ("", a, b"body")
        assert got.headers == {"first": 1, "CC": [b], "last": {"BCC": "inside"}}
        assert (got.priority, got.message_id) == (5, "m")


def test_large_message_is_copied_by_bcc(routes: Routes) -> None:
    a, b = (routes.queue(short) for short in "ab")
    body = bytes(range(256)) * 2000
    routes.publish("", a, {"BCC": [b], "h": 1}, body=body)
    for short in "ab":
        found = routes.take(short)
        assert (found[1].headers, found[2]) == ({"h": 1}, body)


@pytest.mark.parametrize("header", ["CC", "BCC"])
@pytest.mark.parametrize("value", ["a", 5, None, True, b"a", {"a": 1}], ids=repr)
def test_cc_or_bcc_other_than_an_array_is_406(routes: Routes, header: str, value: object) -> None:
    a = routes.queue("a")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        routes.publish("", a, {header: value})
    assert caught.value.reply_code == 406
    assert caught.value.reply_text.startswith("PRECONDITION_FAILED - invalid message: ")
    assert header in caught.value.reply_text


def test_cc_entries_other_than_text_are_ignored(routes: Routes) -> None:
    a, b = (routes.queue(short) for short in "ab")
    assert routes.reached("", a, {"CC": [5, None, [b], {"a": b}, b]}) == "a b"
    assert routes.reached("", a, {"CC": [5, None, [b], {"a": b}]}) == "a"


@pytest.mark.parametrize(
    "headers",
    [{"cc": ["b"]}, {"xCC": ["b"]}, {"CCC": 1}, {"text": "\x02CC \x03BCC"}, {"in": {"CC": "no array", "BCC": 5}}],
    ids=repr,
)
def test_headers_of_similar_names_are_not_taken_for_cc_or_bcc(routes: Routes, headers: dict[str, Any]) -> None:
    a = routes.queue("a")
    routes.queue("b")
    routes.publish("", a, headers)
    found = routes.take("a")
    assert found[1].headers == headers


def test_mandatory_message_comes_back_only_when_none_of_its_keys_leads_anywhere(routes: Routes) -> None:
    a = routes.queue("a")
    routes.publish("", "none", {"CC": [a]}, mandatory=True)
    assert routes.arrived() == "a"
    with pytest.raises(pika.exceptions.UnroutableError) as caught:
        routes.publish("", "none", {"CC": ["neither"], "BCC": ["nor"]}, mandatory=True)
    (returned,) = caught.value.messages
    assert (returned.method.reply_code, returned.method.routing_key) == (312, "none")
    assert returned.properties.headers == {"CC": ["neither"]}


def test_bcc_is_routed_in_a_transaction_too(routes: Routes, connection: pika.BlockingConnection) -> None:
    a, b = (routes.queue(short) for short in "ab")
    channel = connection.channel()
    channel.tx_select()
    channel.basic_publish("", a, b"x", pika.BasicProperties(headers={"BCC": [b]}))
    assert routes.arrived() == ""
    channel.tx_commit()
    assert routes.arrived() == "a b"


# Dead letters


def work(routes: Routes, key: str | None) -> str:
    """Declare a queue whose messages die at once, and go to the exchange `dead`."""
    more = {} if key is None else {"x_dead_letter_routing_key": key}
    return routes.queue("work", x_message_ttl=0, x_dead_letter_exchange=routes.of("dead"), **more)


def test_dead_letter_keeps_its_keys_without_a_dead_letter_routing_key(routes: Routes) -> None:
    routes.exchange("dead", "direct")
    queue = work(routes, None)
    for short, key in (("own", queue), ("copy", "copy"), ("blind", "blind"), ("other", "other")):
        routes.bind(short, "dead", key)
    routes.publish("", queue, {"CC": ["copy"], "BCC": ["blind"], "h": 1})
    for short in ("own", "copy", "blind"):
        method, properties, _ = routes.wait_for(short)
        assert method.routing_key == queue
        headers = properties.headers
        assert (headers["CC"], headers["h"], "BCC" in headers) == (["copy"], 1, False)
        assert headers["x-death"][0]["routing-keys"] == [queue, "copy"]
    assert routes.take("other") is None


def test_dead_letter_by_the_queue_routing_key_loses_its_cc(routes: Routes) -> None:
    routes.exchange("dead", "direct")
    queue = work(routes, "graves")
    for short, key in (("found", "graves"), ("copy", "copy"), ("blind", "blind")):
        routes.bind(short, "dead", key)
    routes.publish("", queue, {"CC": ["copy"], "BCC": ["blind"], "h": 1})
    method, properties, _ = routes.wait_for("found")
    assert method.routing_key == "graves"
    headers = properties.headers
    assert (headers["h"], "CC" in headers, "BCC" in headers) == (1, False, False)
    assert headers["x-death"][0]["routing-keys"] == [queue, "copy"]
    assert routes.take("copy") is None
    assert routes.take("blind") is None


def test_message_dead_lettered_twice_keeps_its_bcc_keys(routes: Routes) -> None:
    routes.exchange("dead", "direct")
    routes.exchange("buried", "direct")
    queue = work(routes, None)
    routes.queue("second", x_message_ttl=0, x_dead_letter_exchange=routes.of("buried"))
    routes.bind("second", "dead", queue)
    routes.bind("blind", "buried", "blind")
    routes.publish("", queue, {"BCC": ["blind"]})
    routes.wait_for("blind")
