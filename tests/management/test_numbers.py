"""Numbers: of a broker that is alone, and of shards."""

from __future__ import annotations

from penstock.cluster.catalogue import SHARDS_MOST
from penstock.management.numbers import APART, Numbers


def test_numbers_of_a_broker_that_is_alone_begin_with_1() -> None:
    numbers = Numbers()
    assert numbers.coming() == 1
    assert [numbers.next() for _ in range(3)] == [1, 2, 3]


def test_numbers_of_shards_never_meet() -> None:
    every = []
    for shard in range(SHARDS_MOST + 1):
        numbers = Numbers()
        numbers.begin_with(shard)
        every += [numbers.next() for _ in range(5)]
    assert len(set(every)) == len(every)
    assert every[:2] == [APART, 2 * APART]
