"""Offers of a recording: when producers had their messages, as far as the log shows it.

Theory of operation. The log has the number of arriving messages for each second. If the gate blocked no producer in a
second, its messages were offered in that second. If the gate blocked producers, the offer depends on where messages
waited. Messages that the broker held were offered before they arrived, in a second that the log names. Messages that
waited with the producers were offered when the block began. A producer in a closed loop has used up its window at each
block, and publishes as soon as a confirm arrives. So it had all messages that arrived from its first block on, up to
the first second without any, and offers them as its window admits them.

A publish that an overflow policy refused was offered in the second of its refusal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from math import inf
from random import Random
from statistics import mean, median
from typing import Protocol

from penstock_simulation.samples import Sample

TOGETHER_S = 0.001
"""Most seconds between a closing and the blocks that it causes."""
DEVIATIONS = 1.4826
"""Standard deviation of a normal distribution, in medians of its absolute values."""
Offer = tuple[float, float, int]
"""Begin, seconds over which the messages spread, and their number."""


class Recorded(Protocol):
    """Recording, as far as it shows when messages were offered; see `penstock_simulation.recording.Recording`."""

    messages: int
    seconds: float
    samples: list[Sample]
    closings: list[tuple[float, int, int]]
    blocks: list[tuple[float, float]]
    ends_closed: bool

    @property
    def window(self) -> int | None:
        """Confirm window of the producers; None if unknown."""

    @property
    def refuses(self) -> bool:
        """True if an overflow policy of the queue refuses publishes."""

    @property
    def is_held(self) -> bool:
        """True if the broker held the messages that filled the queue."""

    @property
    def is_closed_loop(self) -> bool:
        """True if producers publish when a confirm arrives."""


def offered(recording: Recorded, chance: Random) -> Iterator[tuple[Sample, list[Offer]]]:
    """Yield the offer times of the messages of each sample, beginning with messages that were in the queue at the
    start."""
    for first in recording.samples[:1]:
        yield first, [(first.at, 0.0, max(0, first.depth - first.came + first.left))]
    if recording.is_held:
        yield from _held(recording, chance)
    elif recording.is_closed_loop:
        yield from _pulled(recording)
    else:
        for sample in recording.samples:
            yield sample, _waited(recording, sample)
    if recording.refuses:
        for sample in recording.samples:
            yield sample, [(sample.at, sample.end - sample.at, sample.refused)]


def _held(recording: Recorded, chance: Random) -> Iterator[tuple[Sample, list[Offer]]]:
    """Yield offers that the broker held: publishes held at the end of a sample were offered in it, publishes held at
    its start earlier.

    The offers come in bursts, large enough that their numbers vary from one sample to the next as recorded. The
    variation is the median, because it is larger where a load begins or ends.
    """
    counts, before = [], 0
    for sample in recording.samples:
        count = sample.came + (sample.held or 0) - before
        before = (sample.held or 0) - min(0, count)
        counts.append(max(0, count))
    steps = [abs(one - other) for one, other in pairwise(counts)]
    burst = max(1, round((DEVIATIONS * median(steps)) ** 2 / 2 / max(1.0, mean(counts)))) if steps else 1
    for sample, count in zip(recording.samples, counts, strict=True):
        if burst == 1:
            yield sample, [(sample.at, sample.end - sample.at, count)]
        else:
            sizes = [min(burst, count - first) for first in range(0, count, burst)]
            yield sample, [(chance.uniform(sample.at, sample.end), 0.0, size) for size in sizes]


def _pulled(recording: Recorded) -> Iterator[tuple[Sample, list[Offer]]]:
    """Yield offers of producers in a closed loop: all since their first block.

    If producers had more messages when the log ended, or when they left a closed gate, as many again are offered.
    """
    since: float | None = None
    for sample in recording.samples:
        begin = _first_block(recording, sample)
        if begin is None or since is None:
            since = begin
            yield sample, _waited(recording, sample)
        else:
            yield sample, [(since, 0.0, sample.came)]
    last = max((sample for sample in recording.samples if sample.came), key=_end, default=None)
    if last is None:
        return
    left_closed = recording.ends_closed and last.unconfirmed in (0, recording.window)
    if left_closed or last.end > recording.seconds - last.seconds:
        yield last, [(last.at if since is None else since, 0.0, recording.messages)]


def _waited(recording: Recorded, sample: Sample) -> list[Offer]:
    """Return when the messages of a sample were offered if they waited with their producers.

    Messages that arrived while producers were blocked had waited with them since the block began. Until a block within
    the sample the queue took the messages of its depth at the closing, and the messages settled meanwhile.
    """
    begin = _first_block(recording, sample)
    if begin is None:
        return [(sample.at, sample.end - sample.at, sample.came)]
    if begin <= sample.at:
        return [(begin, 0.0, sample.came)]
    last = bisect_right(recording.closings, (begin + TOGETHER_S, 0, 0)) - 1
    depth = recording.closings[last][1] if last >= 0 else 0
    settled = sample.left * (begin - sample.at) / sample.seconds
    before = min(max(round(depth - (sample.depth - sample.came + sample.left) + settled), 0), sample.came)
    return [(sample.at, begin - sample.at, before), (begin, 0.0, sample.came - before)]


def _first_block(recording: Recorded, sample: Sample) -> float | None:
    """Return when the first block within a sample began; None without one."""
    place = bisect_right(recording.blocks, (sample.at, inf))
    if place and recording.blocks[place - 1][1] > sample.at:
        return recording.blocks[place - 1][0]
    if place == len(recording.blocks) or recording.blocks[place][0] >= sample.end:
        return None
    return recording.blocks[place][0]


def _end(sample: Sample) -> float:
    return sample.end
