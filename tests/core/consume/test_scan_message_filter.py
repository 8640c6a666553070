"""Filters of consumers: selectors, and messages of the consumer's own connection."""

from __future__ import annotations

import pytest

from penstock.content.selector.fields import LIKE_WORK_MAX
from penstock.content.selector.selector import parse_selector
from penstock.content.selector.values import SEARCH_WORK
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.scan import LOOK_WORK, MessageFilter, SelectorScan
from penstock.core.consume.session import Session
from penstock.core.message import Envelope, Message, Origin, OriginEnvelope
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.routing.route import Route
from penstock.errors import NotSupported
from tests.support.paging_broker import house_with
from tests.support.selecting_bench import SelectingBench, content

FORMATS = SelectingBench().broker.formats
MANY_PATTERNS = " OR ".join(["color LIKE '%a_c%'"] * 20) + " OR color LIKE '%ab'"


def message(color: str, origin: int = 0) -> Message:
    envelope = (
        Envelope("", "q") if origin == 0 else OriginEnvelope("", "q", Origin(origin, "c"), 0, float("inf"), False)
    )
    return Message(envelope, content(color, 1), 10, 1, 0.0)


def test_selector_and_origin_must_both_match() -> None:
    wanted = MessageFilter(FORMATS, parse_selector("color = 'red'"), 7)
    found = [wanted.matches(message(color, origin)) for color in ("red", "blue") for origin in (0, 7, 8)]
    assert found == [True, False, True, False, False, False]


def test_filter_without_conditions_matches_all() -> None:
    everything = MessageFilter(FORMATS)
    assert everything.matches(message("red", 7))
    assert everything.work == LOOK_WORK


def test_variant_of_an_envelope_has_the_same_origin() -> None:
    envelope = OriginEnvelope("x", "k", Origin(7, "c"), 0, float("inf"), False).variant(3, 5.0, True)
    assert isinstance(envelope, OriginEnvelope)
    assert (envelope.origin.number, envelope.priority, envelope.ttl_s, envelope.persistent) == (7, 3, 5.0, True)


def test_filter_describes_the_messages_that_the_consumer_waits_for() -> None:
    assert MessageFilter(FORMATS, parse_selector("a = 1")).describe() == "waits for a message that its selector matches"
    assert "own connection" in MessageFilter(FORMATS, None, 7).describe()


def test_consumer_with_no_local_gets_no_message_of_the_own_connection() -> None:
    """The routes of a connection carry its number, on the fast path and in all their variants."""
    bench = SelectingBench()
    route = Route(bench.vhost.route("", "q", False).envelope.from_origin(Origin(7, "c")), False)
    bench.vhost.resolve(route, {})
    producer = Producer(bench.broker, "p", HoldBudget(1 << 40))
    for number, each in enumerate((route, route.persistent(), route.with_priority(3), route.variant(2, 5.0)), 1):
        producer.publish(each, content("red", number), 10)
    assert bench.queue.messages == 4
    assert {type(each.envelope) for each in bench.queue.ready_queue.messages()} == {OriginEnvelope}
    for tag, origin in (("own", 7), ("other", 8)):
        consumer = Consumer(tag, Session(), bench.queue, False, False, 0)
        consumer.scan = SelectorScan(consumer, MessageFilter(FORMATS, None, origin), bench.broker.work)
        bench.broker.consume(consumer.session, consumer)
        bench.got[tag] = []
        bench.deliver()
    assert bench.got == {"own": [], "other": [1, 2, 3, 4]}


def test_consumer_with_no_local_is_refused_on_a_queue_that_pages() -> None:
    house = house_with()
    consumer = Consumer("a", Session(), house.queues["q"], False, False, 0)
    consumer.scan = SelectorScan(consumer, MessageFilter(house.broker.formats, None, 7), house.broker.work)
    with pytest.raises(NotSupported, match="no-local on queue 'q' in vhost '/', whose overflow policy is page"):
        house.broker.consume(consumer.session, consumer)
    assert house.queues["q"].rotation is None
    assert consumer.session.consumers == {}


def test_patterns_count_the_searched_text_and_are_bounded() -> None:
    text = "a" * 4096
    plain, costly = (MessageFilter(FORMATS, parse_selector(like)) for like in ("color LIKE '%ab%'", MANY_PATTERNS))
    assert not plain.matches(message(text))
    assert plain.searched == SEARCH_WORK + 2
    assert not plain.matches(message("a"))
    assert plain.searched == 0
    assert costly.matches(message("a" * 40 + "b"))
    assert not costly.matches(message(text + "b")), "longer than any text that is searched"
    assert not costly.matches(message("a" * 4095 + "b"))
    assert costly.searched == LIKE_WORK_MAX
