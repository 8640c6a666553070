"""Bindings: duplicates, bindings between exchanges, refusals, and the matching of each exchange type."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.routing_helpers import Routes

pytestmark = pytest.mark.clients

DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"


# Absent objects


@pytest.mark.parametrize(
    ("method", "words", "code", "text"),
    [
        ("queue_bind", ("none", "amq.direct", "k"), 404, "NOT_FOUND - no queue 'none' in vhost '/'"),
        ("queue_bind", ("none", "nowhere", "k"), 404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'"),
        ("queue_bind", ("none", "", "k"), 403, DEFAULT),
        ("queue_unbind", ("none", "", "k"), 403, DEFAULT),
        ("exchange_bind", ("none", "amq.direct", "k"), 404, "NOT_FOUND - no exchange 'none' in vhost '/'"),
        ("exchange_bind", ("amq.direct", "none", "k"), 404, "NOT_FOUND - no exchange 'none' in vhost '/'"),
        ("exchange_bind", ("none", "nowhere", "k"), 404, "NOT_FOUND - no exchange 'nowhere' in vhost '/'"),
        ("exchange_bind", ("amq.direct", "", "k"), 403, DEFAULT),
        ("exchange_bind", ("", "amq.direct", "k"), 403, DEFAULT),
        ("exchange_unbind", ("amq.direct", "", "k"), 403, DEFAULT),
        ("exchange_unbind", ("", "amq.direct", "k"), 403, DEFAULT),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_invalid_binding_is_refused(
    channel: BlockingChannel, method: str, words: tuple[str, str, str], code: int, text: str
) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        getattr(channel, method)(*words)
    assert (caught.value.reply_code, caught.value.reply_text) == (code, text)


@pytest.mark.parametrize("key", ["k", ""])
@pytest.mark.parametrize("method", ["queue_bind", "queue_unbind"])
def test_queue_declared_last_must_be_there_to_be_meant(channel: BlockingChannel, method: str, key: str) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"\(404, .*no previously declared queue"):
        getattr(channel, method)("", "amq.direct", key)


def test_unbinding_an_absent_binding_is_no_error(routes: Routes) -> None:
    channel = routes.channel
    routes.queue("q")
    for queue, exchange in (
        ("none", "amq.direct"),
        (routes.of("q"), "none"),
        ("none", "none"),
        (routes.of("q"), "amq.direct"),
    ):
        channel.queue_unbind(queue, exchange, "k")
    for destination, source in (("none", "amq.direct"), ("amq.direct", "none"), ("amq.direct", "amq.topic")):
        channel.exchange_unbind(destination, source, "k")


# Duplicates


def test_binding_twice_is_once(routes: Routes) -> None:
    routes.exchange("x", "direct")
    for _ in range(2):
        routes.bind("q", "x", "k")
    assert routes.reached("x", "k") == "q"
    routes.channel.queue_unbind(routes.of("q"), routes.of("x"), "k")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        routes.publish("x", "k")  # It went with its last binding.


def test_queue_with_several_matching_bindings_gets_a_message_once(routes: Routes) -> None:
    routes.exchange("x", "topic")
    for key in ("#", "a.#", "a.*", "a.b"):
        routes.bind("q", "x", key)
    routes.exchange("y", "fanout")
    routes.lead("x", "y", "#")
    routes.bind("q", "y")
    assert routes.reached("x", "a.b") == "q"


def test_bindings_differ_by_their_arguments(routes: Routes) -> None:
    routes.exchange("x", "headers")
    same: dict[str, Any] = {"x-match": "all", "a": 1, "b": [1, {"c": "d"}]}
    routes.bind("q", "x", "k", same)
    routes.bind("q", "x", "k", {"x-match": "all", "a": "1", "b": [1, {"c": "d"}]})
    routes.bind("q", "x", "other", {"b": [1, {"c": "d"}], "a": 1, "x-match": "all"})
    for key, arguments in (("k", same | {"a": 2}), ("k", {"a": 1}), ("none", same), ("k", same | {"a": True})):
        routes.channel.queue_unbind(routes.of("q"), routes.of("x"), key, arguments)
    assert routes.reached("x", "", {"a": 1, "b": [1, {"c": "d"}]}) == "q"
    routes.channel.queue_unbind(routes.of("q"), routes.of("x"), "k", dict(reversed(same.items())))
    routes.channel.queue_unbind(routes.of("q"), routes.of("x"), "other", same)
    assert routes.reached("x", "", {"a": 1, "b": [1, {"c": "d"}]}) == ""
    assert routes.reached("x", "", {"a": "1", "b": [1, {"c": "d"}]}) == "q"


def test_binding_with_empty_queue_and_key_means_the_last_queue_by_its_name(routes: Routes) -> None:
    routes.exchange("x", "direct")
    queue = routes.queue("q")
    routes.channel.queue_bind("", routes.of("x"), "")
    assert routes.reached("x", queue) == "q"
    routes.bind("q", "x", "stays")
    routes.channel.queue_unbind("", routes.of("x"), "")
    assert routes.reached("x", queue) == ""
    routes.channel.queue_bind("", routes.of("x"), "k")
    assert routes.reached("x", "k") == "q"
    routes.channel.queue_bind(queue, routes.of("x"), "")
    assert routes.reached("x", "") == "q"


# Routing after changes


def test_binding_counts_from_the_next_message_on_and_so_does_its_end(routes: Routes) -> None:
    routes.exchange("x", "topic")
    routes.bind("a", "x", "k")
    routes.queue("b")
    for _ in range(3):
        assert routes.reached("x", "k") == "a"
        routes.bind("b", "x", "*")
        assert routes.reached("x", "k") == "a b"
        routes.channel.queue_unbind(routes.of("b"), routes.of("x"), "*")
    routes.channel.queue_delete(routes.of("b"))
    routes.queues.remove("b")
    assert routes.reached("x", "k") == "a"


def test_queue_declared_again_is_another_and_has_no_bindings(routes: Routes) -> None:
    routes.exchange("x", "fanout")
    routes.bind("a", "x")
    routes.bind("b", "x")
    routes.channel.queue_delete(routes.of("b"))
    routes.channel.queue_declare(routes.of("b"), exclusive=True)
    assert routes.reached("x") == "a"
    assert routes.reached("", routes.of("b")) == "b"


def test_changes_far_from_the_first_exchange_count_too(routes: Routes) -> None:
    for short in ("a", "b", "c"):
        routes.exchange(short, "fanout")
    routes.lead("a", "b")
    routes.lead("b", "c")
    routes.bind("keeps", "c", "keeps")
    assert routes.reached("a") == "keeps"
    routes.bind("q", "c")
    assert routes.reached("a") == "keeps q"
    routes.channel.exchange_unbind(routes.of("c"), routes.of("b"), "")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        routes.publish("a")  # It led nowhere any more, and neither did the one before it.


# Exchanges to exchanges


def test_circle_of_exchanges_delivers_once(routes: Routes) -> None:
    for short in "abc":
        routes.exchange(short, "topic")
        routes.bind(f"q{short}", short, "k.*")
    for source, destination in ("ab", "bc", "ca", "aa"):
        routes.lead(source, destination, "#")
    for short in "abc":
        assert routes.reached(short, "k.1") == "qa qb qc"
        assert routes.reached(short, "k") == ""


def test_exchange_to_exchange_bindings_match_the_same_key_and_headers(routes: Routes) -> None:
    routes.exchange("first", "fanout")
    routes.exchange("topic", "topic")
    routes.exchange("headers", "headers")
    routes.lead("first", "topic")
    routes.lead("topic", "headers", "a.#")
    routes.bind("q", "headers", "", {"h": 1})
    assert routes.reached("first", "a.b", {"h": 1}) == "q"
    assert routes.reached("first", "a.b", {"h": 2}) == ""
    assert routes.reached("first", "b", {"h": 1}) == ""


# Headers

Table = dict[str, Any]
MOMENT = datetime(2024, 2, 29, tzinfo=UTC)
MATCHES: list[tuple[Table, Table | None, bool]] = [
    ({}, None, True),
    ({}, {"a": 1}, True),
    ({"x-match": "all"}, {}, True),
    ({"x-match": "any"}, {"a": 1}, False),
    ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
    ({"a": 1, "b": 2}, {"a": 1}, False),
    ({"a": 1}, None, False),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 3}, False),
    ({"x-match": "any", "a": 1}, None, False),
    # Without a value the header must be there, whatever it says.
    ({"a": None}, {"a": "whatever"}, True),
    ({"a": None}, {"a": None}, True),
    ({"a": None}, {"b": 1}, False),
    ({"a": 1}, {"a": None}, False),
    ({"x-match": "any", "a": None, "b": 1}, {"a": 2}, True),
    ({"x-match": "any", "a": None}, {"b": 2}, False),
    # Names that begin with x- count where x-match says so.
    ({"x-a": 1}, {}, True),
    ({"x-a": 1, "b": 1}, {"b": 1}, True),
    ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
    ({"x-match": "all-with-x", "x-a": 1}, {}, False),
    ({"x-match": "all-with-x", "x-a": 1, "b": 2}, {"x-a": 1, "b": 2}, True),
    ({"x-match": "any-with-x", "x-a": 1, "b": 2}, {"x-a": 1}, True),
    ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 2}, False),
    ({"x-match": "all-with-x"}, {}, True),
    ({"x-match": "any-with-x"}, {"x-a": 1}, False),
    # By type: whole numbers of any width and times are one, text and octets are one, and nothing else is.
    ({"a": 1}, {"a": 1 << 40}, False),
    ({"a": 1 << 40}, {"a": 1 << 40}, True),
    ({"a": 1}, {"a": "1"}, False),
    ({"a": 1}, {"a": True}, False),
    ({"a": True}, {"a": True}, True),
    ({"a": False}, {"a": 0}, False),
    ({"a": "text"}, {"a": b"text"}, True),
    ({"a": b"text"}, {"a": b"text"}, True),
    ({"a": "ä"}, {"a": "ä"}, True),
    ({"a": "A"}, {"a": "a"}, False),
    ({"A": 1}, {"a": 1}, False),
    ({"a": MOMENT}, {"a": MOMENT}, True),
    ({"a": MOMENT}, {"a": int(MOMENT.timestamp())}, True),
    ({"a": Decimal("1.5")}, {"a": Decimal("1.5")}, True),
    ({"a": Decimal("1.5")}, {"a": "1.5"}, False),
    ({"a": Decimal(1)}, {"a": 1}, False),
    ({"a": [1, "b"]}, {"a": [1, "b"]}, True),
    ({"a": [1, "b"]}, {"a": ["b", 1]}, False),
    ({"a": [1]}, {"a": [True]}, False),
    ({"a": {"b": 1}}, {"a": {"b": 1}}, True),
    ({"a": {"b": 1}}, {"a": {"b": 2}}, False),
    ({"a": ""}, {"a": ""}, True),
    ({"": 1}, {"": 1}, True),
]


@pytest.mark.parametrize(("arguments", "headers", "matches"), MATCHES, ids=lambda value: repr(value)[:60])
def test_headers_match(routes: Routes, arguments: Table, headers: Table | None, matches: bool) -> None:
    routes.exchange("x", "headers")
    routes.bind("q", "x", "", arguments)
    assert routes.reached("x", "the key does not count", headers) == ("q" if matches else "")


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("none", "value"),
        ("ALL", "value"),
        ("", "value"),
        (5, "type signedint"),
        (True, "type bool"),
        (None, "type void"),
        (b"all", "type binary"),
        (["all"], "type array"),
    ],
)
def test_x_match_that_cannot_be_meant_is_406(routes: Routes, mode: object, said: str) -> None:
    routes.queue("q")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=rf"\(406, .*Invalid x-match field {said}"):
        routes.channel.queue_bind(routes.of("q"), "amq.match", "", {"x-match": mode})


def test_exchange_of_another_type_ignores_x_match(routes: Routes) -> None:
    routes.exchange("x", "fanout")
    routes.bind("q", "x", "", {"x-match": "whatever"})
    assert routes.reached("x") == "q"
