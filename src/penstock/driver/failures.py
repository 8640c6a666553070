"""Exceptions that nothing expects: the client gets an internal error, and the log one traceback for each place."""

from __future__ import annotations

import traceback
from typing import Final

from typing_extensions import override

from penstock.driver.log_queue import LogQueue
from penstock.errors import InternalError
from penstock.log_ids import INTERNAL_ERROR
from penstock.management.node import FailureReports
from penstock.protocols.common.log_line import LogLine

PLACES_MOST: Final = 100
"""Places whose traceback was logged; beyond, there is a line without it."""
LINES_MOST: Final = 60
"""Most lines of a traceback, the last ones."""


class Failures(FailureReports):
    """Unexpected exceptions of one broker."""

    def __init__(self, log_queue: LogQueue) -> None:
        self._log_queue = log_queue
        self._places: dict[str, None] = {}
        self.count: int = 0
        """Number of exceptions so far."""

    @override
    def report(self, what: str, error: Exception) -> InternalError:
        """See `FailureReports.report`.

        The text of the error says no more than the type: the exception may quote what the client must not see.
        """
        self.count += 1
        kind = type(error).__name__
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
        line = f"{what} broke off with {kind} at {place}"
        key = f"{kind} {place}"
        if key in self._places or len(self._places) >= PLACES_MOST:
            self._log_queue.add_refusal(INTERNAL_ERROR, line)
        else:
            self._places[key] = None
            self._log(f"{line}; please report this:")
            text = "".join(traceback.format_exception(error))
            for each in text.splitlines()[-LINES_MOST:]:
                self._log(each)
        return InternalError(f"{what} broke off with an internal error ({kind}); the log has more")

    def _log(self, text: str) -> None:
        self._log_queue.add(LogLine(text, {"id": INTERNAL_ERROR}))
