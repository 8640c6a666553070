"""A disk that has what was synchronised, and of the rest whatever a power failure leaves.

The rules. What was written to a file before it was synchronised last is there. Of the writes since, any may be missing,
each for itself, and of a write any sectors of 512 bytes; where a later one has made the file longer there are zeros. A
change of the length is a write like any other. Files that were made, renamed and unlinked are so for certain when their
folder was synchronised; of these changes since, the first few have happened, in order, as journalling file systems
have it, and with `any_names` any of them.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.disk_recording import Record

SECTOR: Final = 512
WHOLE: Final = -1
"""The sectors of a write of which none is missing."""
Kept = tuple[tuple[int, int], ...]
"""Which changes of a file are there, by their place among those that are not certain, each with a bit a sector."""


class Change(NamedTuple):
    """A write, or a new length where there is no data."""

    at: int
    data: bytes | None

    def sectors(self) -> int:
        return 0 if self.data is None else (self.at + len(self.data) - 1) // SECTOR - self.at // SECTOR + 1

    def make(self, content: bytearray, kept: int) -> None:
        """Change a file's content so, in these sectors only; it becomes long enough for all of them."""
        if self.data is None:
            del content[self.at :]
            content.extend(bytes(self.at - len(content)))
            return
        end = self.at + len(self.data)
        content.extend(bytes(max(0, end - len(content))))
        if kept == WHOLE:
            content[self.at : end] = self.data
            return
        for number in range(self.sectors()):
            if kept >> number & 1:
                begin = max(self.at, (self.at // SECTOR + number) * SECTOR)
                stop = min(end, (self.at // SECTOR + number + 1) * SECTOR)
                content[begin:stop] = self.data[begin - self.at : stop - self.at]


class File:
    """One file, whatever its name."""

    def __init__(self, content: bytes = b"") -> None:
        self.certain = content
        self.version = 0
        """How often something has become certain."""
        self.changes: list[Change] = []

    def content(self, kept: Kept) -> bytes:
        found = bytearray(self.certain)
        for number, sectors in kept:
            self.changes[number].make(found, sectors)
        return bytes(found)

    def everything(self) -> Kept:
        return tuple((number, WHOLE) for number in range(len(self.changes)))

    def synchronise(self) -> None:
        if self.changes:
            self.certain = self.content(self.everything())
            self.changes = []
            self.version += 1


class Left(NamedTuple):
    """What a power failure leaves: which changes of names have happened, and of each file which changes."""

    names: tuple[int, ...]
    kept: tuple[Kept, ...]
    version: tuple[int, ...]
    """Of the names and of each file."""


Names = dict[str, int]


class Disk:
    """The files of one folder."""

    def __init__(self, contents: dict[str, bytes] | None = None, any_names: bool = False) -> None:
        contents = contents or {}
        self._files = [File(content) for content in contents.values()]
        self._certain: Names = {name: number for number, name in enumerate(contents)}
        self._version = 0
        self._changes: list[Record] = []
        self._names: Names = dict(self._certain)
        self._any_names = any_names

    def copy(self) -> Disk:
        """Return one that is the same, and stays so."""
        return copy.deepcopy(self)

    def do(self, record: Record) -> None:
        """Change as a record says."""
        if record.kind in "CUR":
            if record.kind == "C":
                self._files.append(File())
                record = record._replace(at=len(self._files) - 1)
            self._changes.append(record)
            self._rename(self._names, record)
        elif record.kind == "S" and not record.name:
            if self._changes:
                self._certain = dict(self._names)
                self._changes = []
                self._version += 1
        elif record.kind == "S":
            self._file(record).synchronise()
        elif record.kind != "M":
            self._file(record).changes.append(Change(record.at, record.data if record.kind == "W" else None))

    def contents(self, left: Left) -> dict[str, bytes]:
        """Return the files after a power failure."""
        names = dict(self._certain)
        for number in left.names:
            self._rename(names, self._changes[number])
        return {name: self._files[number].content(left.kept[number]) for name, number in names.items()}

    # What may be left

    def everything(self) -> Left:
        """All has come to the disk just in time."""
        return self._left(range(len(self._changes)), [file.everything() for file in self._files])

    def extremes(self) -> Iterator[Left]:
        """All, nothing, and of each file all or nothing."""
        names = range(len(self._changes))
        nothing: list[Kept] = [()] * len(self._files)
        yield self.everything()
        yield self._left((), nothing)
        yield self._left(names, nothing)
        for number, file in enumerate(self._files):
            if file.changes:
                yield self._left(names, [*nothing[:number], file.everything(), *nothing[number + 1 :]])

    def subsets(self, chance: random.Random, most: int) -> Iterator[Left]:
        """All but one change, all but some sectors of one, any; of each kind so many at most."""
        uncertain = [(number, at) for number, file in enumerate(self._files) for at in range(len(file.changes))]
        for number, at in uncertain if len(uncertain) <= most else chance.sample(uncertain, most):
            yield self._without(number, at, None)
            yield self._without(number, at, chance.getrandbits(self._files[number].changes[at].sectors()))
        for _ in range(most if uncertain or self._changes else 0):
            share = chance.choice((0.1, 0.5, 0.9))
            yield self._left(self._some_names(chance), [self._some(file, share, chance) for file in self._files])

    def _without(self, number: int, at: int, sectors: int | None) -> Left:
        left = self.everything()
        kept = list(left.kept[number])
        kept[at : at + 1] = [] if sectors is None else [(at, sectors)]
        return left._replace(kept=(*left.kept[:number], tuple(kept), *left.kept[number + 1 :]))

    def _some(self, file: File, share: float, chance: random.Random) -> Kept:
        return tuple(
            (number, WHOLE if chance.random() < 0.7 else chance.getrandbits(change.sectors()))
            for number, change in enumerate(file.changes)
            if chance.random() < share
        )

    def _some_names(self, chance: random.Random) -> tuple[int, ...]:
        if self._any_names:
            return self._possible([number for number in range(len(self._changes)) if chance.random() < 0.5])
        return tuple(range(chance.randint(0, len(self._changes))))

    def _possible(self, numbers: list[int]) -> tuple[int, ...]:
        """Return those of some changes that can be made: none can be of a file that is not there."""
        names, made = dict(self._certain), []
        for number in numbers:
            change = self._changes[number]
            if change.kind == "C" or change.name in names:
                self._rename(names, change)
                made.append(number)
        return tuple(made)

    def _left(self, names: range | tuple[int, ...], kept: list[Kept]) -> Left:
        return Left(tuple(names), tuple(kept), (self._version, *(file.version for file in self._files)))

    def _file(self, record: Record) -> File:
        return self._files[self._names[record.name]]

    @staticmethod
    def _rename(names: Names, record: Record) -> None:
        if record.kind == "C":
            names[record.name] = record.at
        elif record.kind == "U":
            del names[record.name]
        else:
            names[record.data.decode()] = names.pop(record.name)


def put(contents: dict[str, bytes], folder: Path) -> None:
    """Make a folder with these files and no others."""
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def taken(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, but for memory that is shared."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.endswith("-shm")}
