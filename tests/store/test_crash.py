"""Kills at any moment: committed transactions are there, and at most one more, whole."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

from penstock.store.records import QueuePosition
from tests.support.open_stores import EMPTY, contents, opened, some_row
from tests.support.store_process import LIVE, size_of

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 12
MOST = 120
"""Commits after which a round ends at the latest."""


def committed_until_killed(directory: Path, first: int, after: int) -> int:
    """Let a process commit from a number on and kill it when it has told so many; the last number that it told."""
    command = [sys.executable, "-m", "tests.support.store_process", str(directory)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout.readline() == "open\n"
        process.stdin.write(f"loop {first}\n")
        process.stdin.flush()
        for number in range(first, first + after):
            assert process.stdout.readline() == f"done {number}\n"
        process.send_signal(signal.SIGKILL)
        rest = [line for line in process.stdout if line.endswith("\n")]
        process.wait()
    return first + after + len(rest) - 1


def test_commit_that_returned_survives_kill_9_with_at_most_another_commit(tmp_path: Path) -> None:
    chance = random.Random(9)
    next_number = LIVE + 1
    for _ in range(ROUNDS):
        told = committed_until_killed(tmp_path, next_number, chance.randrange(1, MOST))
        with opened(tmp_path) as store:
            found = contents(store)
            assert store.check() == store.damaged == []
        last = found.rows[-1].number
        assert last in (told, told + 1)
        begin = max(LIVE + 1, last - LIVE + 1)
        assert found.rows == [some_row(number, size_of(number)) for number in range(begin, last + 1)]
        assert found.positions == [QueuePosition(1, last, last)]
        next_number = last + 1
    assert next_number > ROUNDS * LIVE


def test_process_killed_while_creating_a_store_leaves_a_store_or_none(tmp_path: Path) -> None:
    for round_number in range(8):
        directory = tmp_path / str(round_number)
        directory.mkdir()
        command = [sys.executable, "-m", "tests.support.store_process", str(directory)]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            while process.poll() is None and not any(directory.iterdir()):
                pass
            for _ in range(round_number * 300):
                list(directory.iterdir())
            process.kill()
        with opened(directory) as store:
            assert contents(store) == EMPTY
            assert store.check() == []
