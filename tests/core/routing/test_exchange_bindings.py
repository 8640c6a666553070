"""Bindings, found by their destination, and their identity."""

from __future__ import annotations

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.core.routing.exchange import EXCHANGE, QUEUE, SELECTOR, binding_key
from penstock.core.routing.topology import resolve_message
from penstock.errors import InvalidField, ResourceError
from tests.support.broker_fixture import House
from tests.support.selecting_bench import TOY, SelectingBench, content


def house_with_bindings() -> House:
    house = House()
    for name in "ab":
        house.queue(name)
        house.vhost.bind("amq.direct", house.vhost.queue(name), None, "k", {})
    house.vhost.bind("amq.fanout", None, house.vhost.exchange("amq.direct"), "", {})
    return house


def test_bindings_are_found_by_destination() -> None:
    vhost = house_with_bindings().vhost
    assert vhost.bindings.count == 3
    assert [binding.source.name for binding in vhost.bindings.to(QUEUE, "a")] == ["amq.direct"]
    assert [binding.source.name for binding in vhost.bindings.to(EXCHANGE, "amq.direct")] == ["amq.fanout"]
    assert vhost.bindings.to(QUEUE, "amq.direct") == []


def test_bindings_that_are_removed_are_found_no_more() -> None:
    vhost = house_with_bindings().vhost
    (binding,) = vhost.bindings.to(QUEUE, "a")
    vhost.bindings.remove(binding)
    assert vhost.bindings.to(QUEUE, "a") == []
    assert vhost.bindings.count == 2
    assert vhost.exchange("amq.direct").find(vhost.queue("a"), None, "k", {}) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {}, True),
        ({"x": 1, "y": "a"}, {"y": "a", "x": 1}, True),
        ({"x": 1}, {"x": "1"}, False),
        ({"x": 1}, {"x": True}, False),
        ({"x": 1}, {}, False),
    ],
)
def test_bindings_are_equal_by_type_and_value_of_the_arguments(
    one: dict[str, object], other: dict[str, object], same: bool
) -> None:
    queue = house_with_bindings().vhost.queue("a")
    assert (binding_key(queue, None, "k", one) == binding_key(queue, None, "k", other)) is same


# Selectors


@pytest.fixture
def bench() -> SelectingBench:
    return SelectingBench()


def test_selector_of_a_binding_chooses_among_the_messages_of_the_key(bench: SelectingBench) -> None:
    vhost = bench.vhost
    for name, text in (("red", "color = 'red'"), ("many", "n > 5"), ("all", None)):
        queue = vhost.declare_queue(name, {}, False, False, None, None)
        vhost.bind("amq.topic", queue, None, "k.#", {} if text is None else {SELECTOR: text})

    def targets(color: str, number: int, key: str = "k.a") -> list[str]:
        route = vhost.route("amq.topic", key, False)
        resolve_message(vhost, route, {}, content(color, number), TOY)
        assert route.single_queue is None or key == "other"
        return sorted(each.name for each in route.queues)

    assert targets("red", 1) == ["all", "red"]
    assert targets("blue", 9) == ["all", "many"]
    assert targets("red", 9) == ["all", "many", "red"]
    assert targets("red", 9, "other") == []
    resolve = vhost.route("amq.topic", "k", False)
    vhost.resolve(resolve, {})
    assert (resolve.by_headers, resolve.selects, len(resolve.queues)) == (True, True, 3), "the message is not known"


def test_unreadable_message_has_no_fields_for_a_selector(bench: SelectingBench) -> None:
    vhost = bench.vhost
    vhost.bind("amq.fanout", bench.queue, None, "", {SELECTOR: "color IS NULL"})
    route = vhost.route("amq.fanout", "", False)
    resolve_message(vhost, route, {}, b"Tnonsense", TOY)
    assert route.queues == [bench.queue]
    resolve_message(vhost, route, {}, content("red", 1), TOY)
    assert route.queues == []


