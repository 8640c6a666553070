"""A round: load, a kill at some moment, a restart, the verdict, and what is left for the next round."""

import dataclasses
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from enum import Enum
from typing import NamedTuple

from bench.crash import topology
from bench.crash.changes import Builder, Deleter, Purger
from bench.crash.cursors import Cursor, CursorWitness, Reader
from bench.crash.groups import Holdings, grouping
from bench.crash.history import ANSWERS, Copy, History, Violation
from bench.crash.judge import Found, Judge, Verdict, carry_on
from bench.crash.parties import Consumer, Lagging, Party, Publisher, Subscriber, Transacting
from bench.crash.promises import Promises
from bench.crash.retention import RetainedMessages, check_retained, retaining
from bench.crash.streams import Ledger, Ledgers, appending, check_streams
from bench.crash.target import Target
from bench.crash.topology import (
    AGAIN,
    DELAYS,
    LATER,
    LOCAL_OTHER,
    MORTAL,
    MOVED,
    OTHERS,
    PAGED_MORTAL,
    PAGED_PURGED,
    PAGED_READ,
    PAGED_ROADS,
    PAGED_WORK,
    PURGED,
    READ,
    ROADS,
    STREAMS,
    SUBSCRIPTION,
    TIMED,
    TIMED_MS,
    TRANSACTED,
    TX_IN,
    WORK,
    drained,
    straight,
)
from bench.crash.transfers import Mover, Redriver, Rejecter
from bench.crash.wire import Address
from bench.crash.wire10 import Link10, subscribe
from bench.crash.witness import Witness

LONGEST_LOAD_S = 0.8
"""A kill comes at a moment uniform over so many seconds from the beginning of the load ..."""
LONG_LOAD_S = 2.5
"""... or, in one round of ten, so many."""
LONGEST_WAIT_S = 0.3
"""Seconds for which an answer of the kind that is struck at is waited for."""
JOIN_S = 30.0
"""Seconds in which the clients of a dead broker must have noticed."""
Cursors = dict[str, Cursor]
"""By queue; empty where the broker knows none."""
Place = Callable[[], tuple[str, Address, History, random.Random]]
"""Returns the first arguments of the next client."""


class Store(Enum):
    """What becomes of a store that has processes of its own (PostgreSQL), in a round."""

    LIVES = "lives"
    DIES_TOO = "is killed at once after the broker"
    DIES_BEFORE = "is killed before the broker, which goes on without it for a while"
    COMES_BACK = "is killed under load, and comes back while the broker lives"


class Plan(NamedTuple):
    """What a round does; it follows from seed and number alone."""

    name: str
    loads_s: tuple[float, ...]
    """Seconds of load before each kill: after the first kills only declarations are looked at, before the next load."""
    stops: bool
    """The broker is asked to stop, and killed while it does."""
    strikes_on: str
    """It is killed by the client that is the first to read such an answer; empty: at once."""
    dies_again: int
    """How often it is killed while it recovers."""
    store: Store
    store_s: float
    """Seconds without the store, or with the store after that came back."""


def plan_of(seed: int, number: int) -> tuple[Plan, random.Random]:
    """Return what a round does, and its source of chance."""
    chance = random.Random(f"{seed}/{number}")
    longest = LONG_LOAD_S if chance.random() < 0.1 else LONGEST_LOAD_S
    dies_again = chance.choice((1, 1, 2)) if chance.random() < 0.2 else 0
    strikes_on = chance.choice(ANSWERS) if chance.random() < 0.5 else ""
    stops = not strikes_on and chance.random() < 0.25
    loads_s = tuple(chance.uniform(0.0, longest) for _ in range(chance.choice((1, 1, 1, 2, 3))))
    store = chance.choice((Store.LIVES, Store.LIVES, Store.DIES_TOO, Store.DIES_BEFORE, Store.COMES_BACK))
    return Plan(str(number), loads_s, stops, strikes_on, dies_again, store, chance.uniform(0.0, 1.5)), chance


