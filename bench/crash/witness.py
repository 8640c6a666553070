"""What a client sees after a restart: what is declared, and what is in the queues; and what it leaves for the next."""

import random
import time
from typing import Self, cast

from bench.crash.cursors import url_of
from bench.crash.history import Copy, History, Settlement, Thing, Wipe, now
from bench.crash.judge import Found, Verdict
from bench.crash.promises import Promises
from bench.crash.topology import DELAYED, OURS, TIMED, TIMED_MS, straight
from bench.crash.wire import PATIENCE_S, Address, Gone, Link, Refused
from penstock.content.properties import Properties
from penstock.sync import connect
from penstock.wire.amqp091 import spec

NOT_FOUND = 404
MOST_KEPT = 4 << 20
"""Octets of bodies that a queue keeps for the next round at most."""


class Witness:
    """A client that looks after a restart."""

    def __init__(self, address: Address, history: History, promises: Promises) -> None:
        self._promises = promises
        self._address = address
        self.link = Link(address)
        self.link.ask(spec.CONFIRM_SELECT)
        self.link.on_confirm = self._told
        self._history = history
        self._confirmed = 0
        """The number of the last message that was confirmed; there is never more than one on its way."""
        self._tags: dict[tuple[str, str], int] = {}

    # -- what is declared --------------------------------------------------------------------------------------------

    def check_things(self) -> None:
        """Look for everything declared and deleted; what is seen is the beginning of the next round."""
        for thing in list(self._history.things.values()):
            there = self._look(thing)
            if not thing.doubtful and there != thing.there:
                self._undone(thing, there)
            thing.there, thing.doubtful = there, False
            if not there:
                del self._history.things[thing.key]

    def _undone(self, thing: Thing, there: bool) -> None:
        if self._promises.declarations:
            known = "deletion" if there else "declaration"
            text = f"{' '.join(thing.key)} is {'' if there else 'not '}there, but its {known} was answered"
            self._history.blame("deleted back" if there else "missing", text)
        elif thing.key[0] == "queue" and not there:
            self._history.wipes.append(Wipe(thing.key[1], 0))  # what was in it went with it

    def _look(self, thing: Thing) -> bool:
        kind, name = thing.key[:2]
        if kind == "queue":
            if not self._answers(spec.QUEUE_DECLARE, queue=name, passive=True):
                return False
            try:
                self.link.ask(spec.QUEUE_DECLARE, queue=name, durable=True, arguments=thing.arguments)
            except Refused as refused:
                self._reopen()
                self._history.blame("missing", f"queue {name} is not as it was declared: {refused}")
            return True
        if kind == "exchange":
            return self._answers(spec.EXCHANGE_DECLARE, exchange=name, passive=True)
        exchange, queue, key = thing.key[1:]
        if not self._answers(spec.EXCHANGE_DECLARE, exchange=exchange, passive=True):
            return False
        before = self.link.returned
        self._publish(exchange, key, Properties(delivery_mode=1), b"", mandatory=True)
        if self.link.returned != before:
            return False
        self.link.ask(spec.QUEUE_PURGE, queue=queue)
        return True

    def has(self, queue: str) -> bool:
        """Return whether a queue is there."""
        return self._answers(spec.QUEUE_DECLARE, queue=queue, passive=True)

    def _answers(self, method: int, **args: object) -> bool:
        try:
            self.link.ask(method, **args)
        except Refused as refused:
            if refused.code != NOT_FOUND:
                raise
            self._reopen()
            return False
        return True

    def _reopen(self) -> None:
        self.link.reopen()
        self.link.ask(spec.CONFIRM_SELECT)
        self.link.published = self._confirmed = 0

    def _publish(self, exchange: str, key: str, properties: Properties, body: bytes, mandatory: bool = False) -> None:
        number = self.link.publish(exchange, key, properties, body, mandatory=mandatory)
        self.link.flush()
        while self._confirmed < number:
            self.link.read()

    def _told(self, number: int, multiple: bool, positive: bool) -> None:
        if not positive:
            raise Gone(None, f"it refused the only message that was on its way, number {number}")
        self._confirmed = number

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        if kind is None:  # what was not acknowledged is back in its queue then
            self.link.close()
        self.link.abort()

    # -- what is in the queues ---------------------------------------------------------------------------------------

    def take(self, queue: str) -> list[Found]:
        """Return all that is ready in a queue, in its order."""
        link, found = self.link, []
        if queue in DELAYED:
            with connect(url_of(self._address), protocol="amqp091", reconnect=False) as control:
                control.request("message.send-now", queue=queue, id="all")
        tag = link.ask(spec.BASIC_CONSUME, queue=queue).args["consumer_tag"]
        deadline = time.monotonic() + PATIENCE_S
        while self._ready(queue):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{queue} still has messages that it does not deliver after {PATIENCE_S:g} s")
            link.read(0.01)
        link.ask(spec.BASIC_CANCEL, consumer_tag=tag)
        while link.ask(spec.BASIC_GET, queue=queue).id != spec.BASIC_GET_EMPTY:
            pass
        while link.deliveries:
            delivery = link.deliveries.popleft()
            properties = delivery.properties
            name = properties.message_id or ""
            self._tags[queue, name] = delivery.tag
            number = cast("int | None", (properties.headers or {}).get("number"))
            persistent = properties.delivery_mode == 2
            found.append(Found(queue, name, delivery.redelivered, delivery.body, number, persistent, now()))
        return found

    def _ready(self, queue: str) -> bool:
        return bool(self.link.ask(spec.QUEUE_DECLARE, queue=queue, passive=True).args["message_count"])

    def settle(self, verdict: Verdict, name: str, chance: random.Random) -> None:
        """Acknowledge some of what was found, surely; the rest goes back."""
        queues: dict[str, list[tuple[Copy, Found]]] = {}
        for copy, one in verdict.kept:
            queues.setdefault(one.queue, []).append((copy, one))
        for queue, there in queues.items():
            if queue in OURS:
                continue
            gone = self._chosen(there, chance)
            for copy, _ in gone:
                copy.settlement = Settlement(queue)
                self.link.say(spec.BASIC_ACK, delivery_tag=self._tags[queue, copy.name])
            if gone:
                self._make_sure(f"{name}.{queue}", queue, [copy for copy, _ in gone])

    def _chosen(self, there: list[tuple[Copy, Found]], chance: random.Random) -> list[tuple[Copy, Found]]:
        share = chance.choice((0.0, 0.2, 0.9, 1.0, 1.0, 1.0))
        if sum(copy.size for copy, _ in there) > MOST_KEPT:
            share = 1.0
        if chance.random() < 0.5:
            return there[: int(len(there) * share)]
        return [each for each in there if chance.random() < share]

    def _make_sure(self, name: str, queue: str, copies: list[Copy]) -> None:
        """Publish a persistent message to the same queue: when it is confirmed, what came before it is on the disk."""
        lifetime = TIMED_MS * 1_000_000 if queue == TIMED else 0
        barrier = Copy(name, name, 1, straight(queue).places[0], 20, sent=now(), lifetime=lifetime)
        self._history.add([barrier])
        self._publish("", queue, Properties(message_id=name, delivery_mode=2), barrier.body())
        self._history.confirm([barrier], True)
        self._history.assure([copy.settlement for copy in copies if copy.settlement is not None], queue)
