"""Kinds of definitions: how an entry of a file is compared with what there is, made and undone."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from typing_extensions import override

from penstock.errors import PreconditionFailed
from penstock.flow.work import Steps
from penstock.operations.definitions_parser import Entry

if TYPE_CHECKING:
    from penstock.core.settings.table import SettingsTable
    from penstock.management.node import Node

CREATED: Final = "created"
CHANGED: Final = "changed"
UNCHANGED: Final = "unchanged"
REFUSED: Final = "refused"
SKIPPED: Final = "skipped"
"""Outcomes of an entry."""
SHOWN: Final = 200
"""Letters of a value in a difference."""
ENTRY_WORK: Final = 80
"""Units of work per entry, compared, made or undone; a policy counts what it examines as well."""

T = TypeVar("T")
Undo = Callable[[], str]
"""Undo action; returns the name of an item that stays because it is in use, else ""."""


class Difference:
    """The outcome of an import for one entry."""

    def __init__(self, subject: str, change: str) -> None:
        self.subject = subject
        """Kind and name, for sentences."""
        self.change = change
        self.details: list[tuple[str, str, str]] = []
        """Of a changed entry: key, value before, value after. A secret has neither."""
        self.reason: str = ""
        """Of a refused or skipped entry."""
        self.note: str = ""
        """A sentence about what has no effect."""


class Planned:
    """Names, settings and policies that entries before this one would make."""

    def __init__(self, table: SettingsTable) -> None:
        self.table = table
        """A copy of the settings and policies, with those of the file."""
        self.vhosts: set[str] = set()
        self.exchanges: dict[tuple[str, str], str] = {}
        """Types by virtual host and name."""
        self.queues: set[tuple[str, str]] = set()
        self.users: set[str] = set()
        self.administrators: set[str] | None = None
        """Users with that tag, with those there are; None before the first user of the file."""
        self.bindings: set[str] = set()


class Made:
    """Everything that an import has made so far, with its undo actions."""

    def __init__(self) -> None:
        self.created: dict[str, int] = {}
        self.changed: dict[str, int] = {}
        """Number of entries by kind."""
        self.undo: list[Undo] = []
        self.undo_steps: list[Callable[[], Steps[None]]] = []
        """Undo actions that take steps, after the others."""
        self.notes: list[str] = []
        """Sentences about what has no effect."""

    def add(self, kind: str, change: str, undo: Undo | None) -> None:
        """Count an entry that was made or changed."""
        counts = self.created if change == CREATED else self.changed
        if change in (CREATED, CHANGED):
            counts[kind] = counts.get(kind, 0) + 1
        if undo is not None:
            self.undo.append(undo)


class DefinitionKind:
    """One kind of definitions. All methods raise BrokerError for an entry that cannot be made."""

    name: str = ""
    """Its name, for `--skip` and for numbers."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.gathered: list[Entry] = []
        """Entries that `finish` makes."""
        self._seen: dict[str, Entry] = {}

    def check_once(self, entry: Entry) -> None:
        """Refuse an entry that the file defines twice, with different values. Raises PreconditionFailed (406)."""
        first = self._seen.setdefault(self.subject(entry), entry)
        if first.fields != entry.fields:
            raise PreconditionFailed(f"{self.subject(entry)} is defined twice in the file, with different values")

    def subject(self, entry: Entry) -> str:
        """Return kind and name of an entry, for sentences."""
        raise NotImplementedError

    def compare(self, entry: Entry, planned: Planned) -> Difference:
        """Return what an import would do with an entry, and note what it would make."""
        raise NotImplementedError

    def make(self, entry: Entry, made: Made) -> None:
        """Make an entry, or change what there is."""
        raise NotImplementedError

    def finish(self, entries: list[Entry], made: Made) -> Steps[None]:
        """Make gathered entries of this kind together, in steps.

        It is no generator itself: mypyc would expect that very generator of every kind.
        """
        return _nothing()

    def rehearse(self, entries: list[Entry], planned: Planned) -> Steps[None]:
        """Make what was gathered by `compare` in the planned table, as `finish` makes it in the broker's."""
        return _nothing()

    def difference(self, entry: Entry, change: str) -> Difference:
        """Return a difference of an entry."""
        return Difference(self.subject(entry), change)


