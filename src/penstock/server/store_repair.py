"""Check and repair of a damaged store: the work of `penstock check` and `penstock repair`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from penstock.persistence.message_audit import Loss
from penstock.persistence.store_scan import StoreScanner
from penstock.store.damage import Damage
from penstock.store.directory import DataDirectory
from penstock.store.records import StoreTransaction
from penstock.store.repair import Saved, repair
from penstock.store.sqlite import SqliteStore
from penstock.store.store import Store


class CheckReport(NamedTuple):
    """Result of a check."""

    damaged: list[Damage]
    losses: list[Loss]


class RepairReport(NamedTuple):
    """Result of a repair."""

    saved: Saved
    messages: int
    """Messages in the new data directory."""
    losses: list[Loss]
    declared: list[str]
    """Queues without a declaration that were declared anew, by name."""


def check_store(store: Store) -> CheckReport:
    """Read everything in an unused store. Raises StoreError, StartError."""
    counting = StoreScanner()
    try:
        store.open()
        damaged = store.check(counting.take) + counting.damaged
    finally:
        store.close()
    return CheckReport(damaged, counting.account.losses(damaged))


def check_directory(path: Path) -> CheckReport:
    """Read everything in an unused data directory. Raises as `check_store`."""
    directory = DataDirectory(path)
    directory.hold()
    try:
        return check_store(SqliteStore(path))
    finally:
        directory.unlock()


def repair_directory(source: Path, target: Path) -> RepairReport:
    """Copy everything readable from a data directory into another, and record its totals. Raises as `repair`."""
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
    """Count the saved messages, write the counts, and declare queues without a declaration; return their names."""
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
