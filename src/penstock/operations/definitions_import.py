"""Definitions import: all or nothing, in steps of some entries; or a dry run.

Each entry is declared as by a client, and is visible at once. Policies and settings are changed together. An error
undoes the previous entries in reverse order. Entries that clients have begun to use stay, and the error names these
entries. On request, refused entries are skipped, with all entries that need them; the answer lists skipped entries. An
import is a job that runs beside changes; settings and policies wait in the line of changes. An undo leaves objects that
others have changed meanwhile, and the error names these objects. A cancelled import is undone like a failed import.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.access.rules import ConnectionAccess
from penstock.connections.control_request import IMPORT, ControlRequest
from penstock.connections.log_line import LogLine
from penstock.core.settings.changes import copied_steps
from penstock.describe.table import Row
from penstock.errors import BrokerError, Cancelled, NotFound, PreconditionFailed, ResourceError
from penstock.flow.progress import WorkProgress, alone
from penstock.flow.work import Steps
from penstock.logs.ids import CHANGED
from penstock.management.elsewhere import PartsWork
from penstock.management.jobs import DEFINITIONS, Subject
from penstock.management.node import Node
from penstock.management.operation import BY_EVERYWHERE, JOINED, Operation, Route
from penstock.operations import limits, parameters, permissions, policies, settings, topology, users, vhosts
from penstock.operations.definitions_kinds import CHANGED as CHANGED_ENTRY
from penstock.operations.definitions_kinds import (
    CREATED,
    ENTRY_WORK,
    REFUSED,
    SKIPPED,
    UNCHANGED,
    DefinitionKind,
    Definitions,
    Difference,
    Made,
    Planned,
    Undo,
    check_vhost,
    defined_sections,
)
from penstock.operations.definitions_parser import (
    BYTES_MOST,
    NOTHING_IMPORTED,
    Entry,
    InvalidEntry,
    ParsedDefinitions,
    place_of,
    refusal,
)
from penstock.operations.definitions_parts import (
    IMPORT_JOIN,
    OFFICE,
    SHARD,
    WHOLE,
    failure_of,
    is_imported,
    joined_result,
    needs_vhost,
)
from penstock.operations.topology import WrongArguments
from penstock.texts import joined

FIELDS: Final[tuple[str, ...]] = (
    *("definitions", "everywhere", "dry_run", "skip", "skip_refused", "streams_as_queues", "move", "of"),
)
LEFT_TOLD: Final = 5
"""Most remaining items that an error names."""
NOTES_TOLD: Final = 100
"""Most warnings about ineffective settings in an answer."""
SHAPE_WORK: Final = 10
"""Units of work to write down an outcome."""
PART_WORK: Final = 2
"""Units of work to find out whose part an entry is."""
LOOK_WORK: Final = 5
"""Units of work to look at what an entry names."""
LOST: Final[dict[str, str]] = {
    "x-dead-letter-exchange": "dead letters are lost",
    "dead-letter-exchange": "dead letters are lost",
    "alternate-exchange": "what reaches no queue is lost",
}
"""Keys that name an exchange without which an entry can still be made, and the function that is lost then."""


NO_EFFECT: Final = "without effect"
"""Verdict on an entry of which at least one key has no effect here."""
VERDICTS: Final[tuple[str, ...]] = (REFUSED, NO_EFFECT, CHANGED_ENTRY, CREATED)
"""Verdicts on entries in a dry run, in the order of its answer."""


class Unwanted(PreconditionFailed):
    """Error for an entry that the import is to skip."""


def rows(streams_as_queues: bool) -> list[Definitions]:
    """Return the kinds of definitions in the order of their import."""
    return [
        vhosts.DEFINITIONS,
        users.DEFINITIONS,
        permissions.PERMISSIONS,
        permissions.TOPICS,
        parameters.DEFINITIONS,
        parameters.GLOBAL_DEFINITIONS,
        settings.DEFINITIONS,
        policies.DEFINITIONS,
        policies.OPERATOR_DEFINITIONS,
        topology.EXCHANGES_DEFINED,
        topology.queue_definitions(streams_as_queues),
        topology.BINDINGS_DEFINED,
        limits.DEFINITIONS,  # Last: the existing queues may exceed a limit that was lowered.
    ]


class ImportOptions(NamedTuple):
    """Options of an import: the omitted entries, and the replacement of streams."""

    skip: Sequence[str] = ()
    """Kinds, and KIND:NAME for single entries."""
    skip_refused: bool = False
    """True if refused entries are left out, instead of the whole file."""
    streams_as_queues: bool = False
    moves: bool = False
    """True if the entries of one virtual host of the file go into the virtual host of the import."""
    of: str = ""
    """That virtual host of the file; empty for the only one."""


EVERYTHING: Final[ImportOptions] = ImportOptions()
NEW_VHOSTS: Final = "new_vhosts"
"""Field of a dry run that goes to a shard: virtual hosts of the file that no shard has yet."""


class Part(NamedTuple):
    """Part of a file that an import is about, and its user."""

    name: str = WHOLE
    """As in definitions_parts.py."""
    new_vhosts: Sequence[str] = ()
    access: ConnectionAccess | None = None
    """Access of the user; None at the start."""
    peer: str = ""
    asker: str = ""
    """Address and name of the user."""


def import_steps(
    node: Node,
    data: bytes,
    vhost: str | None,
    options: ImportOptions = EVERYTHING,
    dry_run: bool = False,
    progress: WorkProgress | None = None,
    part: Part | None = None,
) -> Steps[Row]:
    """Import a file in steps; `vhost` is the default virtual host of entries, None if each must name one.

    Return the numbers of new and of changed items, and the skipped ones. With `dry_run` return the differences, and
    change nothing. Raises PreconditionFailed (406) with line and key, after undoing everything; also ResourceError
    (506) for a limit of the broker, for which entries are not skipped; Cancelled (406) after undoing everything.
    """
    work = Import(node, data, vhost, options, dry_run, WorkProgress() if progress is None else progress, part)
    if dry_run:
        return (yield from work.compare())
    try:
        yield from work.run()
    except BrokerError as error:
        yield from work.take_back()
        raise work.failure(error) from None
    yield from work.complete()
    return work.result()


def answer_import(node: Node, request: ControlRequest) -> Steps[Row]:
    """Answer definitions.import {definitions, everywhere, dry_run}, and the fields of `ImportOptions`.

    `definitions` is the text of a file, or its bytes over HTTP; see `import_steps`.
    """
    text = request.fields.pop("definitions", None)
    if not isinstance(text, str | bytes):
        raise PreconditionFailed("'definitions' must be a string: the text of a file")
    data = text if isinstance(text, bytes) else text.encode()
    vhost = None if request.fields.get("everywhere") is True else request.vhost.name
    skip = [] if request.fields.get("skip") is None else request.names("skip", 0)
    moves, of = request.flag("move"), request.text("of", "")
    if moves and vhost is None:
        raise PreconditionFailed("'move' imports entries into one virtual host: leave out 'everywhere'")
    if of and not moves:
        raise PreconditionFailed("'of' chooses the entries that 'move' imports: give both")
    options = ImportOptions(skip, request.flag("skip_refused"), request.flag("streams_as_queues"), moves, of)
    dry_run = request.flag("dry_run")
    part = Part(request.text(JOINED, WHOLE), request.names(NEW_VHOSTS, 0) if NEW_VHOSTS in request.fields else ())
    part = part._replace(access=request.access, peer=request.peer, asker=request.asker())
    return (yield from import_steps(node, data, vhost, options, dry_run, request.progress, part))


def subject_of(node: Node, request: ControlRequest) -> tuple[Subject, ...]:
    """Return the subject of an import: the definitions of a virtual host, or of all."""
    everywhere = request.fields.get("everywhere") is True
    return (Subject(DEFINITIONS, "", "" if everywhere else request.vhost.name),)


class Import:
    """One import, with its undo actions."""

    def __init__(
        self,
        node: Node,
        data: bytes,
        vhost: str | None,
        options: ImportOptions,
        dry_run: bool,
        progress: WorkProgress,
        part: Part | None = None,
    ) -> None:
        """`part` is that of a shard; a node's own broker imports what belongs to the node, and then asks its shards."""
        self._part = Part() if part is None else part
        if self._part.name == WHOLE and node.parts is not None:
            self._part = self._part._replace(name=OFFICE)
        self._given: Row = {
            "definitions": data,
            "everywhere": vhost is None,
            "dry_run": dry_run,
            "skip": [*options.skip],
            "skip_refused": options.skip_refused,
            "streams_as_queues": options.streams_as_queues,
            "move": options.moves,
            "of": options.of,
            JOINED: SHARD,
        }
        self._vhost = vhost
        self._shards: PartsWork | None = None
        """Imports of the shards; None before they begin, and without shards."""
        self.node = node
        self.progress = progress
        self._kinds = [
            DefinitionKind(node, row)
            for row in (
                *rows(options.streams_as_queues),
                *(each.definitions for each in defined_sections(node).values()),
            )
        ]
        sections = [kind.row.section for kind in self._kinds]
        lenient = options.skip_refused or dry_run
        self.defined = ParsedDefinitions(data, vhost, sections, options.skip, lenient, options.moves, options.of)
        self.made = Made()
        self._skip_refused = options.skip_refused
        self._others: list[Entry] = []
        """Entries that are not of the part."""
        self._left: list[str] = []
        self._skipped: list[Row] = []
        self._missing: set[str] = set()
        """Subjects of the skipped entries."""
        self._outcomes: dict[str, Difference] = {}
        """Outcomes of entries that a rehearsal refused, by subject."""

    def run(self) -> Steps[None]:
        """Run the import. Raises PreconditionFailed (406) with line and key."""
        yield from self._parse()
        yield from self._invalid_steps()
        for kind in self._kinds:
            if kind.row is not limits.DEFINITIONS or self._part.name != OFFICE:
                yield from self._make(kind)
        yield from self._check_others(None)
        yield from self._note_dangling()

    def complete(self) -> Steps[None]:
        """End an import that nobody undoes any more: shards import their parts, and then limits follow.

        Raises PreconditionFailed (406).
        """
        if self._part.name == OFFICE:
            yield from self._in_shards([])
            for kind in self._kinds:
                if kind.row is limits.DEFINITIONS:
                    yield from self._make(kind)
        self._log_result()

    def _make(self, kind: DefinitionKind) -> Steps[None]:
        """Make all entries of a kind."""
        for entry in self.defined.entries[kind.name]:
            try:
                self._check_wanted(kind, entry)
                kind.make(entry, self.made)
            except BrokerError as error:
                self._refuse(kind, entry, error)
            self._count_entry()
            yield
            self.progress.check()
        yield from self._finish(kind, None)

    def _count_entry(self) -> None:
        self.node.broker.work.done += ENTRY_WORK
        self.progress.done += 1

    def _invalid_steps(self) -> Steps[list[Row]]:
        """Skip invalid entries, and return their rows for the answer."""
        rows: list[Row] = []
        for invalid in self.defined.invalid:
            rows.append(self._skip_invalid(invalid))
            self.node.broker.work.done += ENTRY_WORK
            yield
        return rows

    def _finish(self, kind: DefinitionKind, planned: Planned | None) -> Steps[None]:
        """Make or plan the gathered entries of a kind.

        If refused entries are to be listed, bisect the entries to find the refused ones.
        """
        parts = [kind.gathered] if kind.gathered else []
        while parts:
            part = parts.pop()
            try:
                if planned is None:
                    yield from alone(self.progress, kind.finish(part, self.made))
                else:
                    yield from kind.rehearse(part, planned, self.made)
            except BrokerError as error:
                to_the_end = planned is not None or (self._skip_refused and not isinstance(error, ResourceError))
                if len(part) > 1 and to_the_end:
                    half = len(part) // 2
                    parts += [part[half:], part[:half]]
                    continue
                entry = part[0] if len(part) == 1 else _named_in(part, str(error))
                if planned is not None and entry is not None:
                    self._outcomes[kind.subject(entry)] = self._refused(kind, entry, error)
                elif entry is None:
                    raise refusal(f"{kind.name}: {error}") from None
                else:
                    self._refuse(kind, entry, error)

    def _check_wanted(self, kind: DefinitionKind, entry: Entry) -> None:
        """Raise Unwanted for an entry to skip."""
        if (kind.name, entry.text(kind.row.section.named_by)) in self.defined.named:
            raise Unwanted("as asked")

    def _refuse(self, kind: DefinitionKind, entry: Entry, error: BrokerError) -> None:
        """Skip a refused entry. Raises the error with line and key for an entry that must not be skipped."""
        difference = self._skipped_as(kind, entry, error)
        if difference is None:
            raise self._error(entry, error) from None

    def _skipped_as(self, kind: DefinitionKind, entry: Entry, error: BrokerError) -> Difference | None:
        """Record an entry as skipped, for the error or a skipped entry that it needs; None if it must not be."""
        reason = str(error)
        if isinstance(error, NotFound):
            reason = next((f"{need} is skipped" for need in needs(entry) if need in self._missing), reason)
        elif isinstance(error, ResourceError):
            return None
        if not (self._skip_refused or reason != str(error) or isinstance(error, Unwanted)):
            return None
        difference = kind.difference(entry, SKIPPED)
        difference.reason = reason
        self._missing.add(difference.subject)
        self._skipped.append(self._entry_shape(kind, entry, difference))
        return difference

    def _skip_invalid(self, invalid: InvalidEntry) -> Row:
        difference = Difference(place_of(invalid.path), SKIPPED if self._skip_refused else REFUSED)
        difference.reason = str(invalid)
        row = _shape(str(invalid.path[0]), difference, self.defined.line_of(invalid.path))
        self._skipped.append(row)
        return row

    def compare(self) -> Steps[Row]:
        """Return the effect of the import, entry by entry. Unchanged entries are only counted."""
        work = self.node.broker.work
        yield from self._parse()
        table = yield from copied_steps(self.node.broker)
        planned = Planned(table)
        yield from self._plan_others(planned)
        differences = yield from self._invalid_steps()
        unchanged: dict[str, int] = {}
        for kind in self._kinds:
            compared: list[tuple[Entry, Difference]] = []
            for entry in self.defined.entries[kind.name]:
                compared.append((entry, self._compared(kind, entry, planned)))
                self._count_entry()
                yield
                self.progress.check()
            yield from self._finish(kind, planned)
            for entry, difference in compared:
                if difference.change == UNCHANGED:
                    unchanged[kind.name] = unchanged.get(kind.name, 0) + 1
                else:
                    work.done += SHAPE_WORK
                    yield
                    outcome = self._outcomes.get(difference.subject, difference)
                    differences.append(self._entry_shape(kind, entry, outcome))
        differences += yield from self._check_others(planned)
        yield from self._note_dangling()
        if self._part.name == OFFICE:
            yield from self._in_shards(sorted(planned.vhosts))
        counts = dict.fromkeys(VERDICTS, 0)
        for row in differences:
            counts[str(row["verdict"])] += 1
        compared_all: Row = {
            "differences": sorted(differences, key=lambda row: VERDICTS.index(str(row["verdict"]))),
            "counts": {**counts, "as it is": sum(unchanged.values())},
            "unchanged": unchanged,
            "not_imported": dict(self.defined.read_over),
            "overflow": list(self.made.overflow),
            "notes": self._notes(),
        }
        return self._with_shards(compared_all)

    def _entry_shape(self, kind: DefinitionKind, entry: Entry, difference: Difference) -> Row:
        name = entry.text(kind.row.section.named_by)
        if entry.section == "bindings":
            name = f"{entry.text('source')} → {entry.text('destination')}"
        named: Row = {"name": name or None, "vhost": entry.text("vhost") or None}
        return {**_shape(kind.name, difference, self.defined.line(entry)), **named}

    def _compared(self, kind: DefinitionKind, entry: Entry, planned: Planned) -> Difference:
        try:
            self._check_wanted(kind, entry)
            return kind.compare(entry, planned)
        except BrokerError as error:
            return self._refused(kind, entry, error)

    def _refused(self, kind: DefinitionKind, entry: Entry, error: BrokerError) -> Difference:
        """Return the outcome of an entry that the import would refuse or skip."""
        difference = self._skipped_as(kind, entry, error)
        if difference is None:
            difference = kind.difference(entry, REFUSED)
            difference.reason = str(error)
        return difference

    def _note_dangling(self) -> Steps[None]:
        """Record entries that name a skipped, missing exchange, and so lose messages."""
        if not any(row["kind"] == "exchanges" for row in self._skipped):
            return
        for kind in self._kinds:
            for entry in self.defined.entries[kind.name]:
                for key, name in named_exchanges(entry):
                    vhost = self.node.broker.vhosts.get(entry.text("vhost"))
                    is_there = vhost is not None and name in vhost.exchanges
                    subject = kind.subject(entry)
                    if not is_there and exchange_subject(name, entry) in self._missing and subject not in self._missing:
                        self.made.notes.append(f"{subject}: {key}={name} is skipped; {LOST[key]} until it exists")
                self.node.broker.work.done += LOOK_WORK
                yield

    def _parse(self) -> Steps[None]:
        while not self.defined.complete:
            self.node.broker.work.count(self.defined.read())
            yield
            self.progress.check()
        self.defined.check_skipped()
        yield from self._part_steps()
        self.progress.count_all(sum(len(entries) for entries in self.defined.entries.values()), "entries")

    def _part_steps(self) -> Steps[None]:
        """Keep the entries of the part, and put those of others aside."""
        if self._part.name == WHOLE:
            return
        vhosts = [*self.node.broker.vhosts, *self._part.new_vhosts]
        entries = self.defined.entries
        for kind in self._kinds:
            own: list[Entry] = []
            for entry in entries[kind.name]:
                is_own = is_imported(self._part.name, kind.name, entry, vhosts)
                (own if is_own else self._others).append(entry)
                if self.node.broker.work.spend(PART_WORK):
                    yield
            entries[kind.name] = own

    def _plan_others(self, planned: Planned) -> Steps[None]:
        """Plan the virtual hosts of the file that no shard has yet, so that their entries can be compared."""
        for kind in self._kinds:
            for entry in self._others:
                if entry.section == kind.name == vhosts.DEFINITIONS.section.name:
                    if entry.text("name") in self._part.new_vhosts:
                        kind.compare(entry, planned)
                        yield

    def _check_others(self, planned: Planned | None) -> Steps[list[Row]]:
        """Refuse or skip entries of virtual hosts that do not exist, which no shard would import; return their rows."""
        rows: list[Row] = []
        if self._part.name != OFFICE:
            return rows
        for kind in self._kinds:
            for entry in [each for each in self._others if each.section == kind.row.section.name]:
                try:
                    if needs_vhost(kind.name, entry):
                        check_vhost(self.node, entry, planned)
                except BrokerError as error:
                    if planned is None:
                        self._refuse(kind, entry, error)
                    else:
                        rows.append(self._entry_shape(kind, entry, self._refused(kind, entry, error)))
                if self.node.broker.work.spend(PART_WORK):
                    yield
        return rows

    def _in_shards(self, new_vhosts: list[str]) -> Steps[None]:
        """Have the shards import or compare their parts, each whole or not at all. Raises the error that names them."""
        parts, progress, part = self.node.parts, self.progress, self._part
        if parts is None:
            return
        work = parts.begin(
            self._given, self._vhost or "", new_vhosts, part.access, part.peer, part.asker, progress.go_on
        )
        self._shards = work
        while not work.is_over:
            progress.hold("the shards import their parts")
            yield
        progress.go_on()
        failure = failure_of(work.answers, self._given["dry_run"] is True)
        if failure is not None:
            raise failure

    def _with_shards(self, own: Row) -> Row:
        """Return a result with those of the shards."""
        work = self._shards
        if work is None:
            return own
        return joined_result([own, *[part.answer for part in work.answers if isinstance(part.answer, dict)]])

    def take_back(self) -> Steps[None]:
        """Undo all entries in reverse order, except objects that were changed since.

        Policies and settings are last, and then virtual hosts, whose deletion changes policies and settings too.
        """
        made = self.made
        self.progress.phase = "undoing"
        self.progress.count_all(len(made.undo) + len(made.undo_alone), "entries")
        while made.undo:
            self._undo(made.undo.pop())
            yield
        if made.undo_steps or made.undo_alone:
            yield from alone(self.progress, self._take_back_alone())
        self.progress.phase = ""

    def _take_back_alone(self) -> Steps[None]:
        made = self.made
        while made.undo_steps:
            left = yield from made.undo_steps.pop()()
            self._left += left
        while made.undo_alone:
            self._undo(made.undo_alone.pop())
            yield

    def _undo(self, undo: Undo) -> None:
        left = undo()
        if left:
            self._left.append(left)
        self._count_entry()

    def failure(self, error: BrokerError) -> BrokerError:
        """Return the error of an import that was undone; the error names the remaining objects."""
        if not self._left:
            return Cancelled(joined(str(error), NOTHING_IMPORTED)) if isinstance(error, Cancelled) else error
        named = ", ".join(self._left[:LEFT_TOLD])
        more = f" and {len(self._left) - LEFT_TOLD} more" if len(self._left) > LEFT_TOLD else ""
        kind = Cancelled if isinstance(error, Cancelled) else PreconditionFailed
        text = str(error).removesuffix(f"; {NOTHING_IMPORTED}").removesuffix(f" {NOTHING_IMPORTED.capitalize()}")
        return kind(joined(text, f"undone, except for items in use: {named}{more}"))

    def result(self) -> Row:
        """Return the numbers of new and changed items, and warnings about ineffective settings."""
        made = self.made
        own: Row = {
            "made": dict(made.created),
            "changed": dict(made.changed),
            "not_imported": dict(self.defined.read_over),
            "skipped": list(self._skipped),
            "overflow": list(made.overflow),
            "notes": self._notes(),
        }
        return self._with_shards(own)

    def _notes(self) -> list[str]:
        notes = self.made.remarks[:NOTES_TOLD]
        if len(self.made.remarks) > NOTES_TOLD:
            notes.append(f"and {len(self.made.remarks) - NOTES_TOLD:,} more that are paused")
        notes += self.made.notes[:NOTES_TOLD]
        if len(self.made.notes) > NOTES_TOLD:
            notes.append(f"and {len(self.made.notes) - NOTES_TOLD:,} more without effect")
        return notes

    def _error(self, entry: Entry, error: BrokerError) -> PreconditionFailed:
        path = self.defined.path(entry)
        if isinstance(error, WrongArguments):
            path.append("arguments")
        return self.defined.error(path, str(error))

    def _log_result(self) -> None:
        summary = ", ".join(f"{count} {name}" for name, count in self.made.created.items())
        changed = ", ".join(f"{count} {name} changed" for name, count in self.made.changed.items())
        lines = [f"definitions imported: {'; '.join(each for each in (summary, changed) if each) or 'nothing new'}"]
        if any(self.defined.read_over.values()):
            listed = ", ".join(f"{count} {name}" for name, count in self.defined.read_over.items())
            lines.append(f"definitions: not imported were {listed}")
        if self._skipped:
            lines.append(f"definitions: skipped were {len(self._skipped)} entries")
        if self.made.remarks:
            lines.append(f"definitions: {len(self.made.remarks)} bridges are paused")
        if self.made.notes:
            count = len(self.made.notes)
            lines.append(f"definitions: {count} items have no effect here, or not all of their keys")
        for line in lines:
            self.node.log(LogLine(line, {"id": CHANGED}))


