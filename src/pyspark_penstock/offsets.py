"""Offsets and ranges: the arithmetic of a batch, without I/O.

An offset means, for every subscribed queue, "everything up to this sequence number". Spark stores it as JSON and
compares the *texts* to detect new data, so keys are sorted and values are integers::

{"v": 1, "q": {"audit": 77, "orders": 12345}}

A batch whose sequences have gaps also has ``"rows": {"orders": 97}``, the number of its messages in each such queue. So
a batch that yields fewer, now or after a restart, has lost some. A queue that was declared again since the cursor first
read a queue of its name also has its generation there, ``"gen": {"orders": 1}``: positions of another generation are
invalid.

With one server the key is the queue's name, so a broker may move to another address under a checkpoint. With several
servers the same queue exists on each, with its own numbers: the key is then ``queue@host:port``. A queue that is no
longer subscribed keeps its key, and positions never go backwards.

Ends of batches have the id of their query and its cursor, ``"id": "7c3e...", "cursor": "billing"``. By the id the
broker recognises a restarted query, and by the name it finds a cursor that the query has left for another.

Ends of batches also have their *cut*, ``"cut": {"way": 1, "minPartitions": 2, "maxRecordsPerPartition": 200000}``: the
options by which the batch was divided into partitions, and the number of the dividing function. A batch that is run
again is cut by these options, and not by the options of the restart. Offsets of earlier versions have no cut.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pyspark_penstock.errors import CursorError

VERSION = 1

CUT_BY_SIZE = 1
"""Number of the function `split` in a cut. A function that divides a batch otherwise needs another number."""
_CUT_FIELDS = ("minPartitions", "maxRecordsPerPartition")

Positions = dict[str, int]


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of one queue with ``lo < sequence <= hi``."""

    key: str
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Options by which a batch is divided into partitions; see `split`."""

    least: int
    most_rows: int


def key_of(queue: str, server: str, servers: int) -> str:
    """Return the key of a queue on a server in an offset; `servers` is the number of the source's servers."""
    return queue if servers == 1 else f"{queue}@{server}"


def to_spark(
    positions: Mapping[str, int],
    rows: Mapping[str, int] | None = None,
    generations: Mapping[str, int] | None = None,
    query: tuple[str, str] | None = None,
    cut: Cut | None = None,
) -> dict[str, Any]:
    """Return the offset that Spark stores, with its keys in a fixed order.

    `rows` has the number of messages of the batch that ends here, for queues with gaps. `generations` has the
    generations of queues; only those other than 0 are stored. `query` is the id of the query and its cursor; `cut`
    divides the batch that ends here.
    """
    found: dict[str, Any] = {"v": VERSION, "q": {key: positions[key] for key in sorted(positions)}}
    if rows:
        found["rows"] = {key: rows[key] for key in sorted(rows)}
    numbers = {key: number for key, number in sorted((generations or {}).items()) if number and key in positions}
    if numbers:
        found["gen"] = numbers
    if query is not None:
        found["id"], found["cursor"] = query
    if cut is not None:
        found["cut"] = cut_field(cut)
    return found


def cut_field(cut: Cut) -> dict[str, int]:
    """Return a cut as a field of an offset."""
    return {"way": CUT_BY_SIZE, **dict(zip(_CUT_FIELDS, (cut.least, cut.most_rows), strict=True))}


def cut_of(offset: Mapping[str, Any]) -> Cut | None:
    """Return the cut of the batch that ends at an offset; None in an offset of an earlier version.

    Raises `CursorError` for a cut of a later version, and for an edited cut.
    """
    given = offset.get("cut")
    if given is None:
        return None
    way, least, most_rows = (given.get(name) if isinstance(given, Mapping) else None for name in ("way", *_CUT_FIELDS))
    if type(way) is int and way > CUT_BY_SIZE:
        raise CursorError(
            f"the checkpoint's last batch was cut into partitions by a later version of Penstock (way {way}; this "
            f"version knows {CUT_BY_SIZE}): run the query with that version until the batch has ended"
        )
    if way != CUT_BY_SIZE or not (type(least) is int and type(most_rows) is int and least >= 1 and most_rows >= 1):
        raise CursorError(
            f"the checkpoint's offset has the cut {given!r}, which is not {cut_field(Cut(1, 1))} with numbers from 1 "
            "up; restore it, or begin with a new checkpoint"
        )
    return Cut(least, most_rows)


