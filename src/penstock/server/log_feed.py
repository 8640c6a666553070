"""Feed of the logs: passes log lines and the records of flow log and audit log from the driver to their writers.

A gate may open and close a thousand times a second, and a write for each line is slow. So lines beyond `LINES_AT_ONCE`
are gathered for a moment.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.driver.driver import BrokerDriver
from penstock.logs.ids import DEBUG, level_of
from penstock.server.log_formats import ADMITTED
from penstock.server.record_log import RecordLog
from penstock.server.turn_loop import wall_clock

LINES_A_TURN: Final = 100
"""Log lines passed on at once, which takes some milliseconds: there may be thousands, from as many queues."""
GATHER_S: Final = 0.02
LINES_AT_ONCE: Final = 100
"""Number of log lines within GATHER_S seconds above which further lines are written together."""

log = logging.getLogger("penstock")


class LogFeed:
    """Feed of the logs of one broker."""

    def __init__(
        self,
        driver: BrokerDriver,
        loop: asyncio.AbstractEventLoop,
        flow_log: RecordLog | None = None,
        audit_log: RecordLog | None = None,
    ) -> None:
        self._driver = driver
        self._loop = loop
        self._flow_log = flow_log
        self._audit_log = audit_log
        self.wall_offset = wall_clock(loop)() - loop.time()
        """Difference of the wall clock from the loop's clock, in seconds."""
        self._timer: asyncio.TimerHandle | None = None
        """Timer of the present batch of log lines."""
        self._lines: int = 0
        """Number of log lines in that batch."""

    def flush(self) -> None:
        """Pass on log lines, as many as the present batch may have, and all records."""
        if self._lines < LINES_AT_ONCE and not self._driver.log_queue.is_empty():
            self._log()
            if self._timer is None:
                self._timer = self._loop.call_later(GATHER_S, self._gathered)
        if self._flow_log is not None:
            records = self._driver.take_records()
            if records:
                self._flow_log.put(records)
        if self._audit_log is not None and self._driver.audit.has_records():
            self._audit_log.put(self._driver.audit.take())

    def stop(self) -> None:
        """Pass on everything, and cancel the timer."""
        self.flush()
        while not self._driver.log_queue.is_empty():
            self._log()
        if self._timer is not None:
            self._timer.cancel()

    def _log(self) -> None:
        least = log.getEffectiveLevel()
        for line in self._driver.log_queue.take(LINES_A_TURN):
            self._lines += 1
            level = DEBUG if line.quiet else level_of(str(line.fields.get("id", "")))
            if level >= least:  # Like log.log, with the time of the event.
                record = log.makeRecord(log.name, level, __file__, 0, line.text, (), None, extra=line.fields | ADMITTED)
                record.created = line.now + self.wall_offset
                record.msecs = record.created % 1.0 * 1000
                log.handle(record)

    def _gathered(self) -> None:
        self._lines = 0
        self._timer = None
        self.flush()
        if not self._driver.log_queue.is_empty() and self._timer is None:
            self._timer = self._loop.call_later(GATHER_S, self._gathered)
