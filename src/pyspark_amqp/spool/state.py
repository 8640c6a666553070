"""State that the two threads of a spool share: one talks to the broker and writes, the other answers the reader.

The consumer's thread owns the files and the connection. The reader's thread plans batches from the index of frames and
sets the position that Spark has settled. All attributes are read and written under `changed`.
"""

import os
import threading
import time
from bisect import bisect_left
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pyspark_amqp.spool.errors import SpoolError
from pyspark_amqp.spool.log import Frame, SpoolLog, read_batch, read_file, read_segment_head, segment_name

LOOK_SECONDS: Final = 1.0
"""Longest wait before a thread checks again."""


@dataclass(frozen=True, slots=True)
class Planned:
    """End of a batch, and its size."""

    end: int
    rows: int
    octets: int


@dataclass
class Trouble:
    """Reason why no new messages come, and the failed attempts in a row."""

    text: str
    attempts: int


class SpoolState:
    """State of a spool between two threads; see the module."""

    def __init__(self, log: SpoolLog, settled: int, retries: int, brake: int | None = None) -> None:
        self.changed = threading.Condition()
        self.log = log
        self.settled = settled
        self.drains = False
        """True for a query that reads the present messages and ends."""
        self.target: int | None = None
        """Last number of an ending query; None until known."""
        self.stopping = False
        self.unreachable: Trouble | None = None
        self.full: Trouble | None = None
        self.failure: SpoolError | None = None
        self.paused = False
        """True while the spool takes no messages, for lack of room."""
        self._brake = brake
        """Unsettled messages at which the broker may send no more; None without a limit."""
        self._retries = retries
        self.wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self.wake_reader, False)
        os.set_blocking(self._wake_writer, False)

    # -- the consumer's thread ---------------------------------------------------------------------------------------

    def appended(self, frame: Frame) -> None:
        """Make a durable frame visible."""
        with self.changed:
            self.log.frames.append(frame)
            self.log.tail = frame.last
            self.changed.notify_all()

    def take_segments(self, settled: int) -> list[int]:
        """Return segments to delete, and drop their frames."""
        with self.changed:
            segments = self.log.settled_segments(settled)
            gone = set(segments)
            while self.log.frames and self.log.frames[0].segment in gone:
                self.log.frames.popleft()
            return segments

    def fail(self, error: SpoolError) -> None:
        """End the consumer's work with an error, which the reader gets."""
        with self.changed:
            self.failure = self.failure or error
            self.changed.notify_all()

    def note_connection(self, text: str | None) -> None:
        """Record a lost connection or a failed attempt; None records a success."""
        with self.changed:
            self.unreachable = _counted(self.unreachable, text)
            self.changed.notify_all()

    def note_disk(self, text: str | None) -> None:
        """Record a write without room on the disk; None records a success."""
        with self.changed:
            self.full = _counted(self.full, text)
            self.changed.notify_all()

    def note_target(self, number: int) -> None:
        """Record the last number of a query that reads the present messages."""
        with self.changed:
            self.target = number
            self.changed.notify_all()

    def drain_wakes(self) -> None:
        """Empty the pipe that wakes the consumer's thread."""
        with suppress(BlockingIOError):
            while os.read(self.wake_reader, 4096):
                pass

    # -- the reader's thread -----------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Wake the consumer's thread."""
        with suppress(BlockingIOError):  # The consumer's thread has not seen the earlier ones yet.
            os.write(self._wake_writer, b"!")

    def stop(self) -> None:
        """Ask the consumer's thread to end."""
        with self.changed:
            self.stopping = True
        self.wake()

    def settle(self, number: int) -> None:
        """Record that Spark has made everything up to a number durable. Raises `SpoolError` beyond the spool's end."""
        with self.changed:
            self._check_end(number)
            if number <= self.settled:
                return
            self.settled = number
        self.wake()

    def _check_end(self, number: int) -> None:
        if number > self.log.tail:
            raise SpoolError(
                "ahead",
                f"the checkpoint has read up to {number}, but the spool {self.log.path} ends at {self.log.tail}: "
                "it is another spool, or was emptied; begin with a new checkpoint",
            )

    def first(self) -> int:
        """Return the first number that the spool still has."""
        with self.changed:
            return self.log.frames[0].first if self.log.frames else self.log.tail + 1

    def plan(self, start: int, rows: int | None, octets: int | None, wait: float, least: int = 1) -> Planned:
        """Return the end of the next batch after `start`; `start` itself if no message comes within `wait` seconds.

        Fewer than `least` messages do not count, unless they block later messages. An ending query waits for as long as
        the broker has more of its messages. Raises `SpoolError` when no message is left to read and none will come.
        """
        deadline = time.monotonic() + wait
        with self.changed:
            while True:
                self._check_end(start)
                end = self.log.tail if self.target is None else min(self.log.tail, self.target)
                if end - start >= least or (end > start and self._holds_up(end - start)):
                    break
                if end == start:
                    self._check_hope()
                remaining = deadline - time.monotonic()
                if (remaining <= 0 and not self.drains) or self.target is not None:
                    return Planned(start, 0, 0)
                self.changed.wait(LOOK_SECONDS if self.drains else min(remaining, LOOK_SECONDS))
            frames = frames_between(self.log.frames, start, end)
        return cut(frames, start, end, rows, octets, self.log)

    def _holds_up(self, messages: int) -> bool:
        """Return whether no more may come before these messages are settled, or they are the last."""
        full = self._brake is not None and messages >= self._brake
        return full or self.paused or self.target is not None or self.failure is not None

    def _check_hope(self) -> None:
        if self.failure is not None:
            raise self.failure
        for kind, trouble in (("unreachable", self.unreachable), ("full", self.full)):
            if trouble is not None and trouble.attempts > self._retries:
                raise SpoolError(kind, f"{trouble.text} ({trouble.attempts} attempts)")

    def places(self, numbers: list[int]) -> list[tuple[int, int]]:
        """Return segment and offset of the frames with these numbers. Raises `SpoolError` for a deleted frame."""
        with self.changed:
            frames = self.log.frames
            found = []
            for number in numbers:
                index = bisect_left(frames, number, key=lambda frame: frame.last)
                if index == len(frames) or frames[index].first > number:
                    raise SpoolError("gone", f"message {number} is not in the spool {self.log.path}")
                found.append((frames[index].segment, frames[index].offset))
            return found


