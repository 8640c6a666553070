"""Power failures at any moment: committed transactions are there, and at most one unfinished commit, whole.

A process makes a short history of commits while every call that changes a file is recorded. Then, after each record,
the disks are made that a power failure could leave there (see disk.py), and each is opened. A history has several
lives: some end by a kill -9, some by a power failure, and the next goes on with what that left. PENSTOCK_POWER_SECONDS
makes it go on with new histories for so long.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from tests.profiles import thorough
from tests.support import disk_recording
from tests.support.disk_recording import Record
from tests.support.power_failure import (
    Bounds,
    Found,
    Judge,
    after_each,
    done_up_to,
    fail_everywhere,
    in_memory,
    some_left,
)
from tests.support.short_history import history
from tests.support.simulated_disk import Disk, put, taken

ROOT: Final = Path(__file__).resolve().parents[2]
COMMITS: Final = 24 if thorough() else 8
LIVES: Final = 4
SECONDS: Final = float(os.environ.get("PENSTOCK_POWER_SECONDS", "0"))
FEWEST: Final = 1_000 if thorough() else 100
"""Power failures of a test at least: fewer would say that next to nothing was recorded."""


@pytest.fixture
def folder() -> Iterator[Path]:
    with in_memory() as made:
        yield made


class Lives:
    """One history: what is on its disk, and how far it has come."""

    def __init__(self, folder: Path, seed: int, any_names: bool = False) -> None:
        self._place = folder / "live"
        self._record = folder / "record"
        self._library = disk_recording.library(folder)
        self._seed = seed
        self._any_names = any_names
        self.disk = Disk(any_names=any_names)
        self.bounds = Bounds()
        put({}, self._place)

    def live(self, last: int, how: str, **death: int) -> list[Record]:
        """Go on up to this commit at most; return what was done, which the disk has not yet seen."""
        self._record.unlink(missing_ok=True)
        words = [str(self._place), str(self._record), str(self._seed), str(self.bounds.least + 1), str(last), how]
        command = [sys.executable, "-m", "tests.support.short_history", *words]
        environment = disk_recording.environment(self._library, self._place, self._record, **death)
        code = subprocess.run(command, cwd=ROOT, env=environment).returncode
        assert code in (0, -signal.SIGKILL)
        return list(disk_recording.read(self._record))

    def assert_all_was_recorded(self) -> None:
        assert self.disk.contents(self.disk.everything()) == taken(self._place)

    def fail_everywhere(self, records: list[Record], judge: Judge) -> None:
        """Let the power fail after each of these records."""
        fail_everywhere(
            records,
            self.disk,
            lambda left, where: judge.look(self.disk, left, self.bounds, where),
            self.bounds.hear,
            judge.chance,
        )

    def lose_power(
        self, records: list[Record], disk: Disk, bounds: Bounds, judge: Judge, chance: random.Random
    ) -> None:
        """Go on from what a power failure leaves somewhere in a life that began with this disk and these bounds."""
        done_up_to(records, chance.randrange(len(records)), disk, bounds)
        left = some_left(disk, chance)
        number = judge.look(disk, left, bounds, "where the next life begins")
        files = disk.contents(left)
        put(files, self._place)
        self.disk = Disk(files, self._any_names)
        self.bounds = Bounds(number, number)
        judge.forget()


def some_death(chance: random.Random) -> dict[str, int]:
    """Return where a process is killed: anywhere, or when it is about to synchronise."""
    return chance.choice([{"DIE_AT": chance.randint(1, 500)}, {"DIE_BEFORE_SYNC": chance.randint(1, 50)}])


def lived(folder: Path, seed: int, any_names: bool = False) -> Found:
    """Let a history live, and the power fail wherever it can, until something is wrong."""
    chance = random.Random(seed)
    lives = Lives(folder, seed, any_names)
    judge = Judge(folder / "left", after_each(history(seed, COMMITS)), chance)
    for life in range(LIVES):
        if lives.bounds.least == COMMITS or judge.found.wrong:
            break
        disk, bounds = lives.disk.copy(), Bounds(lives.bounds.least, lives.bounds.most)
        is_last = life == LIVES - 1
        records = lives.live(COMMITS, "close") if is_last else lives.live(COMMITS, "leave", **some_death(chance))
        lives.fail_everywhere(records, judge)
        lives.assert_all_was_recorded()
        if life % 2 and not judge.found.wrong:
            lives.lose_power(records, disk, bounds, judge, chance)
    return judge.found


@pytest.mark.timeout(400 + SECONDS)
@pytest.mark.parametrize(
    "any_names",
    [
        pytest.param(False, id="names in order", marks=pytest.mark.long),
        pytest.param(True, id="names in any order"),
    ],
)
def test_store_equals_a_committed_state_after_a_power_failure_at_any_point(folder: Path, any_names: bool) -> None:
    begun, failures = time.monotonic(), 0
    for seed in count(1 + 1_000_000 * any_names):
        found = lived(folder, seed, any_names)
        failures += found.failures
        assert found.wrong[:3] == [], f"history {seed}"
        if time.monotonic() - begun >= SECONDS:
            break
    print(f"{failures:,} power failures up to history {seed}")
    assert failures > FEWEST


def test_store_whose_log_is_never_synchronised_is_refused_for_the_loss(folder: Path) -> None:
    """And so would be seen whatever else is lost."""
    lives = Lives(folder, 1)
    judge = Judge(folder / "left", after_each(history(1, 5)), random.Random(1))
    lives.fail_everywhere(lives.live(5, "careless"), judge)
    assert any("has lost the last 5 transactions of 5, which brought " in sentence for sentence in judge.found.wrong)
    assert not any("it is as after commit" in sentence for sentence in judge.found.wrong), "none is lost in silence"
    assert any("is damaged" in sentence for sentence in judge.found.wrong)


@pytest.mark.parametrize("back", [0, 1], ids=["before its count is", "before its log is"])
def test_commit_that_a_killed_process_left_unsynchronised_is_so_before_the_next(folder: Path, back: int) -> None:
    """Else the disk might have the second without the first."""
    rehearsed = Lives(folder, 7).live(5, "leave")
    done = next(at for at, record in enumerate(rehearsed) if (record.name, record.at) == ("done", 5))
    syncs = [record.name for record in rehearsed[:done] if record.kind == "S"]
    assert syncs[-2:] == ["messages.sqlite-wal", "messages.commits"]
    lives = Lives(folder, 7)
    judge = Judge(folder / "left", after_each(history(7, 7)), random.Random(7))
    lives.fail_everywhere(lives.live(7, "leave", DIE_BEFORE_SYNC=len(syncs) - back), judge)
    assert lives.bounds == Bounds(4, 5)
    lives.fail_everywhere(lives.live(7, "leave"), judge)
    assert lives.bounds == Bounds(7, 7)
    assert judge.found.wrong[:3] == []
