"""Parts of definitions: entries of a file that each broker of a node imports, and one answer made of theirs.

The node's own broker (the *office*) imports users, virtual hosts, permissions, limits and global parameters. Each shard
imports the entries of its own virtual hosts, and the settings that count for all. Every broker gets the whole file, so
that errors have its lines. The office also checks that each entry's virtual host exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.describe.table import Row
from penstock.errors import BrokerError, Cancelled, PreconditionFailed
from penstock.management.elsewhere import PartAnswer
from penstock.management.operation import JOINED, Answer, Answered, Asked, Join
from penstock.operations.definitions_parser import NOTHING_IMPORTED, Entry
from penstock.settings.placed import placed
from penstock.texts import joined

WHOLE: Final = ""
"""Everything: the import of a broker that is alone."""
OFFICE: Final = "office"
"""Entries that belong to the node."""
SHARD: Final = "shard"
"""Entries of the virtual hosts of one shard."""
HERE: Final = "here"
"""Both, for one of several brokers that have copies of users."""
OF_OFFICE: Final[tuple[str, ...]] = (
    "vhosts", "users", "permissions", "topic_permissions", "global_parameters", "limits",
)  # fmt: skip
"""Kinds of definitions that belong to the node."""
COPIED: Final[tuple[str, ...]] = ("users", "global_parameters", "settings")
"""Kinds of which several brokers import the same entries."""
SETTINGS: Final = "settings"
ORDER: Final[tuple[str, ...]] = (
    *("vhosts", "users", "permissions", "topic_permissions", "parameters", "global_parameters", "settings", "policies"),
    *("operator_policies", "exchanges", "queues", "bindings", "limits"),
)
"""Kinds in the order of their import, which is that of answers; other kinds follow."""


def is_imported(part: str, kind: str, entry: Entry, vhosts: Sequence[str]) -> bool:
    """Return whether a broker with these virtual hosts imports an entry as its part."""
    if part == WHOLE:
        return True
    if kind in OF_OFFICE:
        if part != HERE:
            return part == OFFICE
        name = entry.text("name") if kind == "vhosts" else entry.text("vhost")
        return kind in COPIED or name in vhosts
    if part == OFFICE:
        return False
    if kind == SETTINGS:
        vhost, _ = placed(entry.text("scope"), entry.text("pattern"))
        return vhost is None or vhost in vhosts
    return entry.text("vhost") in vhosts


def needs_vhost(kind: str, entry: Entry) -> bool:
    """Return whether an entry that shards import is of one virtual host, which must exist."""
    return kind not in OF_OFFICE and kind != SETTINGS and "vhost" in entry.fields


# One answer


def _spread(asked: Asked) -> list[Row | None]:
    return [{**asked.fields, JOINED: HERE} for _ in range(asked.brokers)]


def _joined(asked: Asked, answers: list[Answered]) -> Answer:
    rows: list[Row] = []
    for each in answers:
        if isinstance(each, BrokerError):
            raise each
        if isinstance(each, dict):
            rows.append(each)
    return joined_result(rows) if rows else None


IMPORT_JOIN: Final[Join] = Join(_spread, _joined)


def joined_result(rows: list[Row]) -> Row:
    """Return the result of an import, or of a dry run, of those of several brokers."""
    lists = {name: _distinct(rows, name) for name in ("overflow", "notes")}
    if "differences" not in rows[0]:
        return {
            "made": _counts(rows, "made"),
            "changed": _counts(rows, "changed"),
            "not_imported": rows[0]["not_imported"],
            "skipped": sorted(_distinct(rows, "skipped"), key=_place_of),
            **lists,
        }
    unchanged = _counts(rows, "unchanged")
    verdicts = [name for name in _counts_at(rows[0], "counts") if name != "as it is"]
    differences = sorted(_distinct(rows, "differences"), key=_place_of)
    counts = dict.fromkeys(verdicts, 0)
    for each in differences:
        counts[_verdict_of(each)] += 1
    return {
        "differences": sorted(differences, key=lambda row: verdicts.index(_verdict_of(row))),
        "counts": {**counts, "as it is": sum(unchanged.values())},
        "unchanged": unchanged,
        "not_imported": rows[0]["not_imported"],
        **lists,
    }


def _verdict_of(row: object) -> str:
    assert isinstance(row, dict)
    return str(row["verdict"])


def _place_of(row: object) -> tuple[int, int]:
    """Return the place of a row: kinds are in the order of their import, entries of one in that of the file."""
    assert isinstance(row, dict)
    kind, line = str(row["kind"]), row["line"]
    assert isinstance(line, int)
    return ORDER.index(kind) if kind in ORDER else len(ORDER), line


def _distinct(rows: list[Row], name: str) -> list[object]:
    found: dict[str, object] = {}
    for row in rows:
        its = row[name]
        assert isinstance(its, list)
        for each in its:
            found.setdefault(repr(each), each)
    return list(found.values())


def _counts_at(row: Row, name: str) -> dict[str, int]:
    counts = row[name]
    assert isinstance(counts, dict)
    return counts


def _counts(rows: list[Row], name: str) -> dict[str, int]:
    """Return numbers of entries by kind: the sum, and the most of kinds whose entries several brokers have."""
    total: dict[str, int] = {}
    for row in rows:
        for kind, count in _counts_at(row, name).items():
            before = total.get(kind, 0)
            total[kind] = max(before, count) if kind in COPIED else before + count
    return total


# Parts that fail


def failure_of(parts: list[PartAnswer], dry_run: bool) -> BrokerError | None:
    """Return the error of the shards that have not imported their parts, which names them and the others; or None."""
    failed = [part for part in parts if isinstance(part.answer, BrokerError)]
    if not failed:
        return None
    error = failed[0].answer
    assert isinstance(error, BrokerError)
    text = str(error).removesuffix(f"; {NOTHING_IMPORTED}").removesuffix(f" {NOTHING_IMPORTED.capitalize()}")
    kind = Cancelled if isinstance(error, Cancelled) else PreconditionFailed
    if dry_run:
        return kind(f"{text} (shard '{failed[0].shard}')")
    done = _named([part.shard for part in parts if part not in failed])
    others = f", and the part of {done}" if done else ""
    refused = _named([part.shard for part in failed if part.is_known])
    silent = _named([part.shard for part in failed if not part.is_known])
    clauses = [f"of {refused} {NOTHING_IMPORTED}"] if refused else []
    clauses += [f"nobody knows what {silent} imported"] if silent else []
    clauses.append(f"users, virtual hosts and permissions of the file are imported{others}")
    return kind(joined(text, "; ".join(clauses)))


def _named(shards: list[str]) -> str:
    names = ", ".join([f"'{each}'" for each in shards])
    return f"shard{'s' if len(shards) > 1 else ''} {names}" if shards else ""
