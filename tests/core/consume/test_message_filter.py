"""Filters of consumers: selectors, and messages of the own connection."""

from __future__ import annotations

from penstock.content.selector.selector import parse_selector
from penstock.core.consume.message_filter import LOOK_WORK, MessageFilter
from penstock.core.message import Envelope, Message, OriginEnvelope
from tests.support.selecting_bench import SelectingBench, content

FORMATS = SelectingBench().broker.formats


def message(color: str, origin: int = 0) -> Message:
    envelope = Envelope("", "q") if origin == 0 else OriginEnvelope("", "q", origin, 0, float("inf"), False)
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
    envelope = OriginEnvelope("x", "k", 7, 0, float("inf"), False).variant(3, 5.0, True)
    assert isinstance(envelope, OriginEnvelope)
    assert (envelope.origin, envelope.priority, envelope.ttl_s, envelope.persistent) == (7, 3, 5.0, True)


def test_filter_says_what_its_consumer_waits_for() -> None:
    assert MessageFilter(FORMATS, parse_selector("a = 1")).describe() == "waits for a message that its selector matches"
    assert "own connection" in MessageFilter(FORMATS, None, 7).describe()
