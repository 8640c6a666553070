"""A short history of commits, and a process that makes it: the numbers of a store are small, so that much happens.

`python -m tests.support.short_history DIRECTORY RECORD SEED FIRST LAST HOW`. Before and after each commit, or piece of
housekeeping, there is a mark in the record. HOW is "close" if the store is closed at the end, "careless" if nothing is
synchronised (a commit that has returned may be lost then), else "leave".
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Final

from penstock.store import data_file, space, sqlite
from penstock.store.records import MessageRow, MetadataRecord, QueuePosition, SettlementRecord, StoreTransaction
from penstock.store.sqlite import SqliteStore
from tests.support.disk_recording import Marks
from tests.support.open_stores import some_octets

KIB: Final = 1024
SMALL: Final = {
    "LOG_BYTES": 160 * KIB,
    "LOG_KEPT": 64 * KIB,
    "FREE_BEGIN": 160 * KIB,
    "FREE_END": 40 * KIB,
    "FREED_AT_ONCE": 8,
    "PLACED_BYTES": 8 * KIB,
}
"""What stands in space.py, a hundredth of it, and an eighth of what stands in data_file.py."""
QUEUES: Final = 3
SIZES: Final = (40, 300, 900, 5_000, 9_000, 30_000)
LARGE: Final = 200 * KIB


def history(seed: int, commits: int) -> list[StoreTransaction]:
    """Return commits that do what a broker's do; each may be done twice."""
    chance = random.Random(seed)
    rows: list[int] = []
    notes: list[int] = []
    number = 0
    tails = [0] * QUEUES
    made = []
    for at in range(1, commits + 1):
        commit = StoreTransaction()
        goes = len(rows) if chance.random() < 0.1 else chance.randint(0, 3)
        commit.rows_gone = [rows.pop(chance.randrange(len(rows))) for _ in range(min(goes, len(rows)))]
        commit.settlements_gone = [notes.pop(0) for _ in range(min(chance.randint(0, 2), len(notes)))]
        for _ in range(chance.randint(0, 3)):
            number += 1
            rows.append(number)
            data = some_octets(number, LARGE if chance.random() < 0.06 else chance.choice(SIZES))
            if chance.random() < 0.3:
                queue = chance.randrange(QUEUES)
                commit.rows.append(MessageRow(number, data, queue + 1, tails[queue] + 1, 10, len(data)))
                tails[queue] += 10
            else:
                commit.rows.append(MessageRow(number, data))
        for _ in range(chance.randint(0, 2)):
            number += 1
            notes.append(number)
            commit.settlements.append(SettlementRecord(number, some_octets(number, chance.choice((8, 200, 3_000)))))
        commit.positions = [
            QueuePosition(queue, tails[queue - 1], at) for queue in range(1, 4) if chance.random() < 0.5
        ]
        commit.positions_gone = [9] if at % 7 == 0 else []
        if at % 7 == 4:
            commit.positions.append(QueuePosition(9, at, 0))
        if chance.random() < 0.3:
            data = None if chance.random() < 0.3 else some_octets(at, chance.choice((20, 4_000)))
            commit.metadata.append(MetadataRecord("queue", f"orders.{chance.randrange(8)}", data))
        made.append(commit)
    return made


def live(store: SqliteStore, marks: Marks, seed: int, commits: range) -> None:
    """Make these commits of a history, some twice, with housekeeping in between."""
    every = history(seed, commits.stop - 1)
    marks.put("open", 0)
    store.open()
    for number in commits:
        chance = random.Random(seed * 1_000 + number)
        for _ in range(2 if chance.random() < 0.15 else 1):
            marks.put("begin", number)
            store.commit(every[number - 1])
            marks.put("done", number)
        if chance.random() < 0.25:
            marks.put("tidy", number)
            while store.reclaim_space():
                pass
            marks.put("tidied", number)


def be_careless(store: SqliteStore) -> None:
    """Let nothing be synchronised from now on."""
    store.open()
    store._connection.execute("PRAGMA synchronous = OFF")
    store.open = lambda: None  # type: ignore[method-assign]


def main(directory: str, record: str, seed: str, first: str, last: str, how: str) -> None:
    for name, value in SMALL.items():
        for module in (space, data_file, sqlite):
            if hasattr(module, name):
                setattr(module, name, value)
    store = SqliteStore(Path(directory))
    if how == "careless":
        be_careless(store)
    live(store, Marks(Path(record)), int(seed), range(int(first), int(last) + 1))
    if how == "close":
        store.close()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