class Definitions(Generic[T]):
    """Definitions of a noun whose entries are values that are put alone, as functions of the node and an entry."""

    def __init__(
        self,
        name: str,
        *,
        subject: Callable[[Entry], str],
        read: Callable[[Entry], T],
        row: Callable[[T], dict[str, object]],
        find: Callable[[Node, Entry], T | None],
        put: Callable[[Node, Entry, T], None],
        put_back: Callable[[Node, Entry, T, T | None], str],
        check: Callable[[Node, Entry, T, Planned], object] | None = None,
        plan: Callable[[Node, T, Planned], None] | None = None,
        same: Callable[[Node, Entry, T | None, T], bool] | None = None,
        left_out: Callable[[Node, Entry], str] | None = None,
        secret: Callable[[Entry, T], str] | None = None,
        note: Callable[[T], str] | None = None,
    ) -> None:
        self.name = name
        self.subject = subject
        self.read = read
        self.row = row
        """Fields that are compared and told."""
        self.find = find
        """It returns a copy of the value in the place of an entry; None for nothing."""
        self.put = put
        self.put_back = put_back
        """It undoes `put`, and returns the name of an item that stays because it is in use, else ""."""
        self.check = check
        """It checks what `put` needs, where entries before this one may be planned only."""
        self.plan = plan
        """It checks and notes what an entry would make or change."""
        self.same = same
        """It tells whether an entry changes nothing; by default that is so for equal values."""
        self.left_out = left_out
        """It returns why an entry does not count, though nothing is wrong with it; "" if it counts."""
        self.secret = secret
        """It returns the key of a secret that differs; "" for none."""
        self.note = note
        """It returns a sentence about what has no effect; "" for none."""


class ValueKind(DefinitionKind, Generic[T]):
    """Kind of definitions whose entries are values."""

    def __init__(self, node: Node, row: Definitions[T]) -> None:
        super().__init__(node)
        self.name = row.name
        self._row = row
        self._planned: set[str] = set()
        """Subjects that entries before would make or change."""

    @override
    def subject(self, entry: Entry) -> str:
        return self._row.subject(entry)

    @override
    def compare(self, entry: Entry, planned: Planned) -> Difference:
        self.check_once(entry)
        row, node, value = self._row, self.node, self._row.read(entry)
        if row.check is not None:
            row.check(node, entry, value, planned)
        found = self.difference(entry, UNCHANGED)
        found.note = self._left_out(entry)
        before = row.find(node, entry)
        if found.subject in self._planned or found.note or self._is_same(entry, before, value):
            return found
        found.change = CREATED if before is None else CHANGED
        if before is not None:
            found.details = details_of(row.row(before), row.row(value))
            secret = "" if row.secret is None else row.secret(entry, before)
            found.details += [(secret, "", "")] if secret else []
        found.note = "" if row.note is None else row.note(value)
        if row.plan is not None:
            row.plan(node, value, planned)
        self._planned.add(found.subject)
        return found

    @override
    def make(self, entry: Entry, made: Made) -> None:
        self.check_once(entry)
        row, node, value = self._row, self.node, self._row.read(entry)
        note, before = self._left_out(entry), row.find(node, entry)
        if not note:
            if self._is_same(entry, before, value):
                return
            row.put(node, entry, value)
            change = CREATED if before is None else CHANGED
            made.add(self.name, change, lambda: row.put_back(node, entry, value, before))
            note = "" if row.note is None else row.note(value)
        if note:
            made.notes.append(f"{self.subject(entry)}: {note}")

    def _left_out(self, entry: Entry) -> str:
        return "" if self._row.left_out is None else self._row.left_out(self.node, entry)

    def _is_same(self, entry: Entry, before: T | None, value: T) -> bool:
        same = self._row.same
        return before == value if same is None else same(self.node, entry, before, value)


def check_vhost(node: Node, name: str, planned: Planned) -> str:
    """Return the name of a virtual host. Raises NotFound (404) if it neither exists nor is planned."""
    return name if name in planned.vhosts else node.vhost(name).name


def _nothing() -> Steps[None]:
    yield from ()


def shown(value: object) -> str:
    """Return a value for a difference."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def details_of(before: dict[str, object], after: dict[str, object], prefix: str = "") -> list[tuple[str, str, str]]:
    """Return the keys whose values differ, with both values; "absent" for none."""
    found: list[tuple[str, str, str]] = []
    for key in [*before, *[key for key in after if key not in before]]:
        one, other = before.get(key), after.get(key)
        if key in before and key in after and one == other:
            continue
        if isinstance(one, dict) and isinstance(other, dict) and not prefix:
            found += details_of(one, other, f"{key}.")
            continue
        first = shown(one) if key in before else "absent"
        found.append((prefix + key, first, shown(other) if key in after else "absent"))
    return found
