"""Random interleavings of senders with credit, publishers without, consumers, an operator and a disk.

An interleaving is a few actions in random order, several of them in one turn of the broker or none, from the state that
the ones before it have left. After every turn all that must hold is checked: reservations and depths (`CreditWorld`),
outcomes, and that nobody waits who could go on. At the end of a world everything is taken out of the queues, and then
every message has had its outcome and every link with demand has credit.

`python -m tests.support.interleavings --count 1000000` plays so many and says how often each thing happened.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from penstock.core.journal.journal import Journal
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.flow.confirms import WITHHELD
from penstock.flow.gate import Gate
from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.credit_world import LINKS, PRODUCERS, QUEUES, ROADS, CreditWorld, is_underfull
from tests.support.sender_links import CHARGE, run_turn, run_until_quiet

ROUNDS = 60
"""Interleavings of one world."""
HOLD_DEADLINES_S = (5, 1000)
IDLE_ROOM_S = 2.5
"""Room kept by idle links is with others after so many seconds."""
GRACE_S = 0.006
"""A gate waits so long for a producer that returns soon (`RETURN_GRACE_S`, and a little)."""


class Interleavings(CreditWorld):
    """A world with a store, whose senders count what became of their messages."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        super().__init__(self.chance.choice([3, 5, 12, 12, 30]))
        house = self.house
        self.journal = house.broker.journal = Journal(house.broker.durable_changes, house.broker.gates.disk)
        deadline = read_settings("queue", "#", {"hold-deadline": self.chance.choice(HOLD_DEADLINES_S)})
        at_once.set_settings(house.broker, "queue", "#", deadline)
        house.vhost.declare_queue("d", {"capacity-messages": self.capacity}, True, False, None, None)
        self.write()
        self.sent: dict[Producer, int] = {}
        """Messages that are to have an outcome."""
        self.told: dict[Producer, int] = {}
        """Those that have it."""
        for number in range(self.chance.choice([1, 2, 3, 4])):
            self.attach(number, self.chance.randrange(len(ROADS) + 2))

    # What may happen, besides

    def attach(self, number: int, road: int) -> None:
        if road < len(ROADS):
            super().attach(number, road)
        elif number not in self.links:
            self.links[number] = self.link_to("d", "", number % 2 == 0)

    def send(self, number: int, messages: int, size: int, settled: bool = False, stored: bool = False) -> None:
        link = self.links.get(number)
        if link is None or link.producer.closing is not None:
            return
        link.producer.confirming = not settled
        before = int(link.producer.confirms.published)
        key = None if link.route is not None else (*QUEUES, "d")[size % 4]
        if key is not None and key not in self.house.vhost.queues:
            return
        link.send(messages, CHARGE * (1 + size), key, stored)
        self.sent[link.producer] = self.sent.get(link.producer, 0) + int(link.producer.confirms.published) - before

    def write(self) -> None:
        """Write what the journal has gathered."""
        at_once.encode(self.journal, self.journal.take(), 0.0)
        self.journal.written()

    def disk(self, works: bool) -> None:
        if works:
            self.house.broker.gates.disk_works()
        else:
            self.house.broker.gates.disk_fails("the disk is full")

    def take(self, queue: int, messages: int) -> None:
        found = self.house.vhost.queues.get((*QUEUES, "d")[queue])
        if found is not None:
            self.take_from(found, messages)

    def take_from(self, queue: Queue, messages: int) -> None:
        for _ in range(messages):
            if self.house.session.get(queue, True, self.house.broker.now) is None:
                return

    def detach(self, number: int) -> None:
        link = self.links.get(number)
        if link is not None:
            self.sent.pop(link.producer, None)
            self.told.pop(link.producer, None)
        super().detach(number)

    def turn(self) -> None:
        self.one_turn(1000)

    def step(self) -> None:
        self.one_turn(1)

    def wait(self, tenths: int) -> None:
        self.house.broker.begin(self.house.broker.now + tenths / 10)
        self.one_turn(1000)

    def one_turn(self, turns: int) -> None:
        run_turn(self.house, turns)
        self.hear()

    def hear(self) -> None:
        """Take the outcomes that are ready, and end what has failed, as connections do at the end of a turn."""
        for number, link in list(self.links.items()):
            if link.producer.closing is not None:
                self.detach(number)
        for at, producer in enumerate(self.producers):
            if producer.closing is not None:
                producer.abort()
                self.producers[at] = self.house.producer(f"p{at}")
        for producer in self.publishing():
            for outcome in producer.confirms.take():
                count = int(outcome.last - outcome.first) + 1
                self.told[producer] = self.told.get(producer, 0) + count
                self.done["confirmed" if outcome.confirmed else "refused"] += count

    def publishing(self) -> list[Producer]:
        return [*(link.producer for link in self.links.values()), *self.producers]

    # One interleaving

    def act(self) -> None:
        """Do one thing."""
        chance = self.chance
        link, few = chance.randrange(LINKS), chance.randint(1, 6)
        name = chance.choices(NAMES, WEIGHTS)[0]
        self.done[name] += 1
        if name == "send":
            many = chance.choice([1, few, few, 1000])
            self.send(link, many, chance.choice([0, 0, 0, 0, 1, 2, 5]), chance.random() < 0.1, chance.random() < 0.4)
        elif name == "publish":
            self.publish(chance.randrange(PRODUCERS), chance.randrange(3), chance.choice([0, 0, 0, 1, 5]))
        elif name == "take":
            self.take(chance.randrange(4), few)
        elif name in ("turn", "step", "widen", "write"):
            getattr(self, name)()
        elif name == "flow":
            self.flow(link, chance.choice([0, 3, 100]))
        elif name == "attach":
            self.attach(link, chance.randrange(len(ROADS) + 2))
        elif name == "give_back":
            self.give_back(link, few)
        elif name == "wait":
            self.wait(chance.choice([1, 3, 6, 11, 30]))
        elif name == "disk":
            self.disk(chance.random() < 0.6)
        elif name == "change_capacity":
            self.change_capacity(0, chance.randint(0, 10))
        elif name in ("answer_drain", "detach"):
            getattr(self, name)(link)
        else:
            getattr(self, name)(chance.randrange(3))

    def play(self) -> None:
        """Play one interleaving and check what must hold after it."""
        for _ in range(self.chance.randint(2, 10)):
            self.act()
        self.turn()
        self.check()
        self.check_outcomes()
        # What the turn has brought about (credit used up, producers that return) may ask for one more.
        self.house.broker.begin(self.house.broker.now + GRACE_S)
        self.turn()
        self.check_nobody_waits()

    # What must hold

    def check_outcomes(self) -> None:
        """No outcome is kept back that no gate and no disk delays, and what delays it will release it."""
        for producer in self.publishing():
            confirms = producer.confirms
            assert not confirms.ready() or producer.scheduled, "an outcome that nobody sends"
            first = confirms.pending[0] if confirms.pending else None
            if first is not None and first.state == WITHHELD:
                closed = [gate for gate in first.road if not gate.open]
                assert closed or self.house.broker.pending(), "withheld, and no gate is closed"
                expecting = [gate for gate in closed if gate.expects(producer)]
                assert expecting or not closed, f"{closed[0].kind} '{closed[0].name}' releases nobody"
            if producer in self.sent:
                waiting = int(confirms.published) - int(confirms.sent_upto)
                assert self.sent[producer] - self.told.get(producer, 0) <= waiting, "an outcome is lost"

    def check_nobody_waits(self) -> None:
        """After a turn nobody is first in line who could go on, and nobody has demand without waiting."""
        gates: dict[int, Gate] = {}
        for link in self.links.values():
            credit = link.credit
            if credit.gate is not None:
                gates[id(credit.gate)] = credit.gate
            elif credit.has_demand() and credit.credit == 0:
                assert credit.is_listed, "it has demand, and does not wait"
        for producer in self.publishing():
            if producer.gate is not None:
                gates[id(producer.gate)] = producer.gate
            else:
                assert not producer.outbox, "it holds a publish, and does not wait"
        for gate in gates.values():
            first = gate.next_in_line()
            soon = gate.timer is not None and gate.timer.due <= self.house.broker.now + GRACE_S
            if gate.open and first is not None and not gate.scheduled and not soon:
                assert first.obstacle() is not None, f"the first at {gate.kind} '{gate.name}' could go on"
            measured = gate.measure()
            if not gate.open and measured is not None:
                assert not is_underfull(measured), "it should be open"

    def check_idle_room(self, since: dict[int, float]) -> None:
        """Nobody that lets its credit lie idle keeps room from others for longer than it may; `since` they wait."""
        now = self.house.broker.now
        for number, link in self.links.items():
            credit = link.credit
            if credit.reservation.messages > 0 and credit.idle.others_wait():
                begun = since.setdefault(number, now)
                assert now < max(begun, credit.used_at) + IDLE_ROOM_S, "idle, and others wait"
            else:
                since.pop(number, None)

    def finish(self) -> None:
        """Open all gates and take everything out: every message has its outcome, every link with demand credit."""
        for number in range(3):
            self.unblock(number)
        self.disk(True)
        self.change_capacity(0, 1000)  # What was held before it was lowered may never fit otherwise.
        since: dict[int, float] = {}
        # Each may have its turn with the last place, and be idle then.
        until = self.house.broker.now + IDLE_ROOM_S * (1 + len(self.links))
        while self.house.broker.now < until:
            for each in self.house.vhost.queues.values():
                self.take_from(each, 1000)
            self.write()
            run_until_quiet(self.house)
            self.hear()
            self.house.broker.begin(self.house.broker.now + 0.05)
            self.check_idle_room(since)
            waiting = any(producer.outbox or producer.confirms.pending for producer in self.publishing())
            if not waiting and not any(link.left == 0 and link.credit.has_demand() for link in self.links.values()):
                break
        self.write()
        run_until_quiet(self.house)
        self.hear()
        for producer in self.publishing():
            assert not producer.outbox, "still held"
            assert not producer.confirms.pending, "still withheld"
            if producer in self.sent:
                assert self.sent[producer] == self.told.get(producer, 0), "an outcome is lost"
        for link in self.links.values():
            assert link.left > 0 or not link.credit.has_demand(), "no credit, and all room is free"
        self.end()


