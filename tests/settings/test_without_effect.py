"""Arguments of other brokers without effect: accepted, and listed with the reason."""

from __future__ import annotations

import pytest

from penstock.core.queue.types import read_features
from penstock.settings.read import check_exchange_arguments, read_arguments, read_consume_arguments
from penstock.settings.without_effect import (
    OF_CONSUMERS,
    OF_EXCHANGES,
    OF_QUEUES,
    OF_STREAMS,
    READ_BY,
    SINGLE_ACTIVE,
    STREAM_PRIORITY,
    in_consumer,
    in_exchange,
    in_queue,
)


@pytest.mark.parametrize("name", OF_QUEUES)
def test_argument_of_a_queue_without_effect_is_taken_and_named(name: str) -> None:
    assert read_arguments("q", {name: 5}) == {}
    (sentence,) = in_queue({name: 5, "x-max-length": 5, "colour": "red"})
    assert sentence == f"argument {name} of a queue has no effect: {OF_QUEUES[name]}"


@pytest.mark.parametrize("name", OF_STREAMS)
def test_setting_of_streams_is_named_for_other_queues(name: str) -> None:
    arguments: dict[str, object] = {name: "7D" if name.endswith("age") else 5}
    assert len(read_arguments("q", arguments)) == 1
    (sentence,) = in_queue({**arguments, "x-queue-type": "classic"})
    assert sentence == f"argument {name} of a queue has no effect: {OF_STREAMS[name]}"
    assert in_queue({**arguments, "x-queue-type": "stream"}) == []


def test_offset_of_a_consumer_has_an_effect_for_streams_alone() -> None:
    arguments = {"x-stream-offset": "first", "x-priority": 5}
    assert in_consumer(arguments, "", True) == [STREAM_PRIORITY]
    assert len(in_consumer(arguments)) == 1


@pytest.mark.parametrize("name", OF_CONSUMERS)
def test_argument_of_a_consumer_without_effect_is_taken_and_named(name: str) -> None:
    assert read_consume_arguments("c", {name: 5}) == {}
    (sentence,) = in_consumer({name: 5, "x-priority": 5})
    assert sentence == f"argument {name} of a consumer has no effect: {OF_CONSUMERS[name]}"


@pytest.mark.parametrize("name", OF_EXCHANGES)
def test_argument_of_an_exchange_without_effect_is_taken_and_named(name: str) -> None:
    check_exchange_arguments("e", {name: 5})
    (sentence,) = in_exchange({name: 5, "alternate-exchange": "a", "colour": "red"})
    assert sentence == f"argument {name} of an exchange has no effect: {OF_EXCHANGES[name]}"


@pytest.mark.parametrize(("kind", "names"), READ_BY.items())
def test_argument_of_an_exchange_is_not_named_for_the_types_that_read_it(kind: str, names: tuple[str, ...]) -> None:
    assert in_exchange(names, kind) == []
    assert len(in_exchange(names, "topic")) == len(names)


def test_priority_of_a_consumer_is_named_beside_a_single_active_one() -> None:
    assert in_consumer({"x-priority": 5}, "classic") == [SINGLE_ACTIVE.format("classic")]
    assert in_consumer({}, "classic") == []
    assert read_features("q", {"x-single-active-consumer": True}).single_active
