"""Wake-ups of senders: outcomes as soon as the gate is open, and credit while there is room.

Links and a consumer of AMQP 0-9-1 act in random order, several times a turn, so that gates close and open within one.
"""

from __future__ import annotations

import random

import pytest

from penstock.protocols.amqp10.incoming_link import IncomingLink
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, data_section
from tests.support.driven_connection import Dialogue

STEPS = 150
GET = method_frame(1, spec.BASIC_GET, queue="q", no_ack=True)


class Senders:
    """Links of one connection to one small queue, and who takes messages out of it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.client = Amqp10Dialogue()
        self.client.declare("q", capacity_messages=chance.choice([4, 4, 10, 20]), hold_deadline=60.0)
        self.queue = self.client.vhost.queues["q"]
        self.taker = Dialogue(self.client.driver)
        self.links: list[IncomingLink] = []
        for handle in range(chance.choice([1, 1, 2, 3])):
            self.client.attach_sender("/queues/q", handle)
            link = self.client.session(0).links.by_handle[handle]
            assert isinstance(link, IncomingLink)
            self.links.append(link)
        self.sent = 0
        self.answered: set[int] = set()
        self.now = 100.0

    def hear(self, heard: list[Heard]) -> None:
        for each in heard:
            if each.name == "disposition":
                first = each.performative.number("first")
                self.answered |= set(range(first, each.performative.number("last", first) + 1))

    def act(self) -> None:
        """Do one thing; half of the time the broker makes no turn after it."""
        choice = self.chance.random()
        if choice < 0.5:
            handle = self.chance.randrange(len(self.links))
            count = self.chance.randint(0, int(self.links[handle].credit.credit))
            self.sent += count
            frames = [self.client.transfer(data_section(b"x"), handle) for _ in range(count)]
            self.client.connection.receive(b"".join(frames))
        elif choice < 0.9:
            self.taker.connection.receive(GET * self.chance.randint(1, 3))
        else:
            self.now += self.chance.choice([0.0, 0.01, 0.3, 1.1])
        if self.chance.random() < 0.5:
            self.hear(self.client.listen(self.now))
            self.check()

    def check(self) -> None:
        if self.queue.gate.open and not any(link.producer.outbox for link in self.links):
            assert self.answered == set(range(self.sent)), "every message of an open gate has its outcome"
            room = self.queue.messages < self.queue.thresholds.resume.messages
            assert not room or any(link.credit.credit for link in self.links), "there is room, and nobody has credit"


@pytest.mark.parametrize("seed", range(60))
def test_gate_that_opens_in_the_turn_of_the_closing_leaves_no_sender_waiting(seed: int) -> None:
    senders = Senders(random.Random(seed))
    for _ in range(STEPS):
        senders.act()
    assert senders.sent > 0