def test_selectors_between_exchanges_and_alternates(bench: SelectingBench) -> None:
    vhost = bench.vhost
    vhost.declare_exchange("first", "fanout", {"alternate-exchange": "amq.direct"}, False, False, False)
    vhost.bind("first", None, vhost.exchange("amq.fanout"), "", {SELECTOR: "color = 'red'"})
    vhost.bind("amq.fanout", bench.queue, None, "", {})
    other = vhost.declare_queue("other", {}, False, False, None, None)
    vhost.bind("amq.direct", other, None, "k", {})
    route = vhost.route("first", "k", False)
    resolve_message(vhost, route, {}, content("red", 1), TOY)
    assert route.queues == [bench.queue]
    resolve_message(vhost, route, {}, content("blue", 1), TOY)
    assert route.queues == [other]


@pytest.mark.parametrize(
    ("value", "reason"),
    [("color =", "not valid at character 8"), (1, "must be a string, the text of a message selector")],
)
def test_binding_with_an_invalid_selector_is_refused(value: object, reason: str, bench: SelectingBench) -> None:
    with pytest.raises(InvalidField, match=reason):
        bench.vhost.bind("amq.fanout", bench.queue, None, "", {SELECTOR: value})
    assert not bench.vhost.exchanges["amq.fanout"].bindings


def test_selectors_count_as_work_and_are_bounded_for_a_message(bench: SelectingBench) -> None:
    vhost = bench.vhost
    text = " AND ".join([f"n <> {number}" for number in range(1000, 1200)])
    for number in range(60):
        vhost.bind("amq.fanout", bench.queue, None, str(number), {SELECTOR: f"{text} AND n <> {number + 5000}"})
    route = vhost.route("amq.fanout", "", False)
    before = bench.broker.work.done
    with pytest.raises(ResourceError, match="evaluate too many selectors"):
        resolve_message(vhost, route, {}, content("red", 1), TOY)
    assert bench.broker.work.done - before >= 2000


def publish_to_patterns(pattern: str, size: int) -> int:
    """Publish texts of this size to 28 bindings of 15 patterns each; returns the units of work."""
    bench = SelectingBench()
    for number in range(28):
        text = " OR ".join([f"color LIKE '{pattern}{number}'"] * 15)
        bench.vhost.bind("amq.fanout", bench.queue, None, str(number), {SELECTOR: text})
    before = bench.broker.work.done
    resolve_message(bench.vhost, bench.vhost.route("amq.fanout", "", False), {}, content("a" * size, 1), TOY)
    return int(bench.broker.work.done - before)


def test_patterns_of_selectors_count_the_searched_text() -> None:
    assert publish_to_patterns("%a_b%", 10) > publish_to_patterns("%", 10)
    assert publish_to_patterns("%", 4096) == publish_to_patterns("%", 10)
    for pattern in ("%a_b%", f"%{'a' * 100}b%"):
        with pytest.raises(ResourceError, match="search too much text for the patterns of its bindings' selectors"):
            publish_to_patterns(pattern, 4096)


def test_dead_letter_follows_the_selectors_of_bindings(bench: SelectingBench) -> None:
    vhost = bench.vhost
    red = vhost.declare_queue("red", {}, False, False, None, None)
    vhost.bind("amq.fanout", red, None, "", {SELECTOR: "color = 'red'"})
    dying = vhost.declare_queue("dying", {"x-dead-letter-exchange": "amq.fanout"}, False, False, None, None)
    for color in ("red", "blue"):
        dying.enqueue(Envelope("", "dying"), content(color, 1), 10, 1.0)
    session = Session()
    for _ in range(2):
        session.get(dying, False, 1.0)
    session.unsettled.settle(1, 2, Outcome.REJECTED, 1.0)
    for _ in range(5):
        bench.broker.run(100)
    assert (dying.messages, red.messages) == (0, 1)
