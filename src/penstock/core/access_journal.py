"""Recording of changes of users, permissions and limits in the journal."""

from __future__ import annotations

from typing_extensions import override

from penstock.access.user import AccessRecord, AccessRecorder
from penstock.core.queue.context import QueueContext


class AccessJournal(AccessRecorder):
    """Recorder that writes to the broker's journal, if there is one."""

    def __init__(self, broker: QueueContext) -> None:
        self._broker = broker

    @override
    def check_writable(self) -> None:
        if self._broker.journal is not None:
            self._broker.journal.check_writable()

    @override
    def change(self, record: AccessRecord) -> None:
        if self._broker.journal is not None:
            self._broker.journal.change(record)

    @override
    def forget(self, record: AccessRecord) -> None:
        if self._broker.journal is not None:
            self._broker.journal.forget(record)
