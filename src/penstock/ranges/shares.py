"""Fair shares of an amount: no share exceeds its need, and the rest is shared by the others."""

from __future__ import annotations

from mypy_extensions import i64


class FairShare:
    """The largest share of each need, in whole units: needs up to `level` are met.

    The first `rest` needs above the level get one unit more. So the sum of all shares is the amount or the sum of all
    needs, whichever is less (max-min fairness).
    """

    __slots__ = ("level", "rest")

    def __init__(self, needs: list[int], amount: int) -> None:
        left: i64 = amount
        count: i64 = len(needs)
        self.rest: i64 = 0
        for need in sorted(needs):
            equal = left // count
            if need > equal:
                self.level: i64 = equal
                self.rest = left - equal * count
                return
            left -= need
            count -= 1
        self.level = max(needs, default=0)

    def take(self, need: i64) -> i64:
        """Return the share of the next need, in the order of the needs."""
        if need <= self.level:
            return need
        if self.rest == 0:
            return self.level
        self.rest -= 1
        return self.level + 1
