"""Tables: the fields of a noun. A field is a function, which is called only if it is requested.

A row is the JSON of one object. A field is at its path there: `penstock.depth` is in the object `penstock`. The field
`policies.*` is several values, which are in the row itself. A field only for metrics has no path. A field whose path
leads into another field, such as `penstock.gate.blocked`, is in no row; it only serves to sort lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Final, Generic, NamedTuple, TypeVar

from mypy_extensions import i64, mypyc_attr

from penstock.connections.audit_trail import AuditTrail
from penstock.connections.connection import Connection
from penstock.connections.log_line import LogLine
from penstock.core.broker import Broker
from penstock.core.queue.cursor_state import CursorState
from penstock.describe.exposition import Family
from penstock.describe.message_stats import SampleRanges
from penstock.describe.stats_sampler import StatsSampler
from penstock.flow.level import UNLIMITED


@mypyc_attr(allow_interpreted_subclasses=True)
class DescribedNode:
    """One node with its broker and its connections."""

    name: str
    """Name of the node: penstock@HOST."""
    broker: Broker
    connections: dict[int, Connection]
    """Connections by number."""
    audit: AuditTrail
    stats: StatsSampler
    has_users_elsewhere: bool
    """True if tokens or an HTTP back end may know users that the broker does not."""

    @property
    def version(self) -> str:
        """Version of Penstock."""
        raise NotImplementedError

    def log(self, line: LogLine) -> None:
        """Write a log line; its field `id` is one of logs/ids.py."""
        raise NotImplementedError

    def bridge_rows(self) -> list[Row]:
        """Return the bridges to other brokers as plain data, without secrets."""
        raise NotImplementedError

    def record_query(self, query: str, cursor: CursorState, fields: dict[str, object]) -> None:
        """Record the progress of a query at one cursor; the last call in a second counts."""
        raise NotImplementedError

    def check_user(self, name: str) -> None:
        """Check that a user exists: in the table, connected, or possibly known to a token or a back end.

        Raises NotFound (404).
        """
        if not self.has_users_elsewhere and all(each.user != name for each in self.connections.values()):
            self.broker.access.user(name)

    def memory_alarm(self) -> bool:
        """Return whether the gate of the node's memory is closed."""
        memory = self.broker.gates.memory
        return memory is not None and not memory.gate.open

    def disk_alarm(self) -> bool:
        """Return whether a closed disk gate stops every producer of persistent messages."""
        disk = self.broker.gates.disk
        if disk.is_failing():
            return True
        quota, room = disk.quota, disk.room
        return (quota is not None and not quota.gate.open) or (room is not None and not room.gate.open)


Row = dict[str, object]
"""A JSON object."""
T = TypeVar("T")
ABSENT: Final = object()
"""Value of a field that a row leaves out."""
SPREAD: Final = "*"
API_VERSION: Final = "4.0.0"
"""Version of RabbitMQ whose HTTP API and definitions are followed; tools request it."""


class Reading:
    """Arguments of the functions of fields: the time, the node, and the requested samples."""

    __slots__ = ("now", "ranges", "_node", "_broker")

    def __init__(
        self,
        now: float,
        node: DescribedNode | None = None,
        ranges: SampleRanges | None = None,
        broker: Broker | None = None,
    ) -> None:
        self.now = now
        """Monotonic seconds."""
        self.ranges = ranges
        self._node = node
        self._broker = broker if node is None else node.broker

    @property
    def broker(self) -> Broker:
        """The broker."""
        assert self._broker is not None
        return self._broker

    @property
    def node(self) -> DescribedNode:
        """The node; not needed for fields of Penstock's own."""
        assert self._node is not None
        return self._node


def reading(node: DescribedNode, ranges: SampleRanges | None = None) -> Reading:
    """Return a reading of a node now."""
    return Reading(node.broker.now, node, ranges)


class Field(Family, Generic[T]):
    """Field of a table, with its family of metrics, if any."""

    def __init__(
        self,
        path: str,
        value: Callable[[T, Reading], object],
        unit: str = "",
        family: str = "",
        help: str = "",
        group: str = "",
        kind: str = "",
    ) -> None:
        super().__init__(family, help, kind, group)
        self.path = path
        self.value = value
        """Function of the value; None makes no sample of a metric."""
        self.unit = unit
        """A field with a unit is an O(1) number; long lists may be sorted by it."""
        inside, _, leaf = path.rpartition(".")
        self.inside: str = inside
        self.leaf: str = leaf


