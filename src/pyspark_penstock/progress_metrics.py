"""Metrics of a source under the names of Spark's Kafka source, computed from a query's progress.

Spark has no metrics of sources in Python (its interface ``ReportsSourceMetrics`` is for the JVM), so that the field
``metrics`` of a progress stays empty. The metrics are computed from the offsets of the progress.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_SERVER = re.compile(r"@([^@]+:\d{1,5})$")
"""End of a key in an offset of several servers."""


def source_metrics(source: Any) -> dict[str, str]:
    """Return how many messages the end of a batch is behind the ends of its queues: least, most, and on average.

    `source` is an entry of ``sources`` in a progress of Spark, for ``penstock`` or ``amqp``. Names and texts are those
    of the Kafka source, whose partitions are queues here. A queue with gaps has fewer messages than that. Empty if
    Spark reports no latest offset: in a batch that is run again after a restart, and for other sources.

    With several servers there are also ``offsetsBehindLatest@host:port``, the sum over the queues of that server, and
    ``offsets@host:port``, the sequences of the batch there; not in the first batch, whose start Spark does not report.
    """
    end, latest = _positions(source.endOffset), _positions(source.latestOffset)
    behind = [max(0, latest[key] - end.get(key, 0)) for key in latest]
    if not behind or not end:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        **_by_server("offsets", _positions(getattr(source, "startOffset", None)), end),
        **_by_server("offsetsBehindLatest", end, latest),
    }


def _by_server(name: str, start: dict[str, int], end: dict[str, int]) -> dict[str, str]:
    """Return the sequences between two offsets for each server; empty if a key of the offsets names no server."""
    found: dict[str, int] = {}
    for key in sorted(end if start else ()):
        server = _SERVER.search(key)
        if server is None:
            return {}
        found[server[1]] = found.get(server[1], 0) + max(0, end[key] - start.get(key, 0))
    return {f"{name}@{server}": str(count) for server, count in found.items()}


def _positions(text: str | None) -> dict[str, int]:
    """Return the positions in an offset of a progress, by queue; a spool has one position."""
    try:
        offset = json.loads(text or "null")
    except ValueError:
        return {}  # Another source: Spark's own offsets need not be JSON.
    if not isinstance(offset, Mapping):
        return {}
    positions = offset.get("q", {"": offset["n"]} if "spool" in offset and "n" in offset else {})
    if not isinstance(positions, Mapping):
        return {}
    return {key: each for key, each in positions.items() if type(each) is int}
