"""Store-failure gate: closed while the store cannot be written."""

from __future__ import annotations

from typing_extensions import override

from penstock.core.gates.disk_gate import STORE_FAILURE, DiskGate, DiskState


class StoreFailureGate(DiskGate):
    """Closed while the store cannot be written."""

    def __init__(self, disk: DiskState) -> None:
        super().__init__(disk, STORE_FAILURE)
        self.reason: str = ""

    @override
    def describe_cause(self, now: float) -> str:
        return self.reason