def _counted(trouble: Trouble | None, text: str | None) -> Trouble | None:
    return None if text is None else Trouble(text, 1 + (trouble.attempts if trouble else 0))


def frames_between(frames: deque[Frame], start: int, end: int) -> list[Frame]:
    """Return the frames with numbers after `start` up to `end`."""
    index = bisect_left(frames, start + 1, key=lambda frame: frame.last)
    found = []
    while index < len(frames) and frames[index].first <= end:
        found.append(frames[index])
        index += 1
    return found


def cut(frames: list[Frame], start: int, end: int, rows: int | None, octets: int | None, log: SpoolLog) -> Planned:
    """Return the end of a batch within its limits, with at least one message."""
    taken = used = 0
    for frame in frames:
        here = min(frame.last, end) - max(frame.first - 1, start)
        allowed = here if rows is None else min(here, rows - taken)
        size = frame.octets * here // frame.rows
        if octets is not None and used + size > octets:
            allowed = min(allowed, _rows_within(frame, max(start + 1, frame.first), octets - used, log))
        allowed = max(allowed, 0 if taken else 1)
        taken += allowed
        used += frame.octets * allowed // frame.rows
        if allowed < here:
            break
    return Planned(start + taken, taken, used)


def _rows_within(frame: Frame, first: int, octets: int, log: SpoolLog) -> int:
    """Return how many messages of a frame, from a number on, fit into some bytes."""
    import pyarrow.compute as pc

    name = segment_name(frame.segment)
    data = read_file(log.path / name)
    batch = read_batch(data, frame, read_segment_head(data, name)[1]).slice(first - frame.first)
    sizes = pc.binary_length(batch.column("value")).to_pylist()
    rest = max(0, frame.octets // frame.rows - sum(sizes) // max(1, len(sizes)))
    fitting = 0
    for size in sizes:
        octets -= size + rest
        if octets < 0:
            break
        fitting += 1
    return fitting