def needs(entry: Entry) -> list[str]:
    """Return the subjects of the objects that an entry needs."""
    vhost = entry.text("vhost")
    needs = [f"vhost '{vhost}'"]
    if "user" in entry.fields:
        needs.append(f"user '{entry.text('user')}'")
    if entry.section == "bindings":
        needs.append(exchange_subject(entry.text("source"), entry))
        needs.append(f"{entry.text('destination_type')} '{entry.text('destination')}' in vhost '{vhost}'")
    return needs


def exchange_subject(name: str, entry: Entry) -> str:
    """Return the subject of an exchange of the same virtual host as an entry."""
    return f"exchange '{name}' in vhost '{entry.text('vhost')}'"


def named_exchanges(entry: Entry) -> list[tuple[str, str]]:
    """Return the exchanges to which an entry sends messages, with the key of each."""
    exchanges: list[tuple[str, str]] = []
    for table in (entry.table("arguments"), entry.table("definition")):
        exchanges += [(key, str(table[key])) for key in LOST if key in table]
    return exchanges


def verdict_of(difference: Difference) -> str:
    """Return what becomes of an entry, as one of `VERDICTS`; a refused entry that is skipped was refused."""
    if difference.change in (REFUSED, SKIPPED):
        return REFUSED
    return NO_EFFECT if difference.note else difference.change