def parties(
    name: str,
    address: Address,
    history: History,
    chance: random.Random,
    cursors: Cursors,
    amqp10: float = 0.0,
    streams: Ledgers | None = None,
    retained: RetainedMessages | None = None,
    holdings: Holdings | None = None,
) -> list[Party]:
    """Return the clients of a load, not yet started; what RabbitMQ does not know only where there are cursors.

    `amqp10` is the share of those that speak AMQP 1.0.
    """
    found: list[Party] = []

    def place() -> tuple[str, Address, History, random.Random]:
        return f"{name}.{len(found)}", address, history, random.Random(chance.random())

    for road in chance.sample(ROADS, chance.randint(2, 5)):
        found.append(Publisher(*place(), road))
    for queue in chance.sample(WORK, chance.randint(2, 5)):
        for _ in range(chance.choice((1, 1, 1, 2))):
            found.append(Consumer(*place(), queue))
    if chance.random() < 0.7:
        found.append(Publisher(*place(), straight(TX_IN), plain=True))
        for _ in range(chance.choice((1, 1, 2))):
            found.append(Transacting(*place(), TX_IN))
    if chance.random() < 0.4:
        found.append(Publisher(*place(), straight(TIMED), queue_ms=TIMED_MS))
    found += wiping(place, chance, PURGED, MORTAL)
    if chance.random() < 0.6:
        found.append(Builder(*place()))
    if READ in cursors and chance.random() < 0.5:
        found.append(Publisher(*place(), straight(READ), plain=True))
        found.append(Reader(*place(), cursors[READ]))
    if PAGED_READ in cursors and chance.random() < 0.7:
        found += paging(place, chance, cursors)
    if cursors:
        found += transferring(place, chance)
        found += delaying(place, chance)
        found += grouping(place, chance, holdings or Holdings())
    found += appending(place, chance, streams or {})
    if retained is not None:
        found += retaining(place, chance, retained)
    if amqp10 > 0:
        if READ in cursors and chance.random() < 0.6:
            found += subscribing(place, chance)
        speak_amqp10(found, chance, amqp10)
    return found


def speak_amqp10(found: list[Party], chance: random.Random, share: float) -> None:
    """Let a share of the clients speak AMQP 1.0; some of their publishers send settled at times.

    Those of queues that are deleted do not: the deletion detaches their links.
    """
    for party in found:
        if not isinstance(party, (Publisher, Consumer, Transacting)) or chance.random() >= share:
            continue
        if isinstance(party, Subscriber):
            continue
        if isinstance(party, Publisher):
            if party.road.places[0][0] in (MORTAL, PAGED_MORTAL):
                continue
            party.settled = chance.choice((0.0, 0.0, 0.3))
            party.aborted = chance.choice((0.0, 0.0, 0.2))
        party.link_type = Link10


def subscribing(place: Place, chance: random.Random) -> Iterator[Party]:
    """Yield a subscriber with no-local, and others who publish to its topic."""
    yield Subscriber(*place())
    for _ in range(chance.choice((1, 2))):
        yield Publisher(*place(), LOCAL_OTHER)
    if chance.random() < 0.7:
        yield Consumer(*place(), OTHERS)


def wiping(place: Place, chance: random.Random, purged: str, mortal: str) -> Iterator[Party]:
    """Yield clients that publish to queues that are purged and deleted, and those who do that."""
    for changer, queue in ((Purger, purged), (Deleter, mortal)):
        if chance.random() < 0.5:
            yield Publisher(*place(), straight(queue), plain=True)
            yield changer(*place(), queue)


def transferring(place: Place, chance: random.Random) -> Iterator[Party]:
    """Yield clients of queues whose messages are moved, and of one whose dead letters are redriven."""
    for source, target in MOVED.items():
        if chance.random() < 0.8:
            yield Publisher(*place(), straight(source), plain=True)
            yield Mover(*place(), source)
            if chance.random() < 0.9:
                yield Consumer(*place(), target)
    if chance.random() < 0.6:
        yield Publisher(*place(), straight(AGAIN), plain=True)
        yield Rejecter(*place())
        yield Redriver(*place())