def query_of(offset: Mapping[str, Any]) -> tuple[str, str]:
    """Return the id of the query that planned up to an offset, and its cursor; empty if unknown."""
    identity, cursor = (_checked(offset).get(name) for name in ("id", "cursor"))
    return identity if isinstance(identity, str) else "", cursor if isinstance(cursor, str) else ""


def generations_of(offset: Mapping[str, Any]) -> Positions:
    """Return the generations of the queues in an offset; a missing generation is 0."""
    return _numbers(offset, _checked(offset).get("gen", {}))


def rows_of_batch(offset: Mapping[str, Any]) -> Positions:
    """Return the number of messages of the batch that ends at an offset, for its queues with gaps."""
    return _numbers(offset, _checked(offset).get("rows", {}))


def from_spark(offset: Mapping[str, Any]) -> Positions:
    """Return the positions in an offset of Spark's checkpoint.

    Raises `CursorError` when the offset is not Penstock's or was written by a later version.
    """
    return _numbers(offset, _checked(offset)["q"])


def _checked(offset: Any) -> Mapping[str, Any]:
    """Return a valid offset of this version, even after manual edits. Raises `CursorError` for another offset."""
    version = offset.get("v") if isinstance(offset, Mapping) else None
    if type(version) is int and version > VERSION:
        raise CursorError(
            f"the checkpoint's offset has version {version}, and this version of Penstock reads {VERSION}: run the "
            "query with the version of Penstock that wrote the checkpoint, or begin with a new checkpoint"
        )
    if not isinstance(offset, Mapping) or offset.get("v") != VERSION or not isinstance(offset.get("q"), Mapping):
        raise CursorError(
            f"the checkpoint's offset {offset!r} was not written by this version of the penstock source; restore it, "
            "or begin with a new checkpoint"
        )
    return offset


def _numbers(offset: Mapping[str, Any], given: Any) -> Positions:
    if not isinstance(given, Mapping):
        raise CursorError(f"the checkpoint's offset {dict(offset)!r} has {given!r} where queues and sequences are due")
    for key, each in given.items():
        if type(each) is not int or each < 0:
            raise CursorError(
                f"the checkpoint's offset {dict(offset)!r} has {each!r} for '{key}', which is not a sequence from 0 "
                "up; restore it, or begin with a new checkpoint"
            )
    return dict(given)


def advanced(start: Mapping[str, int], reached: Mapping[str, int]) -> Positions:
    """Return `start` advanced to `reached`: the union of keys, and never backwards."""
    return {key: max(start.get(key, 0), reached.get(key, 0)) for key in {**start, **reached}}


def filled(start: Mapping[str, int], settled: Mapping[str, int]) -> Positions:
    """Return `start` with every subscribed queue, and with no position before the settled one.

    A queue subscribed after the checkpoint begins at its cursor's position. Messages below the settled position cannot
    be read; `lost` has decided whether that is a loss.
    """
    return advanced(start, settled)


def lost(start: Mapping[str, int], settled: Mapping[str, int]) -> list[Range]:
    """Return the ranges that the checkpoint needs and the cursor has settled, sorted by key."""
    return [Range(key, start[key], settled[key]) for key in sorted(start) if settled.get(key, 0) > start[key]]


def ahead(start: Mapping[str, int], tail: Mapping[str, int]) -> list[Range]:
    """Return the positions of the checkpoint beyond the queue's last message, sorted by key."""
    return [Range(key, tail[key], start[key]) for key in sorted(start) if key in tail and start[key] > tail[key]]


def split(start: Mapping[str, int], end: Mapping[str, int], least: int, most_rows: int) -> list[Range]:
    """Return the partitions of a batch: a pure function of its range and of two options.

    `least` is the desired number of partitions, distributed by size; `most_rows` limits the sequence numbers of one
    partition. Every partition has at least one sequence number, in the queue's order.
    """
    ranges = [Range(key, start.get(key, 0), end[key]) for key in sorted(end) if end[key] > start.get(key, 0)]
    total = sum(range_.hi - range_.lo for range_ in ranges)
    return [piece for range_ in ranges for piece in _cut(range_, total, least, most_rows)]


def _cut(range_: Range, total: int, least: int, most_rows: int) -> Iterable[Range]:
    rows = range_.hi - range_.lo
    pieces = min(rows, max(-(-rows // most_rows), -(-least * rows // total)))
    borders = [range_.lo + rows * index // pieces for index in range(pieces + 1)]
    return (Range(range_.key, lo, hi) for lo, hi in pairwise(borders))
