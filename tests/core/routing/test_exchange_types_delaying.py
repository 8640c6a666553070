"""Exchanges of type x-delayed-message: declaration, bindings, the header `x-delay`, and messages that come again."""

from __future__ import annotations

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.core.message import DelayedEnvelope
from penstock.core.queue.delays import delays_of
from penstock.core.routing.exchange_types import make_exchange
from penstock.errors import PreconditionFailed
from penstock.settings.without_effect import DELAYED, DELAYED_TYPE
from tests.support.broker_fixture import House
from tests.support.full_queue import CHARGE


def delaying(kind: str = "topic", *queues: str, **arguments: object) -> House:
    """Return a house with an exchange `e` that delays, and a binding from it to each queue by `#` or its name."""
    house = House(*(queues or ("q",)), **arguments)
    house.vhost.declare_exchange("e", DELAYED, {DELAYED_TYPE: kind}, False, False, False)
    for name in queues or ("q",):
        house.vhost.bind("e", house.vhost.queues[name], None, "#" if kind == "topic" else name, {})
    return house


def publish(house: House, exchange: str, key: str, **headers: object) -> None:
    route = house.vhost.route(exchange, key, True)
    house.vhost.resolve(route, {name.replace("_", "-"): value for name, value in headers.items()})
    house.producer("p").publish(route, b"content", CHARGE)


def due(house: House, name: str = "q") -> list[float]:
    """Return in how many seconds the delayed messages of a queue are due."""
    delays = delays_of(house.vhost.queues[name])
    return (
        [] if delays is None else [round(each.envelope.due_time() - house.broker.now, 3) for each in delays.first(1000)]
    )


def test_header_delays_a_message_in_the_queues_of_its_route() -> None:
    house = delaying("topic", "a", "b")
    publish(house, "e", "k", x_delay=5000)
    assert (due(house, "a"), due(house, "b")) == ([5.0], [5.0])
    house.later(5.01)
    assert [int(house.vhost.queues[name].waiting()) for name in "ab"] == [1, 1]


@pytest.mark.parametrize("value", [0, -1, -5000, -(1 << 63), "0", "-3"])
def test_header_that_is_not_positive_delays_nothing(value: object) -> None:
    house = delaying()
    publish(house, "e", "k", x_delay=value)
    publish(house, "e", "k")
    assert int(house.vhost.queues["q"].waiting()) == 2


def test_header_may_be_a_text_of_a_number_and_as_long_as_2_to_53() -> None:
    house = delaying()
    publish(house, "e", "k", x_delay="1500")
    publish(house, "e", "k", x_delay=1 << 53)
    assert due(house)[0] == 1.5
    assert int(house.vhost.queues["q"].delayed_messages) == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1 << 63, "9223372036854775808"),
        ((1 << 53) + 1, "9007199254740993"),
        ("soon", "'soon'"),
        ("1.5", "'1.5'"),
        ("", "''"),
        ("9" * 21, "'9"),
        (1.5, "1.5"),
        (5000.0, "5000.0"),
        (True, "true"),
        (None, "null"),
        ([1], r"\["),
        (b"\x01", "binary|'"),
    ],
)
def test_invalid_header_is_refused_with_its_value_and_the_rule(value: object, shown: str) -> None:
    house = delaying()
    with pytest.raises(PreconditionFailed, match=rf"header x-delay is .*{shown}.*; a delay is a whole number"):
        publish(house, "e", "k", x_delay=value)
    assert house.depth("q") == 0


@pytest.mark.parametrize(
    "arguments", [{}, {DELAYED_TYPE: "x-delayed-message"}, {DELAYED_TYPE: "fan"}, {DELAYED_TYPE: 5}]
)
def test_missing_or_unknown_type_of_bindings_is_refused(arguments: dict[str, object]) -> None:
    house = House()
    with pytest.raises(PreconditionFailed, match=f"exchange 'e' in vhost '/': argument {DELAYED_TYPE} ") as refused:
        house.vhost.declare_exchange("e", DELAYED, arguments, False, False, False)
    assert "direct, fanout, topic, headers, x-" in str(refused.value)
    assert "e" not in house.vhost.exchanges


def test_declaration_with_another_type_of_bindings_is_refused() -> None:
    house = delaying("topic")
    house.vhost.declare_exchange("e", DELAYED, {DELAYED_TYPE: "topic"}, False, False, False)
    with pytest.raises(PreconditionFailed, match=f"inequivalent arg '{DELAYED_TYPE}' for exchange 'e'"):
        house.vhost.declare_exchange("e", DELAYED, {DELAYED_TYPE: "direct"}, False, False, False)


