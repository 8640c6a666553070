"""Headers of messages that a link passes on."""

from __future__ import annotations

from penstock.bridges.hops import HOPS_MOST
from penstock.bridges.link_headers import with_exchange, with_queue
from penstock.content.properties import Properties

FROM_X = {"uri": "amqp://up/a", "exchange": "x"}
FROM_Q = {"uri": "amqp://up/a", "queue": "q"}


def test_message_of_an_exchange_has_its_place_in_front() -> None:
    given = Properties(headers={"h": 1, "CC": ["k"]}, message_id="m")
    first = with_exchange(given, FROM_X, False, "up", "a")
    place = {**FROM_X, "redelivered": False, "cluster-name": "up", "vhost": "a"}
    assert first.headers == {"h": 1, "CC": ["k"], "x-received-from": [place]}
    assert (first.message_id, given.headers) == ("m", {"h": 1, "CC": ["k"]})
    second = with_exchange(first, {"uri": "amqp://b/b", "exchange": "x"}, True, "", "b")
    assert second.headers is not None
    last = {"uri": "amqp://b/b", "exchange": "x", "redelivered": True, "vhost": "b"}
    assert second.headers["x-received-from"] == [last, place]


def test_message_of_a_queue_has_its_origin_and_visits() -> None:
    given = Properties(headers={"CC": ["k"], "h": 1})
    first = with_queue(given, FROM_Q, False, ("log", "key"))
    assert first.headers == {
        "h": 1, "x-original-cc": ["k"], "x-original-exchange": "log", "x-original-routing-key": "key",
        "x-received-from": [{**FROM_Q, "redelivered": False, "visit-count": 1}],
    }  # fmt: skip
    other = with_queue(first, {"uri": "amqp://b/b", "queue": "q"}, False, ("", "q"))
    again = with_queue(other, FROM_Q, True, ("", "q"))
    assert again.headers is not None
    assert again.headers["x-original-exchange"] == "log"
    assert again.headers["x-received-from"] == [
        {**FROM_Q, "redelivered": True, "visit-count": 2},
        {"uri": "amqp://b/b", "queue": "q", "redelivered": False, "visit-count": 1},
    ]


def test_header_of_another_form_is_replaced() -> None:
    changed = with_queue(Properties(headers={"x-received-from": "odd"}), FROM_Q, False, ("", "q"))
    assert changed.headers == {"x-received-from": [{**FROM_Q, "redelivered": False, "visit-count": 1}]}
    assert with_exchange(Properties(), FROM_X, False, "", "a").headers is not None


def test_places_are_bounded() -> None:
    properties = Properties()
    for number in range(HOPS_MOST + 5):
        properties = with_exchange(properties, {"uri": f"amqp://{number}", "exchange": "x"}, False, "c", "v")
    assert properties.headers is not None
    places = properties.headers["x-received-from"]
    assert isinstance(places, list)
    assert len(places) == HOPS_MOST
    assert places[0]["uri"] == f"amqp://{HOPS_MOST + 4}"
