"""Quota gate: a bound on the stored bytes of the broker or of one virtual host."""

from __future__ import annotations

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.gates.disk_gate import QUOTA, DiskGate, DiskState
from penstock.flow.level import UNLIMITED


class QuotaGate(DiskGate):
    """Limit of stored bytes: the store's disk use for the broker, charges for a virtual host."""

    def __init__(self, disk: DiskState, vhost: str) -> None:
        super().__init__(disk, f"{QUOTA} of vhost {vhost}" if vhost else QUOTA)
        self.vhost = vhost
        """Empty for the broker's quota."""
        self.overfull: i64 = UNLIMITED
        self.underfull: i64 = UNLIMITED
        self.bytes: i64 = 0
        """Bytes at the last check."""

    def judge(self, amount: i64, now: float) -> None:
        """Close above overfull, open at or below underfull."""
        self.bytes = amount
        if self.gate.open and amount > self.overfull:
            self.move(True, amount, now)
        elif not self.gate.open and amount <= self.underfull:
            self.move(False, amount, now)
        self.update_gate(now)

    @override
    def vhost_name(self) -> str | None:
        return self.vhost or None

    def limits_increase(self, messages: i64, bytes: i64) -> bool:
        """Return whether the commit adds bytes; one that frees as much passes."""
        return bytes > 0

    @override
    def describe_cause(self, now: float) -> str:
        what = "stored" if self.vhost else "used"
        sign = ">" if self.bytes > self.overfull else "after more than"
        return (
            f"{int(self.bytes):,} bytes {what} {sign} disk-overfull {int(self.overfull):,} "
            f"(opens at {int(self.underfull):,})"
        )
