"""Power failures at every point of what a store did, and what is found afterwards."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.errors import StoreError
from penstock.store.records import StoreTransaction
from tests.profiles import thorough
from tests.support.disk_recording import Record
from tests.support.open_stores import Contents, contents, opened
from tests.support.simulated_disk import Disk, Left, put
from tests.support.store_engines import Model

SUBSETS: Final = 12 if thorough() else 2
"""How many subsets of each kind are tried each time before something is synchronised."""
REFUSED: Final = -1
"""A store that was not opened, or that is like after no commit."""


@contextmanager
def in_memory() -> Iterator[Path]:
    """Return a folder in memory, if there is one: what is synchronised thousands of times needs no real disk."""
    memory = Path("/dev/shm")
    made = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    try:
        yield made
    finally:
        shutil.rmtree(made)


@dataclass
class Found:
    """What was seen."""

    failures: int = 0
    """How many power failures were simulated: different disks."""
    wrong: list[str] = field(default_factory=list)
    """One sentence for each that left what it must not."""


@dataclass
class Bounds:
    """Between which commits a store may be."""

    least: int = 0
    """The last that had returned."""
    most: int = 0
    """The last that had begun."""

    def hear(self, record: Record) -> None:
        if record.name == "begin":
            self.most = max(self.most, record.at)
        elif record.name == "done":
            self.least = record.at


def after_each(commits: Iterable[StoreTransaction]) -> list[Contents]:
    """Return what is in a store at first and after each commit."""
    model = Model()
    states = [model.contents()]
    for commit in commits:
        model.commit(commit)
        states.append(model.contents())
    return states


class Judge:
    """Opens what power failures leave, each once, in one folder after another of the same name."""

    def __init__(self, folder: Path, states: list[Contents], chance: random.Random) -> None:
        self._folder = folder
        self._states = states
        self.chance = chance
        self._known: dict[Left, tuple[int, str]] = {}
        self.found = Found()

    def look(self, disk: Disk, left: Left, bounds: Bounds, where: str) -> int:
        """Say after which commit the store is that a power failure leaves; what is wrong with it is noted."""
        known = self._known.get(left)
        if known is None:
            self.found.failures += 1
            files = disk.contents(left)
            if self.chance.random() < 0.1:  # Shared memory has no promise at all.
                files["messages.sqlite-shm"] = self.chance.randbytes(32 * 1024)
            put(files, self._folder)
            known = self._known[left] = self._open(bounds)
        number, why = known
        if why or self._states[number] not in self._states[bounds.least : bounds.most + 1]:
            why = why or f"it is as after commit {number}"
            self.found.wrong.append(
                f"{where}, between commits {bounds.least} and {bounds.most}: {why}; the failure left {left}"
            )
        return number

    def forget(self) -> None:
        """Begin anew with another disk."""
        self._known.clear()

    def _open(self, bounds: Bounds) -> tuple[int, str]:
        try:
            with opened(self._folder) as store:
                found = contents(store)
                damaged = store.damaged + store.check()
        except StoreError as error:
            return REFUSED, str(error)
        if damaged:
            return REFUSED, f"it is damaged: {damaged}"
        near = range(bounds.least, bounds.most + 1)
        for number in (*near, *range(bounds.least), *range(bounds.most + 1, len(self._states))):
            if self._states[number] == found:
                return number, ""
        return REFUSED, "it is as after no commit"


Look = Callable[[Left, str], object]
"""Judges what a power failure leaves on a disk; the text says where it was."""


def fail_everywhere(
    records: list[Record], disk: Disk, look: Look, hear: Callable[[Record], None], chance: random.Random
) -> None:
    """Let the power fail after each of these records, and do them; each is heard of, too."""
    for number, record in enumerate(records):
        if record.kind == "S":
            for left in disk.subsets(chance, SUBSETS):
                look(left, f"before record {number} ({record.name} synchronised)")
        disk.do(record)
        hear(record)
        for left in disk.extremes():
            look(left, f"after record {number} ({record.kind} {record.name} at {record.at})")
    for left in disk.subsets(chance, SUBSETS):
        look(left, "at the end")


def done_up_to(records: list[Record], stop: int, disk: Disk, bounds: Bounds) -> None:
    """Do the first of these records."""
    for record in records[:stop]:
        disk.do(record)
        bounds.hear(record)


def some_left(disk: Disk, chance: random.Random) -> Left:
    """Return what one power failure leaves, any."""
    lefts: Iterator[Left] = disk.subsets(chance, 3)
    return chance.choice([disk.everything(), *lefts])
