"""The crash test itself: a few of its rounds, and a broker that forgets, which it must find out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from bench.brokers import COMPILED, INTERPRETED
from bench.crash.history import History
from bench.crash.promises import Promises
from bench.crash.rounds import Rounds, parties, plan_of
from bench.crash.target import Target

FORM = COMPILED if penstock.compiled() else INTERPRETED
ROUNDS = 8
SEED = 20


class Forgetful(Target):
    """A broker whose data directory is empty whenever it comes back."""

    def start(self) -> int:
        shutil.rmtree(self.node.data, ignore_errors=True)
        return super().start()


def serving(target: Target) -> Iterator[Target]:
    yield target
    target.close()


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[Target]:
    yield from serving(Target(FORM, tmp_path))


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Target]:
    yield from serving(Forgetful(FORM, tmp_path))


@pytest.mark.slow
def test_a_broker_that_is_killed_under_load_keeps_its_promises(keeping: Target) -> None:
    rounds = Rounds(keeping, SEED)
    for number in range(1, ROUNDS + 1):
        assert rounds.run(number) == []
    assert keeping.kills >= ROUNDS
    assert rounds.counts["rounds"] == ROUNDS
    assert rounds.counts["confirmed"] > 0
    assert rounds.counts["be there"] > 0
    assert rounds.counts["be gone"] > 0


@pytest.mark.slow
def test_a_broker_that_forgets_is_found_out_and_the_round_can_be_read(forgetful: Target) -> None:
    broken = {violation.kind for violation in Rounds(forgetful, SEED).run(1)}
    assert {"lost", "missing"} <= broken
    lines = [json.loads(line) for line in (forgetful.scratch / "round-1.jsonl").read_text().splitlines()]
    assert {"plan", "violation", "message"} <= {line["kind"] for line in lines}
    assert lines[0]["seed"] == SEED
    assert (forgetful.scratch / "round-1.data").is_dir()


def test_a_round_follows_from_seed_and_number() -> None:
    def who(seed: int, number: int) -> list[object]:
        plan, chance = plan_of(seed, number)
        clients = parties(plan, 1, History(Promises()), chance, None)
        return [plan, *((type(client), client.name, client.chance.random()) for client in clients)]

    assert who(3, 4) == who(3, 4)
    assert who(3, 4) != who(3, 5)
    assert who(3, 4) != who(4, 4)


def test_no_rounds_are_refused_with_the_rule() -> None:
    words = [sys.executable, "-m", "bench.crash", "--rounds", "0"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "--rounds 0: at least 1 is needed" in done.stderr