class LabelledValue(NamedTuple):
    """Value of a sample with labels of its own."""

    labels: str
    """As they are written: kind="own"."""
    value: int


def metric(family: str, value: Callable[[T, Reading], object], help: str, group: str = "", kind: str = "") -> Field[T]:
    """Return a field only for metrics."""
    return Field("", value, "", family, help, group, kind)


class Table(Generic[T]):
    """Fields of one noun."""

    def __init__(self, *fields: Field[T]) -> None:
        self._by_path: dict[str, Field[T]] = {field.path: field for field in fields if field.path}
        self._listed: list[Field[T]] = [
            field for field in fields if field.path and self._by_path.keys().isdisjoint(_parents(field.inside))
        ]
        self.families: tuple[Field[T], ...] = tuple([field for field in fields if field.name])
        self._own = self.select(["penstock"])

    def row(self, subject: T, at: Reading, fields: list[Field[T]] | None = None) -> Row:
        """Return the row of an object, or only these fields."""
        row: Row = {}
        inner, inside = row, ""
        for field in self._listed if fields is None else fields:
            value = field.value(subject, at)
            if value is ABSENT:
                continue
            if field.leaf == SPREAD:
                assert isinstance(value, dict)
                row.update(value)
                continue
            if field.inside != inside:  # Fields of one object follow each other.
                inside = field.inside
                found = row.setdefault(inside, {}) if inside else row
                assert isinstance(found, dict)
                inner = found
            inner[field.leaf] = value
        return row

    def own(self, subject: T, at: Reading) -> Row:
        """Return the fields of Penstock's own."""
        row = self.row(subject, at, self._own).get("penstock")
        assert isinstance(row, dict)
        return row

    def select(self, paths: Iterable[str]) -> list[Field[T]]:
        """Return the fields for these paths: a field, all fields in an object, or a field that the path leads into."""
        fields: dict[str, Field[T]] = {}
        for path in paths:
            needed = [each for each in self._listed if each.path == path or each.inside == path]
            if not needed:
                parents = _parents(path)
                needed = [each for each in self._listed if each.path in parents]
            if not needed:
                needed = [each for each in self._listed if each.leaf == SPREAD]
            for field in needed:
                fields[field.path] = field
        return list(fields.values())

    def names(self) -> list[str]:
        """Return the names of the fields of a row, as far as they do not depend on the object."""
        return list(dict.fromkeys([path.split(".")[0] for path in self._by_path if not path.endswith(SPREAD)]))

    def has(self, path: str) -> bool:
        """Return whether a path is that of a field, leads into one, or has fields inside."""
        if any(parent in self._by_path for parent in _parents(path)):
            return True
        return any(inside.startswith(f"{path}.") and not inside.endswith(SPREAD) for inside in self._by_path)

    def number(self, path: str) -> Field[T] | None:
        """Return the field of an O(1) number; None if there is none."""
        field = self._by_path.get(path)
        return None if field is None or not field.unit else field


def _parents(path: str) -> list[str]:
    """Return a path and the paths of the objects around it."""
    parts = path.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


PLAIN: Final[Table[Row]] = Table(Field("row.*", lambda row, at: row))
"""Objects that are rows already."""


def field_at(row: object, path: str) -> object:
    """Return the field of a row at a path; None if there is none."""
    for name in path.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def plain(value: object) -> object:
    """Return a field-table value as JSON; bytes that are not UTF-8 get replacement characters.

    A number that JSON lacks, such as NaN, becomes a text.
    """
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if value is None or isinstance(value, (str, int)):
        return value
    return str(value)  # A timestamp or a decimal.


def amounts(messages: i64, bytes: i64) -> Row:
    """Return a number of messages and their bytes."""
    return {"messages": int(messages), "bytes": int(bytes)}


def or_none(number: i64) -> int | None:
    """Return a limit; None for no limit."""
    return None if number == UNLIMITED else int(number)


def or_infinity(number: i64) -> object:
    """Return a limit as in metrics."""
    return float("inf") if number >= UNLIMITED else int(number)
