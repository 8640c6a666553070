"""A round: load, a kill at some moment, a restart, the verdict, and what is left for the next round."""

import dataclasses
import json
import random
import time
from collections import Counter
from contextlib import ExitStack
from typing import NamedTuple

from bench.crash import topology
from bench.crash.changes import Builder, Deleter, Purger
from bench.crash.cursors import Cursor, CursorWitness, Reader
from bench.crash.history import ANSWERS, Copy, History, Violation
from bench.crash.judge import Found, Judge, Verdict, carry_on
from bench.crash.parties import Consumer, Party, Publisher, Transacting
from bench.crash.target import Target
from bench.crash.topology import MORTAL, PURGED, QUEUES, READ, ROADS, TIMED, TIMED_MS, TX_IN, WORK, straight
from bench.crash.witness import Witness

LONGEST_LOAD_S = 0.8
"""A kill comes at a moment uniform over so many seconds from the beginning of the load ..."""
LONG_LOAD_S = 2.5
"""... or, in one round of ten, so many."""
LONGEST_WAIT_S = 0.3
"""Seconds for which an answer of the kind that is struck at is waited for."""
JOIN_S = 30.0
"""Seconds in which the clients of a dead broker must have noticed."""


class Plan(NamedTuple):
    """What a round does; it follows from seed and number alone."""

    name: str
    load_s: float
    stops: bool
    """The broker is asked to stop, and killed while it does."""
    strikes_on: str
    """It is killed by the client that is the first to read such an answer; empty: at once."""
    dies_again: int
    """How often it is killed while it recovers."""


def plan_of(seed: int, number: int) -> tuple[Plan, random.Random]:
    """Return what a round does, and its source of chance."""
    chance = random.Random(f"{seed}/{number}")
    longest = LONG_LOAD_S if chance.random() < 0.1 else LONGEST_LOAD_S
    dies_again = chance.choice((1, 1, 2)) if chance.random() < 0.2 else 0
    strikes_on = chance.choice(ANSWERS) if chance.random() < 0.5 else ""
    stops = not strikes_on and chance.random() < 0.25
    return Plan(str(number), chance.uniform(0.0, longest), stops, strikes_on, dies_again), chance


def parties(plan: Plan, port: int, history: History, chance: random.Random, cursor: Cursor | None) -> list[Party]:
    """Return the clients of a round, not yet started; without a cursor where the broker knows none."""
    found: list[Party] = []

    def place() -> tuple[str, int, History, random.Random]:
        return f"{plan.name}.{len(found)}", port, history, random.Random(chance.random())

    for road in chance.sample(ROADS, chance.randint(2, 5)):
        found.append(Publisher(*place(), road))
    for queue in chance.sample(WORK, chance.randint(2, 5)):
        for _ in range(chance.choice((1, 1, 1, 2))):
            found.append(Consumer(*place(), queue))
    if chance.random() < 0.7:
        found.append(Publisher(*place(), straight(TX_IN), plain=True))
        for _ in range(chance.choice((1, 1, 2))):
            found.append(Transacting(*place()))
    if chance.random() < 0.4:
        found.append(Publisher(*place(), straight(TIMED), queue_ms=TIMED_MS))
    for changer, queue in ((Purger, PURGED), (Deleter, MORTAL)):
        if chance.random() < 0.5:
            found.append(Publisher(*place(), straight(queue), plain=True))
            found.append(changer(*place()))
    if chance.random() < 0.6:
        found.append(Builder(*place()))
    if cursor is not None and chance.random() < 0.5:
        found.append(Publisher(*place(), straight(READ), plain=True))
        found.append(Reader(*place(), cursor))
    return found


