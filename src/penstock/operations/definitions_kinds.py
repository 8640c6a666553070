"""Definitions of nouns: comparison of an entry of a file with the broker's object, its creation, and its undoing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from penstock.core.queue.types import QueueType
from penstock.core.settings.table import SettingsChange, SettingsTable
from penstock.core.vhost import VirtualHost
from penstock.describe.list_kinds import Groups
from penstock.errors import BrokerError, PreconditionFailed
from penstock.flow.work import Steps
from penstock.management.node import Node
from penstock.management.operation import DefinedNoun
from penstock.operations.definitions_parser import Entry, Section
from penstock.texts import worded

CREATED: Final = "created"
CHANGED: Final = "changed"
UNCHANGED: Final = "unchanged"
REFUSED: Final = "refused"
SKIPPED: Final = "skipped"
"""Outcomes of an entry."""
SHOWN: Final = 200
"""Letters of a value in a difference."""
ENTRY_WORK: Final = 80
"""Units of work per entry, compared, made or undone. A policy also counts the objects that it examines."""

FIND_WORK: Final = 5
"""Units of work to look at the value that there is."""

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
        """A warning about an ineffective setting; "" for none."""
        self.remark: str = ""
        """Step that a user must take after the import; "" for none."""


class Planned:
    """Names, settings and policies that previous entries would make."""

    def __init__(self, table: SettingsTable) -> None:
        self.table = table
        """A copy of the settings and policies, with those of the file."""
        self.vhosts: set[str] = set()
        self.default_types: dict[str, QueueType] = {}
        """Default types of queues of virtual hosts that the file has."""
        self.exchanges: dict[tuple[str, str], str] = {}
        """Types by virtual host and name."""
        self.queues: set[tuple[str, str]] = set()
        self.users: set[str] = set()
        self.administrators: set[str] | None = None
        """Users with that tag, with those there are; None before the first user of the file."""


class Made:
    """All objects that an import has made so far, with the undo actions."""

    def __init__(self) -> None:
        self.created: dict[str, int] = {}
        self.changed: dict[str, int] = {}
        """Number of entries by kind."""
        self.undo: list[Undo] = []
        self.undo_steps: list[Callable[[], Steps[list[str]]]] = []
        """Undo actions in steps, after the others and alone with the changes; they return the names of what stays."""
        self.undo_alone: list[Undo] = []
        """Undo actions after those in steps, alone with the changes."""
        self.notes: list[str] = []
        """Warnings about ineffective settings."""
        self.remarks: list[str] = []
        """Steps that a user must take after the import."""
        self.overflow: list[str] = []
        """Sentences about queues that overflow otherwise."""

    def add(self, kind: str, change: str) -> None:
        """Count an entry that was made or changed."""
        counts = self.created if change == CREATED else self.changed
        if change in (CREATED, CHANGED):
            counts[kind] = counts.get(kind, 0) + 1


class Together(NamedTuple):
    """Values that take effect together for a whole file, in steps, after the other entries of their kind."""

    put: Callable[[Node, list[Any]], Steps[object]]
    rehearse: Callable[[Node, SettingsTable, list[Any]], Steps[object]]
    """It puts values into a planned table, as `put` does into the broker's."""
    put_back: Callable[[Node, list[tuple[Any, Any]]], Steps[object]]
    """It undoes `put`, with the values that were there before."""
    record: Callable[[Any], tuple[str, str]]
    """It returns subject and text of the record of a change of settings."""


class Definitions(NamedTuple):
    """Definitions of a noun: functions of an entry, the defined value, and the present value (None: missing).

    All functions raise BrokerError for an entry that cannot be made.
    """

    section: Section
    subject: Callable[[Entry], str]
    """It returns kind and name of an entry, for sentences."""
    read: Callable[[Node, Entry], Any]
    find: Callable[[Node, Entry], Any]
    """It returns a value that does not change any more."""
    check: Callable[[Node, Entry, Any, Planned | None], object]
    """It checks what an entry needs; with None in its place, nothing is planned."""
    put: Callable[[Node, Entry, Any, Any], Undo | None] | None = None
    """Creates or changes the object of an entry, and returns the function that undoes it."""
    together: Together | None = None
    """Steps in the place of `put`."""
    row: Callable[[Any], dict[str, object]] | None = None
    """Returns the fields that are compared and reported; None if values of this noun do not change."""
    plan: Callable[[Node, Entry, Any, Planned], object] | None = None
    """It checks and notes what an entry would make or change."""
    same: Callable[[Node, Entry, Any, Any], bool] = lambda node, entry, before, value: bool(before == value)
    """Returns whether an entry changes nothing."""
    left_out: Callable[[Node, Entry], str] = lambda node, entry: ""
    """It returns why an entry does not count, though nothing is wrong with it; "" if it counts."""
    secret: Callable[[Entry, Any], str] | None = None
    """It returns the key of a secret that differs; "" for none."""
    note: Callable[[Any], str] = lambda value: ""
    """Returns a warning about an ineffective setting; "" for none."""
    remark: Callable[[Any], str] = lambda value: ""
    """Returns the step that a user must take after the import; "" for none."""
    key: Callable[[Entry], str] | None = None
    """It returns the identity of entries that may have the same subject."""
    unchanged: Callable[[Any, Any], bool] = lambda placed, found: bool(placed == found)
    """Returns whether a value is still the one that was found after an entry was made; otherwise it stays."""
    undone_alone: bool = False
    """True if the undoing changes settings or policies, so that no such change may be in progress."""


