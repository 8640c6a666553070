"""The crash test: a few rounds, and a broker that loses messages on purpose, which the test must detect."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import penstock
from bench.brokers import COMPILED, INTERPRETED
from bench.crash.cursors import Cursor
from bench.crash.database import PostgresTarget
from bench.crash.history import History, Violation
from bench.crash.promises import Promises
from bench.crash.rounds import Rounds, parties, plan_of
from bench.crash.target import Target
from bench.crash.topology import ARGUMENTS, OURS, PAGED_ROADS, PAGED_WORK, PAGING, RETAINED, STREAMS, Road, straight
from bench.crash.wire import Address
from tests.profiles import thorough
from tests.support.postgres import needs_postgres

FORM = COMPILED if penstock.compiled() else INTERPRETED
ROUNDS = 8 if thorough() else 1
SEED = 20
PAGED_ROUND = 2
"""A round of that seed in which queues page."""
SPARE = 8
"""Rounds more, for a slow machine: the load of each has its seconds, and little may happen in one."""
HAPPENS = ("confirmed", "be there", "be gone", "paged")
"""What must have happened in the rounds, if they are to prove anything."""


class Paperless(Target):
    """A broker whose store has no pages whenever it comes back: what was in memory is there, what was paged is not."""

    def start(self) -> int:
        for store in self.node.data.glob("*.sqlite"):
            with closing(sqlite3.connect(store)) as connection, connection:
                connection.execute("DELETE FROM rows WHERE queue > 0")
        return super().start()


class Absent(PostgresTarget):
    """A broker whose server has no messages whenever it comes back."""

    def start(self) -> int:
        if self.restarts:
            self.server.ask("DELETE FROM penstock.rows")
        return super().start()


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
def paperless(tmp_path: Path) -> Iterator[Target]:
    yield from serving(Paperless(FORM, tmp_path))


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[Target]:
    yield from serving(PostgresTarget(FORM, tmp_path))


@pytest.fixture
def absent(tmp_path: Path) -> Iterator[Target]:
    yield from serving(Absent(FORM, tmp_path))


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Target]:
    yield from serving(Forgetful(FORM, tmp_path))


@pytest.mark.slow
def test_broker_that_is_killed_under_load_keeps_its_promises(keeping: Target) -> None:
    it_keeps_its_promises(keeping)


@needs_postgres
@pytest.mark.long
def test_broker_on_postgresql_does_so_too_when_the_server_is_killed_as_well(postgres: Target) -> None:
    it_keeps_its_promises(postgres)
    assert postgres.store_kills > 0


def it_keeps_its_promises(target: Target) -> None:
    rounds, number = Rounds(target, SEED), 0
    while number < ROUNDS or (number < ROUNDS + SPARE and not all(rounds.counts[what] for what in HAPPENS)):
        number += 1
        assert rounds.run(number) == []
    assert target.kills >= ROUNDS
    assert rounds.counts["rounds"] == number
    for what in HAPPENS:
        assert rounds.counts[what] > 0, what


def run_until_found_out(target: Target, kinds: set[str], first: int = 1) -> tuple[int, list[Violation]]:
    """Run rounds until promises of these kinds are broken; return the number of that round, and what was broken."""
    rounds = Rounds(target, SEED)
    for number in range(first, first + SPARE):
        broken = rounds.run(number)
        if kinds <= {violation.kind for violation in broken}:
            return number, broken
    raise AssertionError(f"{kinds} have not been broken in {SPARE} rounds")


@pytest.mark.long
def test_broker_that_loses_its_pages_is_found_out(paperless: Target) -> None:
    _, broken = run_until_found_out(paperless, {"lost"}, PAGED_ROUND)
    lost = [violation.text for violation in broken if violation.kind == "lost"]
    on_pages = [RETAINED, *STREAMS, *[name for name, how in ARGUMENTS.items() if how.get("overflow") == "page"]]
    assert [text for text in lost if not any(name in text for name in on_pages)] == []


@needs_postgres
@pytest.mark.slow
def test_server_that_loses_messages_is_detected_and_its_store_is_dumped(absent: Target) -> None:
    number, _ = run_until_found_out(absent, {"lost"})
    assert (absent.scratch / f"round-{number}.dump").stat().st_size > 0


@pytest.mark.slow
def test_broker_that_forgets_is_found_out_and_the_round_can_be_read(forgetful: Target) -> None:
    number, _ = run_until_found_out(forgetful, {"lost", "missing"})
    lines = [json.loads(line) for line in (forgetful.scratch / f"round-{number}.jsonl").read_text().splitlines()]
    assert {"plan", "violation", "message"} <= {line["kind"] for line in lines}
    assert lines[0]["seed"] == SEED
    assert (forgetful.scratch / f"round-{number}.data").is_dir()


def test_round_follows_from_seed_and_number() -> None:
    cursors = {name: Cursor(name) for name in OURS}

    def who(seed: int, number: int) -> list[object]:
        plan, chance = plan_of(seed, number)
        clients = parties("1.0", Address(1), History(Promises()), chance, cursors)
        return [plan, *((type(client), client.name, client.chance.random()) for client in clients)]

    assert who(3, 4) == who(3, 4)
    assert who(3, 4) != who(3, 5)
    assert who(3, 4) != who(4, 4)


def test_clients_of_rabbitmq_use_nothing_that_it_does_not_know() -> None:
    plain, ours = set(), set()
    for number in range(50):
        for cursors, found in (({}, plain), ({name: Cursor(name) for name in OURS}, ours)):
            _, chance = plan_of(3, number)
            clients = parties("1.0", Address(1), History(Promises()), chance, cursors)
            found |= {vars(client).get("queue") or vars(client).get("road") for client in clients}
    assert not {queue for queue in plain if isinstance(queue, str)} & {*PAGING, *OURS}
    assert not {road for road in plain if isinstance(road, Road)} & {*PAGED_ROADS, *map(straight, OURS)}
    assert set(PAGED_WORK) < ours


def test_store_of_another_kind_is_refused_for_rabbitmq() -> None:
    words = [sys.executable, "-m", "bench.crash", "--broker", "rabbitmq", "--store", "postgres"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "--store postgres: rabbitmq has a store of its own" in done.stderr


def test_crash_test_with_0_rounds_is_refused() -> None:
    words = [sys.executable, "-m", "bench.crash", "--rounds", "0"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "--rounds 0: at least 1 is needed" in done.stderr