class Rounds:
    """The rounds of a run, on one data directory."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.history = History(target.promises)
        self.cursor = Cursor()
        self._copy = target.scratch / "as-killed"
        """The data directory as the kill under load has left it; of a round that fails it stays as round-N.data."""
        self._port = 0

    def run(self, number: int) -> list[Violation]:
        """Run a round; return the promises that were broken."""
        plan, chance = plan_of(self.seed, number)
        if not self._port:
            self._begin()
        self._load(plan, chance)
        self.target.copy_data(self._copy)
        for _ in range(plan.dies_again):
            self.target.start_and_kill(chance)
        self._port = self.target.start()
        with ExitStack() as stack:
            witness = stack.enter_context(Witness(self._port, self.history, self.target.promises))
            reader = None
            if self.target.ours:
                reader = stack.enter_context(CursorWitness(self._port, self.history, self.cursor))
            return self._verify(plan, chance, witness, reader)

    def _begin(self) -> None:
        self._port = self.target.start()
        with Witness(self._port, self.history, self.target.promises) as witness:
            topology.declare(witness.link, self.history, self.target.ours)
        if self.target.ours:
            with CursorWitness(self._port, self.history, self.cursor) as reader:
                reader.create()

    def _verify(
        self, plan: Plan, chance: random.Random, witness: Witness, reader: CursorWitness | None
    ) -> list[Violation]:
        """See what is there, judge it, and take some of it away."""
        history = self.history
        witness.check_things()
        found = [one for queue in QUEUES if ("queue", queue) in history.things for one in witness.take(queue)]
        if reader is not None:
            found += reader.take()
        verdict = Judge(history, self.target.promises, time.monotonic_ns()).judge(found)
        violations = [*history.violations, *verdict.violations]
        self._count(verdict, violations)
        if violations:
            self._write_journal(plan, found, violations)
            if self._copy.exists():
                self._copy.rename(self.target.scratch / f"round-{plan.name}.data")
        carry_on(history, verdict)
        witness.settle(verdict, f"{plan.name}.drain", chance)
        if reader is not None:
            reader.settle(verdict, chance)
        topology.declare(witness.link, history, self.target.ours)
        return violations

    def _load(self, plan: Plan, chance: random.Random) -> None:
        clients = parties(plan, self._port, self.history, chance, self.cursor if self.target.ours else None)
        begun = time.monotonic()
        for client in clients:
            client.start()
        time.sleep(max(0.0, begun + plan.load_s - time.monotonic()))
        if self.target.has_ended():
            self.history.blame("ended", "the broker has ended by itself under load")
        if plan.strikes_on:
            self.history.waiting = plan.strikes_on, self.target.strike
            self.target.has_ended(LONGEST_WAIT_S)
            self.history.waiting = None
        if plan.stops:
            self.target.stop_and_kill(chance)
        else:
            self.target.kill()
        for client in clients:
            client.join(JOIN_S)
            if client.is_alive():
                self.history.blame(
                    "harness", f"{client.name} {type(client).__name__} has not noticed the end in {JOIN_S:g} s"
                )

    def _count(self, verdict: Verdict, violations: list[Violation]) -> None:
        self.counts.update(verdict.counts)
        self.counts.update(f"! {violation.kind}" for violation in violations)
        self.counts["rounds"] += 1
        self.counts["confirmed"] += self.history.confirmed
        self.counts["delivered"] += self.history.deliveries
        self.history.confirmed = self.history.deliveries = 0

    def _write_journal(self, plan: Plan, found: list[Found], violations: list[Violation]) -> None:
        """Write all that is known of a round, a line of JSON for each thing."""
        with (self.target.scratch / f"round-{plan.name}.jsonl").open("w") as out:

            def write(kind: str, **data: object) -> None:
                out.write(json.dumps({"kind": kind, **data}) + "\n")

            write("plan", seed=self.seed, **plan._asdict())
            for violation in violations:
                write("violation", what=violation.kind, text=violation.text)
            for wipe in self.history.wipes:
                write("wipe", **dataclasses.asdict(wipe))
            for transaction in self.history.transactions:
                names = {"published": transaction.published, "settled": transaction.settled}
                write("transaction", name=transaction.name, fate=transaction.fate.value,
                      **{word: [copy.name for copy in copies] for word, copies in names.items()})  # fmt: skip
            for copy in dict.fromkeys(self.history.copies.values()):
                write("message", **_plain(copy))
            for one in found:
                write(
                    "found",
                    queue=one.queue,
                    name=one.name,
                    redelivered=one.redelivered,
                    octets=len(one.body),
                    at=one.at,
                )


def _plain(copy: Copy) -> dict[str, object]:
    """Return a copy as plain data."""
    settlement, data = copy.settlement, {}
    for name in ("name", "places", "size", "persistent", "sent", "taken", "lifetime", "delivered"):
        data[name] = getattr(copy, name)
    if settlement is not None:
        data["settled"] = {"queue": settlement.queue, "rejected": settlement.rejected, "sure": settlement.sure}
        if settlement.transaction is not None:
            data["settled"]["transaction"] = settlement.transaction.name
    if copy.transaction is not None:
        data["transaction"] = copy.transaction.name
    return data
