"""What a damaged store has lost, and saving the rest of it: what `penstock check` and `penstock repair` do."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from penstock.persistence.message_audit import Loss
from penstock.persistence.store_scan import StoreScanner
from penstock.store.directory import DataDirectory
from penstock.store.records import StoreTransaction
from penstock.store.repair import Saved, repair
from penstock.store.sqlite import SqliteStore
from penstock.store.store import Damage, Store


class CheckReport(NamedTuple):
    """What was found in a store."""

    damaged: list[Damage]
    losses: list[Loss]


class RepairReport(NamedTuple):
    """What has become of a damaged data directory."""

    saved: Saved
    messages: int
    """How many are in the new one."""
    losses: list[Loss]
    declared: list[str]
    """Queues that had lost their declaration and were declared anew, in words."""


def check_store(store: Store) -> CheckReport:
    """Read everything in a store that no broker is using. Raises StoreError, StartError."""
    counting = StoreScanner()
    try:
        store.open()
        damaged = store.check(counting.take) + counting.damaged
    finally:
        store.close()
    return CheckReport(damaged, counting.account.losses(damaged))


def check_directory(path: Path) -> CheckReport:
    """Read everything in a data directory that no broker is using. Raises as `look`."""
    directory = DataDirectory(path)
    directory.hold()
    try:
        return check_store(SqliteStore(path))
    finally:
        directory.unlock()


def repair_directory(source: Path, target: Path) -> RepairReport:
    """Save what can be read of a data directory in another, and let that say how much it is. Raises as `repair`."""
    saved = repair(source, target)
    directory = DataDirectory(target)
    directory.hold()
    try:
        counting, declared = _settle(SqliteStore(target))
    finally:
        directory.unlock()
    losses = counting.account.losses(saved.lost + counting.damaged)
    return RepairReport(saved, counting.account.total(), losses, declared)


def _settle(store: Store) -> tuple[StoreScanner, list[str]]:
    """Count what was saved, write that, and declare the queues that have no declaration; returns these in words."""
    counting = StoreScanner()
    try:
        store.open()
        counting.damaged += store.check(counting.take)
        names = counting.account.names
        before = set(names)
        commit = StoreTransaction()
        commit.metadata = counting.declarations()
        commit.positions = counting.account.corrected(counting.positions)
        store.commit(commit)
    finally:
        store.close()
    return counting, [names[number] for number in names if number not in before]