def _shape(kind: str, difference: Difference, line: int) -> Row:
    row: Row = {"line": line, "kind": kind, "subject": difference.subject, "change": difference.change}
    row["name"] = row["vhost"] = None
    row["verdict"] = verdict_of(difference)
    if difference.details:
        row["details"] = [{"key": key, "from": before, "to": after} for key, before, after in difference.details]
    if difference.reason:
        row["reason"] = difference.reason.removeprefix(f"{difference.subject}: ")
    if difference.note or difference.remark:
        row["note"] = "; ".join([each for each in (difference.remark, difference.note) if each])
    return row


def _named_in(entries: list[Entry], text: str) -> Entry | None:
    """Return the only entry whose name an error quotes; None if no entry or several entries match."""
    named = [entry for entry in entries if f"'{entry.text('name')}'" in text]
    return named[0] if len(named) == 1 else None


# Over HTTP


FLAGS: Final[tuple[str, ...]] = ("dry_run", "skip_refused", "streams_as_queues", "move")


def read_query(fields: Row) -> Row:
    """Return the fields of an import of those of a query, whose `skip` has commas between kinds.

    A name of an entry may have commas: a word with a colon is one entry.
    """
    words = fields.get("skip")
    if isinstance(words, list):
        parted = [each for word in words for each in ([word] if ":" in word else word.split(",")) if each]
        fields["skip"] = list(dict.fromkeys(parted))
    return fields


