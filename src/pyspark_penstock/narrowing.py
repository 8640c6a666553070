"""Filters of a batch read that Spark pushes down: by queue, sequence and timestamp.

Filters by queue and sequence are exact, so Spark need not apply them again. Filters by timestamp only narrow the
ranges: after a clock was set back, arrivals are not in the order of sequences. Other filters stay with Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import datasource  # PySpark 4.0 has no filters there.

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_COLUMNS = (("queue",), ("sequence",), ("timestamp",))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Narrowing:
    """Limits that filters set on queues, sequences and times; None is no limit."""

    queues: frozenset[str] | None = None
    after: int | None = None
    """Sequences beyond this one."""
    upto: int | None = None
    """Sequences up to this one."""
    since: int | None = None
    until: int | None = None
    """Times from `since` on and before `until`, in microseconds since the epoch."""

    def push(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Take over filters; yield the filters that Spark must apply itself."""
        for each in filters:
            if not self._take(each):
                yield each

    def _take(self, each: Filter) -> bool:
        """Take over a filter; return whether it is applied exactly."""
        path = getattr(each, "attribute", None)
        if path not in _COLUMNS:
            return False
        if isinstance(each, datasource.IsNotNull):
            return True
        if path == ("queue",):
            return self._take_queue(each)
        if path == ("sequence",):
            return self._take_sequence(each)
        self._take_time(each)
        return False

    def _take_queue(self, each: Filter) -> bool:
        if isinstance(each, datasource.EqualTo | datasource.EqualNullSafe):
            names = {each.value}
        elif isinstance(each, datasource.In):
            names = set(each.value)
        else:
            return False
        found = frozenset(name for name in names if isinstance(name, str))
        self.queues = found if self.queues is None else self.queues & found
        return True

    def _take_sequence(self, each: Filter) -> bool:
        value = getattr(each, "value", None)
        if type(value) is not int:
            return False
        if isinstance(each, datasource.EqualTo | datasource.EqualNullSafe):
            self._between(value - 1, value)
        elif isinstance(each, datasource.GreaterThan):
            self._between(value, None)
        elif isinstance(each, datasource.GreaterThanOrEqual):
            self._between(value - 1, None)
        elif isinstance(each, datasource.LessThan):
            self._between(None, value - 1)
        elif isinstance(each, datasource.LessThanOrEqual):
            self._between(None, value)
        else:
            return False
        return True

    def _between(self, after: int | None, upto: int | None) -> None:
        if after is not None:
            self.after = after if self.after is None else max(self.after, after)
        if upto is not None:
            self.upto = upto if self.upto is None else min(self.upto, upto)

    def _take_time(self, each: Filter) -> None:
        value = getattr(each, "value", None)
        if not isinstance(value, datetime) or value.tzinfo is None:
            return
        time = (value - _EPOCH) // timedelta(microseconds=1)
        since, until = None, None
        if isinstance(each, datasource.EqualTo | datasource.EqualNullSafe):
            since, until = time, time + 1
        elif isinstance(each, datasource.GreaterThan | datasource.GreaterThanOrEqual):
            since = time + isinstance(each, datasource.GreaterThan)
        elif isinstance(each, datasource.LessThan | datasource.LessThanOrEqual):
            until = time + isinstance(each, datasource.LessThanOrEqual)
        if since is not None:
            self.since = since if self.since is None else max(self.since, since)
        if until is not None:
            self.until = until if self.until is None else min(self.until, until)
