"""The clients that declare, delete and purge under load."""

import random

from bench.crash.history import History, Thing, Wipe, now
from bench.crash.parties import Party
from bench.crash.topology import ARGUMENTS
from bench.crash.wire import Address, Link
from penstock.wire.amqp091 import spec

PREFIX = "built."
MOST_QUEUES = 6
"""How many queues, and exchanges, of its own a builder has at most."""
BUILT: list[dict[str, object]] = [{}, {"x-message-ttl": 60_000}, {"x-max-length": 1000}]
"""Arguments of its queues."""


def pause(party: Party, link: Link) -> None:
    """Let the others work for a while; the end of the broker is heard."""
    until = now() + party.chance.randint(2_000_000, 120_000_000)
    while (left := until - now()) > 0:
        link.read(left / 1e9)


class Wiping(Party):
    """Takes all that is in a queue that others publish to, and nobody consumes from."""

    def __init__(self, name: str, address: Address, history: History, chance: random.Random, queue: str) -> None:
        super().__init__(name, address, history, chance)
        self.queue = queue


class Purger(Wiping):
    """Purges it."""

    def act(self) -> None:
        link = self.connect()
        while True:
            pause(self, link)
            wipe = Wipe(self.queue, now())
            self.history.wipes.append(wipe)
            link.ask(spec.QUEUE_PURGE, queue=self.queue)
            wipe.ended, wipe.answered = now(), True
            self.history.answered("wipe")


class Deleter(Wiping):
    """Deletes it, and declares it again."""

    def act(self) -> None:
        link, queue = self.connect(), self.queue
        while True:
            pause(self, link)
            wipe, thing = Wipe(queue, now()), self.history.change("queue", queue, there=False)
            self.history.wipes.append(wipe)
            link.ask(spec.QUEUE_DELETE, queue=queue)
            wipe.answered, thing.doubtful = True, False
            self.history.answered("wipe")
            if self.chance.random() < 0.5:
                pause(self, link)
            arguments = ARGUMENTS[queue]
            self.history.change("queue", queue, there=True, arguments=arguments)
            link.ask(spec.QUEUE_DECLARE, queue=queue, durable=True, arguments=arguments)
            wipe.ended, thing.doubtful = now(), False


class Builder(Party):
    """Declares and deletes queues, exchanges and bindings of its own, with names that are used again."""

    def act(self) -> None:
        link = self.connect()
        while True:
            pause(self, link)
            for _ in range(self.chance.randint(1, 5)):
                self.chance.choice((self._queue, self._exchange, self._binding, self._binding))(link)

    def _is_there(self, *key: str) -> bool:
        thing = self.history.things.get(key)
        return thing is not None and thing.there

    def _queue(self, link: Link) -> None:
        name = f"{PREFIX}{self.chance.randint(1, MOST_QUEUES)}"
        there = self._is_there("queue", name)
        changed = [self.history.change("queue", name, there=not there)]
        if there:
            changed += self._unbound(2, name)
            link.ask(spec.QUEUE_DELETE, queue=name)
        else:
            arguments: dict[str, object] = dict(self.chance.choice(BUILT))
            changed[0].arguments = arguments
            link.ask(spec.QUEUE_DECLARE, queue=name, durable=True, arguments=arguments)
        self._answered(changed)

    def _exchange(self, link: Link) -> None:
        name = f"{PREFIX}{self.chance.randint(1, MOST_QUEUES)}"
        there = self._is_there("exchange", name)
        changed = [self.history.change("exchange", name, there=not there)]
        if there:
            changed += self._unbound(1, name)
            link.ask(spec.EXCHANGE_DELETE, exchange=name)
        else:
            link.ask(spec.EXCHANGE_DECLARE, exchange=name, type="direct", durable=True)
        self._answered(changed)

    def _answered(self, changed: list[Thing]) -> None:
        for thing in changed:
            thing.doubtful = False
        self.history.answered("declaration")

    def _unbound(self, end: int, name: str) -> list[Thing]:
        keys = [key for key in self._mine("binding") if key[end] == name]
        return [self.history.change(*key, there=False) for key in keys]

    def _mine(self, kind: str) -> list[tuple[str, ...]]:
        things = self.history.things.items()
        return [key for key, thing in things if thing.there and key[0] == kind and key[1].startswith(PREFIX)]

    def _binding(self, link: Link) -> None:
        queues, exchanges = ([key[1] for key in self._mine(kind)] for kind in ("queue", "exchange"))
        if not queues or not exchanges:
            return
        exchange, queue = self.chance.choice(exchanges), self.chance.choice(queues)
        key = f"{queue}/{self.chance.randint(1, 3)}"
        there = self._is_there("binding", exchange, queue, key)
        thing = self.history.change("binding", exchange, queue, key, there=not there)
        method = spec.QUEUE_UNBIND if there else spec.QUEUE_BIND
        link.ask(method, queue=queue, exchange=exchange, routing_key=key)
        self._answered([thing])
