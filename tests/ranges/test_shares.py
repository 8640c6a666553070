"""Fair shares: the sum is exact, and no share exceeds its need or falls below the fair one without need."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.flow.level import UNLIMITED
from penstock.ranges.shares import FairShare
from tests.profiles import examples


def shared(needs: list[int], amount: int) -> list[int]:
    share = FairShare(needs, amount)
    return [int(share.take(need)) for need in needs]


@pytest.mark.parametrize(
    ("needs", "amount", "shares"),
    [
        ([20_000, *[0] * 99], 10_000, [10_000, *[0] * 99]),
        ([*[5] * 99, 20_000], 10_000, [*[5] * 99, 9_505]),
        ([500, 20, 500], 300, [140, 20, 140]),
        ([9, 9, 9], 8, [3, 3, 2]),
        ([9, 9, 9], 2, [1, 1, 0]),
        ([1, 2], 100, [1, 2]),
        ([7, 7], 0, [0, 0]),
        ([], 5, []),
        ([UNLIMITED, UNLIMITED], UNLIMITED, [UNLIMITED // 2, UNLIMITED // 2]),
    ],
)
def test_share_is_the_need_or_the_level(needs: list[int], amount: int, shares: list[int]) -> None:
    assert shared(needs, amount) == shares


@given(needs=st.lists(st.integers(0, 50), max_size=12), amount=st.integers(0, 400))
@settings(max_examples=examples(300))
def test_shares_are_exact_and_fair_for_any_needs(needs: list[int], amount: int) -> None:
    shares = shared(needs, amount)
    assert sum(shares) == min(sum(needs), amount)
    assert all(share <= need for share, need in zip(shares, needs, strict=True))
    short = [share for share, need in zip(shares, needs, strict=True) if share < need]
    if short:
        assert max(shares) - min(short) <= 1, "who lacks something has as much as anybody, but for one unit"
        assert sorted(short, reverse=True) == short, "units that cannot be divided go to the first ones"
