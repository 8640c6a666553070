"""Crash rounds over the shards of a node, and a node whose shards die together, which must be detected."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import override

import penstock
from bench import processes
from bench.brokers import COMPILED, INTERPRETED
from bench.crash.shards import PARENT, RESTARTS, SHARDS, NodeRounds, NodeTarget
from tests.support.brokers import eventually

FORM = COMPILED if penstock.compiled() else INTERPRETED
SEED = 1
ROUNDS_MOST = 20
"""Rounds in which each kind of round has come, or does not."""
HAPPENS = (PARENT, SHARDS, RESTARTS, "confirmed", "be there")


class Careless(NodeTarget):
    """A node whose other shards die with each shard."""

    @override
    def kill_shard(self, shard: str) -> None:
        for other in set(self.place.values()) - {shard}:
            super().kill_shard(other)
        super().kill_shard(shard)


class Outliving(NodeTarget):
    """A node with a process that does not end with its parent."""

    @override
    def start(self) -> int:
        port = super().start()
        self.left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        return port

    @override
    def children(self) -> list[int]:
        return [*super().children(), self.left.pid]


def serving(target: NodeTarget) -> Iterator[NodeTarget]:
    yield target
    target.close()


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[NodeTarget]:
    yield from serving(NodeTarget(FORM, tmp_path, 2))


@pytest.fixture
def careless(tmp_path: Path) -> Iterator[NodeTarget]:
    yield from serving(Careless(FORM, tmp_path, 2))


@pytest.fixture
def outliving(tmp_path: Path) -> Iterator[NodeTarget]:
    yield from serving(Outliving(FORM, tmp_path, 2))


@pytest.mark.slow
def test_shards_that_are_killed_under_load_keep_their_promises(keeping: NodeTarget) -> None:
    rounds, number = NodeRounds(keeping, SEED), 0
    while number < ROUNDS_MOST and not all(rounds.counts[kind] for kind in HAPPENS):
        number += 1
        assert rounds.run(number) == []
    assert all(rounds.counts[kind] for kind in HAPPENS)
    assert keeping.kills >= number - rounds.counts[RESTARTS]


@pytest.mark.slow
def test_shard_that_dies_with_its_neighbour_is_detected(careless: NodeTarget) -> None:
    rounds = NodeRounds(careless, SEED)
    kinds: list[str] = []
    number = 0
    while number < ROUNDS_MOST and "neighbour" not in kinds:
        number += 1
        kinds += [violation.kind for violation in rounds.run(number)]
    assert "neighbour" in kinds


@pytest.mark.slow
def test_process_that_outlives_its_parent_is_detected_and_killed(outliving: Outliving) -> None:
    outliving.start()
    outliving.kill()
    assert outliving.outlived == [outliving.left.pid]
    assert outliving.left.wait() != 0
    assert not any(map(processes.is_alive, outliving.outlived))


def test_shard_process_is_the_one_with_its_store(keeping: NodeTarget) -> None:
    keeping.start()
    pids = {
        shard: eventually(lambda shard=shard: keeping.pid_of(shard), f"shard {shard} has its store")
        for shard in ("1", "2")
    }
    assert len(set(pids.values())) == 2
    assert set(keeping.place.values()) == {"1", "2"}
    assert keeping.pid_of("3") == 0


@pytest.mark.parametrize("words", [("--shards", "-1"), ("--shards", "2", "--store", "postgres")])
def test_shards_without_their_own_stores_are_refused(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "bench.crash", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "shards have Penstock's own stores" in done.stderr