def delaying(place: Place, chance: random.Random) -> Iterator[Party]:
    """Yield clients of a queue with delayed messages."""
    for _ in range(chance.randint(0, 2)):
        publisher = Publisher(*place(), DELAYS)
        publisher.delays_most_ms = chance.choice((50, 1000, 100_000))
        publisher.mortal = 0.0
        yield publisher
        if chance.random() < 0.7:
            yield Consumer(*place(), LATER)


def paging(place: Place, chance: random.Random, cursors: Cursors) -> Iterator[Party]:
    """Yield clients of queues that page."""
    for road in chance.sample(PAGED_ROADS, chance.randint(1, 4)):
        yield Publisher(*place(), road)
    for queue in chance.sample(PAGED_WORK, chance.randint(1, 4)):
        for _ in range(chance.choice((1, 1, 2))):
            yield Lagging(*place(), queue)
    if chance.random() < 0.4:
        yield Transacting(*place(), chance.choice(("paged.0", "paged.3")), TRANSACTED)
    yield from wiping(place, chance, PAGED_PURGED, PAGED_MORTAL)
    if chance.random() < 0.4:
        yield Publisher(*place(), straight(PAGED_READ), plain=True)
        yield Reader(*place(), cursors[PAGED_READ])


class Rounds:
    """The rounds of a run, on one data directory."""

    def __init__(self, target: Target, seed: int, amqp10: float = 0.0, vhost: str = "/") -> None:
        self.target = target
        self.vhost = vhost
        self.amqp10 = amqp10
        """Share of the clients that speak AMQP 1.0."""
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.history = History(target.promises)
        cursors = [Cursor(READ), Cursor(PAGED_READ, pages=True)] if target.ours else []
        self.cursors: Cursors = {cursor.queue: cursor for cursor in cursors}
        self.streams: Ledgers = {name: Ledger() for name in STREAMS} if target.ours else {}
        self.retained = RetainedMessages() if target.ours else None
        self._holdings = Holdings()
        """Of the present load."""
        self._address = Address(0, vhost)

    def run(self, number: int) -> list[Violation]:
        """Run a round; return the promises that were broken."""
        plan, chance = plan_of(self.seed, number)
        if not self._address.port:
            self.begin(self.target.start())
        self.history.promises = self.promises(plan)
        for life, load_s in enumerate(plan.loads_s):
            if life:
                self._address = Address(self.target.start(), self.vhost)
                with Witness(self._address, self.history, self.target.promises) as witness:
                    witness.check_things()
            self._load(plan, f"{plan.name}.{life}", load_s, chance)
        self.target.keep_data()
        for _ in range(plan.dies_again):
            self.target.start_and_kill(chance)
        return self.verify(self.target.start(), plan, chance)

    def verify(self, port: int, plan: Plan, chance: random.Random) -> list[Violation]:
        """Return the promises that were broken, of the broker that has come back at a port."""
        self._address = Address(port, self.vhost)
        with ExitStack() as stack:
            witness = stack.enter_context(Witness(self._address, self.history, self.target.promises))
            reader = None
            if self.cursors:
                reader = stack.enter_context(CursorWitness(self._address, self.history, self.cursors.values()))
            return self._verify(plan, chance, witness, reader)

    def promises(self, plan: Plan) -> Promises:
        """Return what the broker promises in a round: what it gives out without its store may come again unmarked."""
        promises = self.target.promises
        alone = self.target.store_is_mortal and plan.store in (Store.DIES_BEFORE, Store.COMES_BACK)
        return promises._replace(marks=False) if alone else promises

    def begin(self, port: int) -> None:
        """Declare everything in a broker that has nothing yet."""
        self._address = Address(port, self.vhost)
        with Witness(self._address, self.history, self.target.promises) as witness:
            topology.declare(witness.link, self.history, self.target.ours)
        if self.cursors:
            subscribe(self._address)
            with CursorWitness(self._address, self.history, self.cursors.values()) as reader:
                reader.create()

    def _verify(
        self, plan: Plan, chance: random.Random, witness: Witness, reader: CursorWitness | None
    ) -> list[Violation]:
        """See what is there, judge it, and take some of it away."""
        history = self.history
        if reader is not None:
            self.counts["paged"] += reader.paged()
        self.counts["in streams"] += check_streams(self._address, history, self.streams)
        if self.retained is not None:
            self.counts["retained"] += check_retained(self._address, history, self.retained)
        witness.check_things()
        declared = drained(self.target.ours)
        subscribed = self.target.ours and witness.has(SUBSCRIPTION)
        if self.target.ours and not subscribed:
            history.blame("missing", f"subscription {SUBSCRIPTION} is not there, but its attach was answered")
        there = {name for kind, name, *_ in history.things if kind == "queue"} | (
            {SUBSCRIPTION} if subscribed else set()
        )
        queues = [queue for queue in declared if queue in there]
        found = [one for queue in queues for one in witness.take(queue)]
        if reader is not None:
            found += reader.take()
        verdict = Judge(history, history.promises, time.monotonic_ns()).judge(found)
        violations = [*history.violations, *verdict.violations]
        self._count(verdict, violations)
        if violations:
            self._write_journal(plan, found, violations)
            self.target.save_data(f"round-{plan.name}")
        carry_on(history, verdict)
        witness.settle(verdict, f"{plan.name}.drain", chance)
        if reader is not None:
            reader.settle(verdict, chance)
        topology.declare(witness.link, history, self.target.ours)
        if self.target.ours and not subscribed:
            subscribe(self._address)
        return violations

    def begin_load(self, name: str, chance: random.Random) -> list[Party]:
        """Start the clients of a load."""
        self.history.over = False
        self._holdings = Holdings()
        clients = parties(
            name, self._address, self.history, chance, self.cursors, self.amqp10, self.streams, self.retained,
            self._holdings,
        )  # fmt: skip
        self.counts["clients"] += len(clients)
        self.counts["clients of AMQP 1.0"] += sum(issubclass(client.link_type, Link10) for client in clients)
        for client in clients:
            client.start()
        return clients

    def end_load(self, clients: list[Party]) -> None:
        """Wait until the clients have noticed the end of the broker."""
        for client in clients:
            client.join(JOIN_S)
            if client.is_alive():
                self.history.blame(
                    "harness", f"{client.name} {type(client).__name__} has not noticed the end in {JOIN_S:g} s"
                )
        self.counts["groups passed on"] += self._holdings.passed

    def _load(self, plan: Plan, name: str, load_s: float, chance: random.Random) -> None:
        begun = time.monotonic()
        clients = self.begin_load(name, chance)
        time.sleep(max(0.0, begun + load_s - time.monotonic()))
        self._without_store(plan)
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
        if plan.store == Store.DIES_TOO:
            self.target.kill_store()
        self.target.start_store()
        self.end_load(clients)

    def _without_store(self, plan: Plan) -> None:
        """Kill the store under load, if that is planned and it can be killed."""
        if self.target.store_is_mortal and plan.store in (Store.DIES_BEFORE, Store.COMES_BACK):
            self.target.kill_store()
            if plan.store == Store.COMES_BACK:
                self.target.start_store()
            time.sleep(plan.store_s)

    def _count(self, verdict: Verdict, violations: list[Violation]) -> None:
        self.counts.update(verdict.counts)
        self.counts.update(f"! {violation.kind}" for violation in violations)
        self.counts["rounds"] += 1
        self.counts["confirmed"] += self.history.confirmed
        self.counts["delivered"] += self.history.deliveries
        self.counts["transferred"] += self.history.transferred
        self.history.confirmed = self.history.deliveries = self.history.transferred = 0

    def _write_journal(self, plan: Plan, found: list[Found], violations: list[Violation]) -> None:
        """Write all that is known of a round, a line of JSON for each thing."""
        with (self.target.scratch / f"round-{plan.name}.jsonl").open("w") as out:

            def write(kind: str, **data: object) -> None:
                out.write(json.dumps({"kind": kind, **data}) + "\n")

            write("plan", seed=self.seed, **plan._asdict() | {"store": plan.store.value})
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
