"""Slices of a batch for its tasks, and what is done where one yields fewer messages than were planned."""

from dataclasses import dataclass

from pyspark_penstock.errors import CursorError
from pyspark_penstock.logs import LOG
from pyspark_penstock.offsets import Range
from pyspark_penstock.parsing import Address


@dataclass(frozen=True, slots=True)
class Slice:
    """Range read by one task: ``lo < sequence <= hi`` of one queue, with the fencing token of its query or lease."""

    server: Address
    queue: str
    token: int
    lo: int
    hi: int
    rows: int
    """Number of messages that were planned; 0 if it is not known."""
    lease: int = 0
    """Number of the lease of a batch read; 0 for a stream, which reads by its cursor and token."""
    pinned: bool = True
    """False for a queue that is read as it is: what leaves it meanwhile is missing."""


TRANSIENT = "transient messages do not survive a restart of their broker"
UNPINNED = (
    "a query, a consumer or an operator removed them, or their broker was restarted, while no lease pinned them. Read "
    "again with a longer leaseTimeout, or keep what was read (DataFrame.persist, or a table)"
)


def report_gone(range_: Range, fail: bool) -> None:
    """Report that messages of a range are gone, whose number is not known. Raises `CursorError` as `report_hole`."""
    text = f"messages {range_.lo + 1} to {range_.hi} of '{range_.key}' are gone: {UNPINNED}"
    if fail:
        raise CursorError(f"{text}; failOnDataLoss=false continues without them")
    LOG.warning("penstock: %s; going on without them", text)


def report_hole(range_: Range, planned: int, found: int, fail: bool, reason: str = TRANSIENT) -> None:
    """Report that a range yields fewer messages than were planned.

    Raises `CursorError`, or with `fail` false logs a warning.
    """
    text = (
        f"{planned - found} of the {planned} planned messages {range_.lo + 1} to {range_.hi} of '{range_.key}' are "
        f"gone: {reason}"
    )
    if fail:
        raise CursorError(f"{text}; failOnDataLoss=false continues without them")
    LOG.warning("penstock: %s; going on without them", text)
