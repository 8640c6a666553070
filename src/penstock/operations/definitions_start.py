"""Definitions at the start: files that are compared with what is there, and imported where they differ.

All files are imported, or none: an error in a file undoes the earlier files too. Nobody is connected meanwhile.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.connections.audit_trail import Actor
from penstock.connections.control_request import IMPORT
from penstock.connections.log_line import LogLine
from penstock.describe.table import Row
from penstock.errors import BrokerError, PreconditionFailed
from penstock.flow.progress import WorkProgress
from penstock.flow.work import Steps
from penstock.logs.ids import DEFINITIONS
from penstock.management.node import Node
from penstock.operations.definitions_import import EVERYTHING, Import, rows
from penstock.operations.definitions_parser import ParsedDefinitions, one_of

NOTES_LOGGED: Final = 20
"""Most warnings about one file in the log."""


class DefinitionsFile(NamedTuple):
    """File of definitions, with the content that was read."""

    name: str
    data: bytes


def check_file(file: DefinitionsFile) -> None:
    """Check the keys and types of a file, without a broker. Raises PreconditionFailed (406) with file, line and key."""
    parsed = ParsedDefinitions(file.data, None, [each.section for each in rows(False)])
    try:
        while not parsed.complete:
            parsed.read()
    except BrokerError as error:
        raise _refusal(file, error) from None


def import_files_steps(node: Node, files: list[DefinitionsFile]) -> Steps[None]:
    """Import the files that differ from what is there, in their order: all or none.

    Raises PreconditionFailed (406) with file, line and key, after undoing everything.
    """
    done: list[Import] = []
    for file in files:
        try:
            differs = yield from _differs(node, file)
            if differs:
                done.append(_import_of(node, file, False))
                yield from done[-1].run()
                yield from done[-1].complete()
        except BrokerError as error:
            refused = error
            for work in reversed(done):
                yield from work.take_back()
                refused = work.failure(refused)
            raise _refusal(file, refused) from None
        if differs:
            _report(node, file, done[-1].result())
        else:
            _log(node, file, "unchanged; nothing was imported")


def _import_of(node: Node, file: DefinitionsFile, dry_run: bool) -> Import:
    return Import(node, file.data, None, EVERYTHING, dry_run, WorkProgress())


def _differs(node: Node, file: DefinitionsFile) -> Steps[bool]:
    """Return whether an import of a file would change anything, or be refused."""
    compared = yield from _import_of(node, file, True).compare()
    differences = compared["differences"]
    assert isinstance(differences, list)
    return len(differences) > 0


def _report(node: Node, file: DefinitionsFile, result: Row) -> None:
    """Log the objects that a file has made and changed, and its warnings; record the import in the audit trail."""
    parts = [f"{_counted(result['made']) or 'nothing'} created"]
    changed = _counted(result["changed"])
    parts += [f"{changed} changed"] if changed else []
    _log(node, file, f"imported; {'; '.join(parts)}")
    warnings = [str(each) for name in ("overflow", "notes") for each in _texts(result[name])]
    for warning in warnings[:NOTES_LOGGED]:
        _log(node, file, warning)
    if len(warnings) > NOTES_LOGGED:
        _log(node, file, f"{len(warnings) - NOTES_LOGGED:,} more warnings; a dry run of an import lists all")
    node.audit.change(Actor("", "file", "start"), IMPORT, file.name, None, result)


def _counted(counts: object) -> str:
    assert isinstance(counts, dict)
    return ", ".join(
        [f"{count:,} {one_of(kind) if count == 1 else kind.replace('_', ' ')}" for kind, count in counts.items()]
    )


def _texts(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


def _log(node: Node, file: DefinitionsFile, text: str) -> None:
    node.log(LogLine(f"definitions '{file.name}': {text}", {"id": DEFINITIONS, "file": file.name}))


def _refusal(file: DefinitionsFile, error: BrokerError) -> PreconditionFailed:
    """Return an error with the name of the file."""
    return PreconditionFailed(f"definitions '{file.name}': {error}")
