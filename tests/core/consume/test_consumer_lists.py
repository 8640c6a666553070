"""Rings of consumers: whose turn it is, and the shares of a round."""

from __future__ import annotations

from penstock.core.consume.consumer import Consumer, RoundRobin
from penstock.core.consume.session import Session
from tests.support.bare_queue import queue_with


def ring(*tags: str) -> tuple[RoundRobin, dict[str, Consumer]]:
    _, queue = queue_with(0)
    session = Session()
    consumers = {tag: Consumer(tag, session, queue, False, False, 0) for tag in tags}
    rank = RoundRobin(0)
    for consumer in consumers.values():
        rank.join(consumer)
    return rank, consumers


def turn(rank: RoundRobin, available: int) -> tuple[str, int]:
    consumer = rank.next
    assert consumer is not None
    share = int(rank.next_share(available))
    rank.finish_turn()
    return consumer.tag, share


def test_a_round_divides_the_messages_that_were_there_at_its_start() -> None:
    rank, _ = ring("a", "b", "c")
    assert [turn(rank, available) for available in (10, 100, 1)] == [("a", 3), ("b", 3), ("c", 3)]
    assert [turn(rank, available) for available in (2, 100)] == [("a", 1), ("b", 1)]


def test_a_consumer_that_joins_is_the_last_in_turn() -> None:
    rank, consumers = ring("a", "b", "late")
    rank.remove(consumers["late"])
    assert turn(rank, 4) == ("a", 2)
    rank.join(consumers["late"])
    assert [turn(rank, 6)[0] for _ in range(3)] == ["b", "a", "late"]


def test_when_the_first_leaves_the_round_begins_with_its_successor() -> None:
    rank, consumers = ring("a", "b", "c")
    assert turn(rank, 9) == ("a", 3)
    rank.remove(consumers["a"])
    assert turn(rank, 8) == ("b", 4)
    assert turn(rank, 100) == ("c", 4)


def test_the_only_consumer_gets_everything() -> None:
    rank, consumers = ring("a")
    assert (turn(rank, 7), turn(rank, 5)) == (("a", 7), ("a", 5))
    rank.remove(consumers["a"])
    assert (rank.next, rank.first, int(rank.size)) == (None, None, 0)
