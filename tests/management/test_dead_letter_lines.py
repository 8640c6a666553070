"""Sentences of `penstock why` about dead letters: waiting, without a target, and lost ones."""

from __future__ import annotations

import pytest

from penstock.management.dead_letter_lines import has_parked, parked_line, sentences
from tests.support.dead_letters import Morgue


def rejected(count: int, **arguments: object) -> Morgue:
    """Return a house whose queue work has had so many messages rejected."""
    house = Morgue(**arguments)
    house.queue("dead", capacity_messages=1, hold_deadline=10)
    house.put(b"old", queue="dead")
    house.put(*[b"x"] * count)
    house.deliver(count)
    house.reject(count, multiple=True)
    return house


@pytest.mark.parametrize(
    ("count", "strategy", "said"),
    [
        (1, "at-most-once", "1 dead letter of queue work waits at queue 'dead'; the first of them is lost in 10.0 s"),
        (2, "at-most-once", "2 dead letters of queue work wait at queue 'dead'; the first of them is lost in 10.0 s"),
        (2, "at-least-once", "2 dead letters of queue work wait at queue 'dead', for as long as need be"),
    ],
)
def test_waiting_letters_are_named_with_their_strategy(count: int, strategy: str, said: str) -> None:
    house = rejected(count, dead_letter_strategy=strategy)
    assert sentences(house["work"], house.broker) == [f"{said} ({strategy})"]


def test_lost_dead_letters_are_named_with_the_strategy_at_least_once() -> None:
    house = rejected(2)
    house.run(11.0)
    (line,) = sentences(house["work"], house.broker)
    assert line.startswith("2 dead letters of queue work were lost (dead-letter-strategy=at-most-once): ")
    assert line.endswith("; dead-letter-strategy=at-least-once keeps them")


def test_letters_without_a_way_are_named_with_the_cause() -> None:
    house = rejected(1, dead_letter_exchange="nowhere", dead_letter_strategy="at-least-once")
    assert has_parked(house["work"])
    assert sentences(house["work"], house.broker) == [parked_line(house["work"])]
    assert parked_line(house["work"]) == (
        "1 dead letter of queue work has no way (at-least-once): its dead-letter exchange 'nowhere' is not there; "
        "it keeps its room in the queue until there is a way, or the queue is deleted"
    )


def test_queue_without_dead_letters_has_no_sentence() -> None:
    house = Morgue()
    assert not has_parked(house["work"])
    assert sentences(house["work"], house.broker) == []
