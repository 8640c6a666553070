"""What is declared is put together for the store a share of work a turn."""

from __future__ import annotations

import pytest

from penstock.flow.work import SHARE
from penstock.persistence.settlements import CHANGE_WORK, encode_steps
from tests.support import at_once
from tests.support.durable_broker import Kept
from tests.support.memory_store import WALL
from tests.support.turn_costs import turn_costs

MANY = 3_000


def declared(**arguments: object) -> Kept:
    """Return a broker with durable queues of which the store does not know."""
    house = Kept()
    for number in range(MANY):
        house.vhost.declare_queue(f"q{number}", dict(arguments), True, False, None, None)
    return house


def costs(house: Kept) -> tuple[list[int], int]:
    """Put together all that there is, a share a turn; return the units of each turn, and how many things came."""
    work = house.broker.work
    turns, commit = turn_costs(work, encode_steps(house.journal, house.journal.take(), WALL, work))
    return turns, len(commit.metadata)


def test_thousands_of_declarations_are_put_together_a_share_a_turn() -> None:
    house = declared()
    turns, things = costs(house)
    assert things >= MANY
    assert len(turns) >= MANY * CHANGE_WORK // SHARE
    assert max(turns) <= SHARE + 2 * CHANGE_WORK


@pytest.mark.once
def test_long_arguments_are_counted_by_their_octets() -> None:
    short, long = declared(), declared(**{"x-note": "n" * 10_000})
    assert sum(costs(long)[0]) > 5 * sum(costs(short)[0])


@pytest.mark.once
def test_what_is_put_together_in_slices_is_what_is_put_together_at_once() -> None:
    one, other = declared(), declared()
    steps = encode_steps(one.journal, one.journal.take(), WALL, one.broker.work)
    one.broker.work.limit = 0
    slices = 1
    while True:
        try:
            next(steps)
            slices += 1
        except StopIteration as end:
            in_slices = end.value
            break
    whole = at_once.encode(other.journal, other.journal.take(), WALL)
    assert slices > MANY
    assert in_slices.metadata == whole.metadata
    assert in_slices.positions == whole.positions


def test_queue_that_is_deleted_while_it_is_put_together_is_gone_with_the_next_transaction() -> None:
    house = declared()
    steps = encode_steps(house.journal, house.journal.take(), WALL, house.broker.work)
    house.broker.work.limit = house.broker.work.done + SHARE
    next(steps)
    house.broker.delete_queue(house.vhost.queues[f"q{MANY - 1}"])
    house.broker.work.limit = 1 << 62
    try:
        while True:
            next(steps)
    except StopIteration as end:
        first = end.value
    house.journal.written()
    then = at_once.encode(house.journal, house.journal.take(), WALL)
    assert [record.data is None for record in first.metadata if record.key.endswith(f"q{MANY - 1}")] == [False]
    assert [record.data is None for record in then.metadata if record.key.endswith(f"q{MANY - 1}")] == [True]