@pytest.mark.parametrize(("kind", "key", "arrives"), [("direct", "q", 1), ("direct", "k", 0), ("fanout", "k", 1)])
def test_bindings_are_found_by_the_given_type(kind: str, key: str, arrives: int) -> None:
    house = delaying(kind)
    publish(house, "e", key, x_delay=1000)
    assert house.depth("q") == arrives


def test_bindings_of_headers_are_checked_and_compared() -> None:
    house = delaying("headers", "other")
    queue = house.vhost.queues["other"]
    with pytest.raises(PreconditionFailed, match="x-match"):
        house.vhost.bind("e", queue, None, "", {"x-match": "most"})
    house.vhost.bind("e", queue, None, "", {"colour": "red"})
    house.vhost.unbind("e", queue, None, "other", {})
    publish(house, "e", "", x_delay=1000, colour="blue")
    publish(house, "e", "", x_delay=1000, colour="red")
    assert int(queue.delayed_messages) == 1
    house.vhost.unbind("e", queue, None, "", {"colour": "red"})
    assert house.vhost.exchanges["e"].routing_kind() == "headers"


def test_message_is_unroutable_when_it_is_published_and_not_when_it_is_due() -> None:
    house = delaying("direct")
    publish(house, "e", "nowhere", x_delay=5000)
    assert int(house.broker.unroutable) == 1
    assert due(house) == []


def test_queue_that_is_reached_past_the_delaying_exchange_gets_the_message_at_once() -> None:
    house = delaying("topic", "late")
    house.queue("direct", "behind")
    vhost = house.vhost
    vhost.declare_exchange("front", "fanout", {}, False, False, False)
    vhost.declare_exchange("next", "fanout", {}, False, False, False)
    vhost.bind("front", None, vhost.exchanges["e"], "k", {})
    vhost.bind("front", vhost.queues["direct"], None, "k", {})
    vhost.bind("e", None, vhost.exchanges["next"], "#", {})
    vhost.bind("next", vhost.queues["behind"], None, "", {})
    publish(house, "front", "k", x_delay=5000)
    assert int(vhost.queues["direct"].waiting()) == 1
    assert (due(house, "late"), due(house, "behind")) == ([5.0], [5.0])


def test_header_has_no_effect_at_other_exchanges() -> None:
    house = House("q")
    publish(house, "", "q", x_delay="soon")
    assert int(house.vhost.queues["q"].waiting()) == 1


def test_variants_of_a_delayed_route_are_delayed_as_well() -> None:
    house = delaying()
    route = house.vhost.route("e", "k", False)
    house.vhost.resolve(route, {"x-delay": 1000})
    for variant in (route.persistent(), route.with_priority(3), route.variant(0, 5.0), route.until(1, 5.0, 200.0)):
        envelope = variant.envelope
        assert isinstance(envelope, DelayedEnvelope)
        assert (envelope.due, int(envelope.header.delay_ms)) == (house.broker.now + 1, 1000)
    ttls = [each.envelope.plain.ttl_s for each in (route.with_priority(3), route.variant(0, 5.0))]  # type: ignore[attr-defined]
    assert ttls == [float("inf"), 5.0]


def test_dead_letter_of_a_message_with_an_invalid_header_is_not_delayed() -> None:
    house = delaying("topic", "dead")
    house.queue("work", dead_letter_exchange="e")
    publish(house, "", "work", x_delay="soon")
    assert house.session.get(house.vhost.queues["work"], False, house.broker.now) is not None
    house.session.unsettled.settle_tag(1, False, Outcome.REJECTED, house.broker.now)
    house.later(0.01)
    assert int(house.vhost.queues["dead"].waiting()) == 1


def test_misspelt_exchange_type_is_refused_with_the_nearest() -> None:
    with pytest.raises(PreconditionFailed, match="did you mean 'x-delayed-message'"):
        make_exchange("x-delayed-messages", "/", "e")


def test_delaying_exchange_may_hash_a_property() -> None:
    house = House("a", "b")
    arguments: dict[str, object] = {DELAYED_TYPE: "x-consistent-hash", "hash-property": "message_id"}
    house.vhost.declare_exchange("e", DELAYED, arguments, False, False, False)
    for name in ("a", "b"):
        house.vhost.bind("e", house.vhost.queues[name], None, "1", {})
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'hash-property'"):
        house.vhost.declare_exchange("e", DELAYED, {DELAYED_TYPE: "x-consistent-hash"}, False, False, False)
    route = house.vhost.route("e", "k", True)
    house.vhost.resolve(route, {"x-delay": 1000})
    assert route.selects
    assert len(route.queues) == 1
