"""Definitions import: all or nothing, in steps of some entries; or only what it would do.

Each entry is declared as a client would, and is visible at once. Policies and settings are changed together. An error
undoes the entries before it in reverse order. Entries that others have begun to use stay, and the error names them.
Imports and changes of settings run one after the other (`Scheduler.start`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.errors import BrokerError, PreconditionFailed
from penstock.flow.work import Steps
from penstock.log_ids import CHANGED
from penstock.management.control_request import ControlRequest
from penstock.management.definitions_access import (
    PermissionKind,
    TopicPermissionKind,
    UserKind,
    VhostLimitsKind,
)
from penstock.management.definitions_kinds import ENTRY_WORK, UNCHANGED, DefinitionKind, Difference, Made, Planned
from penstock.management.definitions_parser import NOTHING_IMPORTED, PARSE_WORK, Entry, ParsedDefinitions
from penstock.management.definitions_policies import ParameterKind, PolicyKind, SettingsKind
from penstock.management.definitions_topology import BindingKind, ExchangeKind, QueueKind, VhostKind, WrongArguments
from penstock.management.json_reader import JsonError, JsonReader
from penstock.management.rabbitmq_json import Shape
from penstock.protocols.common.log_line import LogLine

if TYPE_CHECKING:
    from penstock.management.node import Node

LEFT_TOLD: Final = 5
"""Most remaining items that an error names."""
NOTES_TOLD: Final = 100
"""Most sentences about what has no effect in an answer."""


def kinds_of(node: Node) -> list[DefinitionKind]:
    """Return the kinds of definitions in the order in which they are made."""
    return [
        VhostKind(node),
        UserKind(node),
        PermissionKind(node),
        TopicPermissionKind(node),
        ParameterKind(node, False),
        ParameterKind(node, True),
        SettingsKind(node),
        PolicyKind(node, False),
        PolicyKind(node, True),
        ExchangeKind(node),
        QueueKind(node),
        BindingKind(node),
        VhostLimitsKind(node),  # Last: a limit that was lowered has left more queues than it permits.
    ]


def import_steps(
    node: Node, data: bytes, vhost: str | None, skip: list[str] | None = None, dry_run: bool = False
) -> Steps[Shape]:
    """Import a file in steps; `vhost` is the default virtual host of entries, `skip` names kinds that are left out.

    Return the numbers of new and of changed items; with `dry_run` what would differ, and nothing is changed. Raises
    PreconditionFailed (406) with line and key, after undoing everything.
    """
    work = Import(node, data, vhost, skip or [])
    if dry_run:
        return (yield from work.compare())
    try:
        yield from work.run()
    except BrokerError as error:
        yield from work.take_back()
        raise work.failure(error) from None
    return work.result()


def answer_import(node: Node, request: ControlRequest) -> Steps[Shape]:
    """Answer definitions.import {definitions, everywhere, skip, dry_run}: the text of a file; see `import_steps`."""
    reader = JsonReader(request.unread or b"{}")
    try:
        while not reader.step():
            node.broker.work.done += PARSE_WORK
            yield
    except JsonError as error:
        raise PreconditionFailed(f"the body of a control request must be a JSON object: {error}") from None
    request.fields = reader.found
    text = request.fields.pop("definitions", None)
    if not isinstance(text, str):
        raise PreconditionFailed("'definitions' must be a string: the text of a file")
    if reader.has_halves:
        raise PreconditionFailed(f"a string contains a lone surrogate (half a character){NOTHING_IMPORTED}")
    vhost = None if request.fields.get("everywhere") is True else request.vhost.name
    skip = [] if request.fields.get("skip") is None else request.names("skip", 0)
    return (yield from import_steps(node, text.encode(), vhost, skip, request.flag("dry_run")))


class Import:
    """One import, with its undo actions."""

    def __init__(self, node: Node, data: bytes, vhost: str | None, skip: list[str]) -> None:
        self.node = node
        self.defined = ParsedDefinitions(data, vhost, skip)
        self.made = Made()
        self._kinds = kinds_of(node)
        self._left: list[str] = []

    def run(self) -> Steps[None]:
        """Run the import. Raises PreconditionFailed (406) with line and key."""
        work = self.node.broker.work
        yield from self._parse()
        for kind in self._kinds:
            entries = self.defined.entries[kind.name]
            for entry in entries:
                try:
                    kind.make(entry, self.made)
                except BrokerError as error:
                    raise self._error(kind, entry, error) from None
                work.done += ENTRY_WORK
                yield
            try:
                yield from kind.finish(self.made)
            except BrokerError as refusal:  # mypyc: a name has one type in a function.
                raise self._error(kind, _named_in(entries, str(refusal)), refusal) from None
        self._log_result()

    def compare(self) -> Steps[Shape]:
        """Return what the import would do, entry by entry; unchanged ones are counted only."""
        work = self.node.broker.work
        yield from self._parse()
        planned = Planned()
        differences: list[Shape] = []
        unchanged: dict[str, int] = {}
        for kind in self._kinds:
            for entry in self.defined.entries[kind.name]:
                found = kind.compared(entry, planned)
                if found.change == UNCHANGED:
                    unchanged[kind.name] = unchanged.get(kind.name, 0) + 1
                else:
                    differences.append(_shape(kind, found, self.defined.line(entry)))
                work.done += ENTRY_WORK
                yield
        return {"differences": differences, "unchanged": unchanged, "not_imported": dict(self.defined.read_over)}

    def _parse(self) -> Steps[None]:
        while not self.defined.complete:
            self.node.broker.work.count(self.defined.read())
            yield

    def take_back(self) -> Steps[None]:
        """Undo everything in reverse order; policies and settings last."""
        made = self.made
        while made.undo:
            left = made.undo.pop()()
            if left:
                self._left.append(left)
            self.node.broker.work.done += ENTRY_WORK
            yield
        while made.undo_steps:
            yield from made.undo_steps.pop()()

    def failure(self, error: BrokerError) -> BrokerError:
        """Return the error of an import that was undone; it names what stays."""
        if not self._left:
            return error
        named = ", ".join(self._left[:LEFT_TOLD])
        more = f" and {len(self._left) - LEFT_TOLD} more" if len(self._left) > LEFT_TOLD else ""
        text = str(error).removesuffix(NOTHING_IMPORTED)
        return PreconditionFailed(f"{text}; undone, except for items in use: {named}{more}")

    def result(self) -> Shape:
        """Return the numbers of new and changed items, and sentences about what has no effect."""
        made = self.made
        notes = made.notes[:NOTES_TOLD]
        if len(made.notes) > NOTES_TOLD:
            notes.append(f"and {len(made.notes) - NOTES_TOLD:,} more without effect")
        return {
            "made": dict(made.created),
            "changed": dict(made.changed),
            "not_imported": dict(self.defined.read_over),
            "notes": notes,
        }

    def _error(self, kind: DefinitionKind, entry: Entry | None, error: BrokerError) -> PreconditionFailed:
        if entry is None:
            return PreconditionFailed(f"{kind.name}: {error}{NOTHING_IMPORTED}")
        path: list[str | int] = [entry.section, entry.index]
        if isinstance(error, WrongArguments):
            path.append("arguments")
        return self.defined.error(path, str(error))

    def _log_result(self) -> None:
        node = self.node
        summary = ", ".join(f"{count} {name}" for name, count in self.made.created.items())
        changed = ", ".join(f"{count} {name} changed" for name, count in self.made.changed.items())
        node.log(
            LogLine(
                f"definitions imported: {'; '.join(each for each in (summary, changed) if each) or 'nothing new'}",
                {"id": CHANGED},
            )
        )
        if any(self.defined.read_over.values()):
            listed = ", ".join(f"{count} {name}" for name, count in self.defined.read_over.items())
            node.log(LogLine(f"definitions: not imported were {listed}", {"id": CHANGED}))
        if self.made.notes:
            node.log(
                LogLine(
                    f"definitions: {len(self.made.notes)} items have no effect here, or not all of their keys",
                    {"id": CHANGED},
                )
            )


def _shape(kind: DefinitionKind, found: Difference, line: int) -> Shape:
    shape: Shape = {"line": line, "kind": kind.name, "subject": found.subject, "change": found.change}
    if found.details:
        shape["details"] = [{"key": key, "from": before, "to": after} for key, before, after in found.details]
    if found.reason:
        shape["reason"] = found.reason
    if found.note:
        shape["note"] = found.note
    return shape


def _named_in(entries: list[Entry], text: str) -> Entry | None:
    """Return the entry whose name an error quotes; None if no one, or more than one does."""
    found = [entry for entry in entries if f"'{entry.text('name')}'" in text]
    return found[0] if len(found) == 1 else None
