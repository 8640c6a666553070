"""Messages that are on the disk elsewhere, by their index in a group."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.journal.moved_messages import MovedMessages


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=8), st.lists(st.booleans(), max_size=60))
def test_moved_indexes_are_found_before_and_after_gaps_are_closed(
    steps: list[tuple[int, int]], kept: list[bool]
) -> None:
    moved = MovedMessages()
    wanted: set[int] = set()
    end = 0
    for gap, count in steps:
        moved.add(end + gap, end + gap + count)
        wanted.update(range(end + gap, end + gap + count))
        end += gap + count
    assert {index for index in range(end + 2) if moved.holds(index)} == wanted
    messages = [object() if index >= len(kept) or kept[index] else None for index in range(end)]
    left = [index for index in range(end) if messages[index] is not None]
    closed = moved.without_gaps(messages)
    assert [closed.holds(index) for index in range(len(left))] == [index in wanted for index in left]


def test_index_is_not_found_without_moved_messages() -> None:
    assert not MovedMessages().holds(0)