ACTIONS = {
    "send": 12, "take": 9, "publish": 5, "turn": 5, "step": 3, "flow": 2, "attach": 2, "write": 3, "wait": 2,
    "give_back": 1, "answer_drain": 1, "detach": 1, "disk": 1, "block": 1, "unblock": 2, "delete": 0.3, "declare": 1,
    "change_capacity": 0.5, "widen": 0.2,
}  # fmt: skip
"""What may happen, and how often."""
NAMES, WEIGHTS = list(ACTIONS), list(ACTIONS.values())


def run_worlds(first_seed: int, count: int) -> Counter[str]:
    """Play so many interleavings, at least one world; returns how often each thing happened."""
    done: Counter[str] = Counter()
    seed = first_seed
    while done["interleavings"] < count:
        world = Interleavings(seed)
        try:
            for _ in range(ROUNDS):
                world.play()
            world.finish()
        except BaseException as error:
            error.add_note(f"in the world of seed {seed}")
            raise
        done += world.done
        done["interleavings"] += ROUNDS
        done["worlds"] += 1
        seed += 1
    return done


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Random interleavings of senders with credit and others.")
    parser.add_argument("--count", type=int, default=1_000_000, help="interleavings (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="that of the first world (default %(default)s)")
    wanted = parser.parse_args(words)
    begun = time.monotonic()
    done = run_worlds(wanted.seed, wanted.count)
    for name, count in done.most_common():
        print(f"{count:>12,} {name}")
    print(f"no finding, in {time.monotonic() - begun:,.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