def lists_entries(fields: Row) -> bool:
    """Return whether an answer lists entries: a dry run, or options that skip or change single ones.

    All other answers are empty, as RabbitMQ's are.
    """
    skip = fields.get("skip")
    names_entries = isinstance(skip, list) and any(":" in each for each in skip)
    named = any(name in fields for name in ("skip_refused", "streams_as_queues", "move"))
    return fields.get("dry_run") is True or named or names_entries


def _route(where: str, purpose: str, fixed: Row) -> Route:
    return Route(where, purpose, fixed=fixed, query=(*FLAGS, "of"), flags=FLAGS, many=("skip",), read=read_query,
                 body_field="definitions", body_most=BYTES_MOST, silent=True, spoken=lists_entries)  # fmt: skip


OPERATIONS: Final[tuple[Operation, ...]] = (
    Operation(IMPORT, answer_import, FIELDS, job=subject_of, asks=BY_EVERYWHERE, join=IMPORT_JOIN, routes=(
        _route("POST /definitions /all-configuration",
               "Import definitions: all or nothing; errors (400) name line and key. `dry_run=true` answers what would "
               "differ.", {"everywhere": True}),
        _route("POST /definitions/{vhost}", "Import definitions into a virtual host. `move=true` imports entries that "
               "name another one, which `of` chooses.", {}),
    )),
)  # fmt: skip
