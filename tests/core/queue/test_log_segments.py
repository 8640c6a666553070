"""Segments: pages that are dropped together."""

from __future__ import annotations

import itertools

import pytest

from penstock.core.queue.log_segments import LEAST_BYTES, PARTS, SEGMENTS_MAX, UNKNOWN, Segments, segment_bytes
from penstock.flow.level import OVERHEAD, UNLIMITED
from penstock.flow.timers import NEVER


def with_pages(pages: int, size: int, most: int, span_s: float = NEVER, every_s: float = 1.0) -> Segments:
    segments = Segments()
    for page in range(pages):
        at = page * every_s
        segments.add(page * 10 + 1, page * 10 + 10, 10, size + 10 * OVERHEAD, at, at, most, span_s)
    return segments


def test_segment_ends_at_its_size() -> None:
    segments = with_pages(10, 100, 250)
    assert [(int(each.first), int(each.last), int(each.messages)) for each in segments.line] == [
        (1, 30, 30), (31, 60, 30), (61, 90, 30), (91, 100, 10),
    ]  # fmt: skip
    assert [int(each.data_bytes()) for each in segments.line] == [300, 300, 300, 100]


def test_segment_ends_when_it_covers_its_time() -> None:
    segments = with_pages(6, 1, 1 << 40, span_s=2.0)
    assert [(each.oldest, each.newest) for each in segments.line] == [(0.0, 1.0), (2.0, 3.0), (4.0, 5.0)]


def test_pages_of_unknown_age_end_at_their_size_alone() -> None:
    segments = Segments()
    for page in range(5):
        segments.add(page + 1, page + 1, 1, 1, UNKNOWN, UNKNOWN, 1 << 40, 0.5)
    assert len(segments.line) == 1


def test_neighbours_are_joined_at_the_bound_and_later_segments_are_larger() -> None:
    segments = with_pages(SEGMENTS_MAX, 100, 100)
    assert len(segments.line) == SEGMENTS_MAX
    first = SEGMENTS_MAX * 10 + 1
    for page in range(100):
        number = first + page * 10
        segments.add(number, number + 9, 10, 100 + 10 * OVERHEAD, 9e9, 9e9, 100, NEVER)
    line = list(segments.line)
    assert len(line) == SEGMENTS_MAX // 2 + 50
    assert all(one.last + 1 == other.first for one, other in itertools.pairwise(line))
    assert sum(each.messages for each in line) == (SEGMENTS_MAX + 100) * 10
    assert min(each.data_bytes() for each in line) == 200


@pytest.mark.parametrize(
    ("setting", "limit", "expected"),
    [
        (500_000_000, UNLIMITED, 500_000_000),
        (500_000_000, 80_000_000, 80_000_000 // PARTS),
        (1_000_000, 80_000_000, 1_000_000),
        (500_000_000, 1000, LEAST_BYTES),
        (1, UNLIMITED, LEAST_BYTES),
    ],
)
def test_size_of_a_segment_is_a_part_of_the_limit(setting: int, limit: int, expected: int) -> None:
    assert segment_bytes(setting, limit) == expected
