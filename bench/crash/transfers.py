"""The clients that move and redrive messages under load, as jobs of the broker (Penstock only)."""

from __future__ import annotations

import random

from bench.crash.changes import pause
from bench.crash.cursors import url_of
from bench.crash.history import History, now
from bench.crash.parties import Party
from bench.crash.topology import AGAIN, AGAIN_DEAD, MOVED
from bench.crash.wire import Address, Link
from penstock import sync
from penstock.client.errors import ClientError, ControlError
from penstock.sync import connect
from penstock.wire.amqp091 import spec

CANCELLED = 406


class Mover(Party):
    """Moves all, or some, of a queue into another one, again and again; cancels some of these jobs."""

    def __init__(self, name: str, address: Address, history: History, chance: random.Random, queue: str) -> None:
        super().__init__(name, address, history, chance)
        self.queue = queue

    def act(self) -> None:
        link = self.connect()
        try:
            with connect(url_of(self.address), protocol="amqp091", reconnect=False) as control:
                while True:
                    pause(self, link)
                    self._move(control, link)
        except ControlError as refused:
            if not self.history.over:  # Else the node is dying, and says so.
                self.history.blame("refused", f"{self.name} {type(self).__name__}: {refused}")
        except ClientError:
            return  # the broker is gone

    def _move(self, control: sync.Connection, link: Link) -> None:
        begun = now()
        if self.chance.random() < 0.3:
            job = control.move_messages(self.queue, MOVED[self.queue], detach=True)
            pause(self, link)
            try:
                control.request("job.cancel", id=job["id"])
            except ControlError as refused:
                if refused.code != CANCELLED:
                    raise
            return
        count = self.chance.choice((None, None, 1, 17))
        self.history.transferred += control.move_messages(self.queue, MOVED[self.queue], count=count)["moved"]
        if count is None:
            self.history.moves.append((self.queue, begun))
        self.history.answered("settled")


class Rejecter(Party):
    """Rejects what is in a queue, without taking note: it is redriven."""

    def act(self) -> None:
        link = self.connect()
        link.ask(spec.BASIC_QOS, prefetch_count=self.chance.choice((1, 20, 200)))
        link.ask(spec.BASIC_CONSUME, queue=AGAIN)
        while True:
            link.read(0.05)
            while link.deliveries:
                link.say(spec.BASIC_REJECT, delivery_tag=link.deliveries.popleft().tag, requeue=False)
            link.flush()


class Redriver(Party):
    """Redrives the dead letters of the rejecter."""

    def act(self) -> None:
        link = self.connect()
        try:
            with connect(url_of(self.address), protocol="amqp091", reconnect=False) as control:
                while True:
                    pause(self, link)
                    count = self.chance.choice((None, None, 5))
                    self.history.transferred += control.redrive_messages(AGAIN_DEAD, count=count)["redriven"]
                    self.history.answered("settled")
        except ControlError as refused:
            if not self.history.over:  # Else the node is dying, and says so.
                self.history.blame("refused", f"{self.name} {type(self).__name__}: {refused}")
        except ClientError:
            return  # the broker is gone