class DefinedSection(DefinedNoun):
    """Definitions of an added noun: functions that make its entries, and the exported rows."""

    def __init__(
        self, definitions: Definitions, groups: Callable[[Node, VirtualHost | None], Groups], everywhere: bool = False
    ) -> None:
        """`groups` yields rows; `everywhere`: the rows are exported only with all virtual hosts."""
        self.definitions = definitions
        self.groups = groups
        self.everywhere = everywhere


def defined_sections(node: Node) -> dict[str, DefinedSection]:
    """Return the definitions of added nouns, by their sections."""
    added = [each for each in node.control.defined.values() if isinstance(each, DefinedSection)]
    return {each.definitions.section.name: each for each in added}


class DefinitionKind:
    """Entries of one noun in one import: compared with the present objects, made and undone."""

    def __init__(self, node: Node, row: Definitions) -> None:
        self.node = node
        self.row = row
        self.name = row.section.name
        self.gathered: list[Entry] = []
        """Entries that `finish` makes."""
        self._seen: dict[str, Entry] = {}
        self._planned: set[str] = set()
        """Entries that would be made or changed."""
        self._values: dict[str, tuple[Any, Any]] = {}
        """Values of gathered entries by subject, and those before."""

    def subject(self, entry: Entry) -> str:
        """Return kind and name of an entry, for sentences."""
        return self.row.subject(entry)

    def difference(self, entry: Entry, change: str) -> Difference:
        """Return a difference of an entry."""
        return Difference(self.subject(entry), change)

    def compare(self, entry: Entry, planned: Planned) -> Difference:
        """Return the effect of an import on an entry, and record the object that the entry would make."""
        row, node = self.row, self.node
        value = self._read(entry, planned)
        difference = self.difference(entry, UNCHANGED)
        difference.note = row.left_out(node, entry)
        before = row.find(node, entry)
        if self._key(entry) in self._planned or difference.note or row.same(node, entry, before, value):
            return difference
        difference.change = CREATED if before is None else CHANGED
        if before is not None and row.row is not None:
            difference.details = details_of(row.row(before), row.row(value))
            secret = "" if row.secret is None else row.secret(entry, before)
            difference.details += [(secret, "", "")] if secret else []
        difference.note, difference.remark = row.note(value), row.remark(value)
        if row.plan is not None:
            row.plan(node, entry, value, planned)
        self._planned.add(self._key(entry))
        if row.together is not None:
            self._gather(entry, value, before)
        return difference

    def make(self, entry: Entry, made: Made) -> None:
        """Make the object of an entry, or change the present object."""
        row, node = self.row, self.node
        value = self._read(entry, None)
        left_out, before = row.left_out(node, entry), row.find(node, entry)
        if left_out:
            made.notes.append(f"{self.subject(entry)}: {left_out}")
        elif not row.same(node, entry, before, value):
            if row.put is None:
                self._gather(entry, value, before)
            else:
                undo = row.put(node, entry, value, before)
                self._count(made, entry, value, before)
                if undo is not None:
                    undos = made.undo_alone if row.undone_alone else made.undo
                    undos.append(self._unless_changed(entry, undo))

    def finish(self, entries: list[Entry], made: Made) -> Steps[None]:
        """Make gathered entries of this kind together, in steps."""
        together = self.row.together
        assert together is not None
        yield from self._refresh(entries)
        values = [self._values[self.subject(entry)] for entry in entries]
        change = yield from together.put(self.node, [value for value, _ in values])
        if isinstance(change, SettingsChange):
            made.overflow += change.overflow.sentences()
        placed = [self.row.find(self.node, entry) for entry in entries]
        made.undo_steps.append(lambda: self._put_back(entries, placed))
        for entry, (value, before) in zip(entries, values, strict=True):
            self._count(made, entry, value, before)
            self.node.record_setting(*together.record(value), "")

    def rehearse(self, entries: list[Entry], planned: Planned, made: Made) -> Steps[None]:
        """Apply the entries that `compare` gathered to the planned table, as `finish` would to the broker's table."""
        assert self.row.together is not None
        values = [self._values[self.subject(entry)][0] for entry in entries]
        change = yield from self.row.together.rehearse(self.node, planned.table, values)
        if isinstance(change, SettingsChange):
            made.overflow += change.overflow.sentences()

    def _read(self, entry: Entry, planned: Planned | None) -> Any:
        """Return the value of an entry. Raises PreconditionFailed (406) if another entry defines a different value."""
        first = self._seen.setdefault(self._key(entry), entry)
        if first.fields != entry.fields and self.row.key is None:
            raise PreconditionFailed(f"{self.subject(entry)} is defined twice in the file, with different values")
        value = self.row.read(self.node, entry)
        self.row.check(self.node, entry, value, planned)
        return value

    def _gather(self, entry: Entry, value: object, before: object) -> None:
        if self.subject(entry) not in self._values:
            self._values[self.subject(entry)] = (value, before)
            self.gathered.append(entry)

    def _refresh(self, entries: list[Entry]) -> Steps[None]:
        """Read gathered entries again if the present value has changed since: an entry may extend the present value."""
        for entry in entries:
            _, before = self._values[self.subject(entry)]
            found = self.row.find(self.node, entry)
            if found != before:
                self._values[self.subject(entry)] = (self.row.read(self.node, entry), found)
            if self.node.broker.work.spend(FIND_WORK):
                yield

    def _unless_changed(self, entry: Entry, undo: Undo) -> Undo:
        """Return an undo action that leaves an object which others have changed since its creation."""
        placed = self.row.find(self.node, entry)

        def undo_own() -> str:
            found = self._found(entry)
            return undo() if self.row.unchanged(placed, found) else self._changed(entry, found)

        return undo_own

    def _put_back(self, entries: list[Entry], placed: list[Any]) -> Steps[list[str]]:
        """Restore the values before gathered entries, except values changed by others since; return the exceptions."""
        together = self.row.together
        assert together is not None
        left: list[str] = []
        values: list[tuple[Any, Any]] = []
        for entry, value in zip(entries, placed, strict=True):
            found = self._found(entry)
            if self.row.unchanged(value, found):
                values.append(self._values[self.subject(entry)])
            elif found is not None:
                left.append(self._changed(entry, found))
        if values:
            yield from together.put_back(self.node, values)
        return left

    def _changed(self, entry: Entry, found: object) -> str:
        """Return the name of an object that others have changed; "" for a deleted object."""
        return "" if found is None else f"{self.subject(entry)} (changed meanwhile)"

    def _found(self, entry: Entry) -> Any:
        """Return the present value of an entry; None for a missing object, virtual host or user."""
        try:
            return self.row.find(self.node, entry)
        except BrokerError:
            return None

    def _count(self, made: Made, entry: Entry, value: object, before: object) -> None:
        made.add(self.name, CREATED if before is None else CHANGED)
        note, remark = self.row.note(value), self.row.remark(value)
        if note:
            made.notes.append(f"{self.subject(entry)}: {note}")
        if remark:
            made.remarks.append(f"{self.subject(entry)}: {remark}")

    def _key(self, entry: Entry) -> str:
        return self.subject(entry) if self.row.key is None else self.row.key(entry)


def check_vhost(node: Node, entry: Entry, planned: Planned | None) -> str:
    """Return the virtual host of an entry. Raises NotFound (404) for one that neither exists nor is planned."""
    name = entry.text("vhost")
    return name if planned is not None and name in planned.vhosts else node.vhost(name).name


def shown(value: object) -> str:
    """Return a value for a difference."""
    text = json.dumps(value, ensure_ascii=False, default=worded)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def details_of(before: dict[str, object], after: dict[str, object], prefix: str = "") -> list[tuple[str, str, str]]:
    """Return the keys whose values differ, with both values; "absent" for a missing value."""
    details: list[tuple[str, str, str]] = []
    for key in [*before, *[key for key in after if key not in before]]:
        one, other = before.get(key), after.get(key)
        if key in before and key in after and one == other:
            continue
        if isinstance(one, dict) and isinstance(other, dict) and not prefix:
            details += details_of(one, other, f"{key}.")
            continue
        first = shown(one) if key in before else "absent"
        details.append((prefix + key, first, shown(other) if key in after else "absent"))
    return details
