"""Slices of a batch for its tasks, and the report of a slice with fewer messages than planned.

A task costs PySpark 45 ms of CPU, even for few messages. So small slices are packed: a task reads several queues, one
after the other, and a request has several ranges. The packing is a function of the slices and of the options of the
batch's cut. So each task yields the same rows in the same order when the batch is run again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark_penstock.errors import CursorError
from pyspark_penstock.logs import LOG
from pyspark_penstock.offsets import Range
from pyspark_penstock.parsing import Address

PACKED_ROWS = 10_000
"""Most sequence numbers of a task with several slices. Reading them takes less than the task costs."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Range read by one task: ``lo < sequence <= hi`` of one queue, with the fencing token of its query or lease."""

    server: Address
    queue: str
    token: int
    lo: int
    hi: int
    rows: int
    """Number of planned messages; 0 if unknown."""
    lease: int = 0
    """Number of the lease of a batch read; 0 for a stream, which reads by its cursor and token."""
    pinned: bool = True
    """False for a queue that is not pinned: messages that leave it meanwhile are missing."""


def packed(slices: Sequence[Slice], least: int, most_rows: int) -> list[tuple[Slice, ...]]:
    """Return the slices for each task: neighbours on one server, as long as they are small together.

    `least` is the desired number of tasks, `most_rows` limits the sequence numbers of one task.
    """
    total = sum(each.hi - each.lo for each in slices)
    most = min(PACKED_ROWS, most_rows, total // least)
    tasks: list[list[Slice]] = []
    open_: dict[Address, tuple[int, int]] = {}
    """Index of the last task of each server, and its sequence numbers."""
    for each in slices:
        index, size = open_.get(each.server, (-1, most))
        size += each.hi - each.lo
        if size > most:
            index, size = len(tasks), each.hi - each.lo
            tasks.append([])
        tasks[index].append(each)
        open_[each.server] = index, size
    return [tuple(task) for task in tasks]


TRANSIENT = "transient messages do not survive a restart of their broker"
UNPINNED = (
    "a query, a consumer or an operator removed them, or their broker was restarted, while no lease pinned them. Read "
    "again with a longer leaseTimeout, or keep what was read (DataFrame.persist, or a table)"
)


def report_gone(range_: Range, fail: bool) -> None:
    """Report that an unknown number of messages of a range is gone. Raises `CursorError` as `report_hole`."""
    text = f"messages {range_.lo + 1} to {range_.hi} of '{range_.key}' are gone: {UNPINNED}"
    if fail:
        raise CursorError(f"{text}; failOnDataLoss=false continues without them")
    LOG.warning("penstock: %s; going on without them", text)


def report_hole(range_: Range, planned: int, found: int, fail: bool, reason: str = TRANSIENT) -> None:
    """Report that a range yields fewer messages than planned.

    Raises `CursorError`, or with `fail` false logs a warning.
    """
    text = (
        f"{planned - found} of the {planned} planned messages {range_.lo + 1} to {range_.hi} of '{range_.key}' are "
        f"gone: {reason}"
    )
    if fail:
        raise CursorError(f"{text}; failOnDataLoss=false continues without them")
    LOG.warning("penstock: %s; going on without them", text)
