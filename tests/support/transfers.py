"""Transfers of the core, driven by hand."""

from __future__ import annotations

from penstock.content.selector.selector import parse_selector
from penstock.core.consume.scan import MessageFilter
from penstock.core.message import Envelope
from penstock.core.publish.transfer import Transfer
from penstock.core.publish.transfer_source import TransferSource
from penstock.core.publish.transfer_targets import ToExchange, ToQueue, ToSources, TransferTargets
from penstock.flow.level import UNLIMITED
from penstock.flow.progress import WorkProgress
from penstock.flow.work import Steps
from tests.support.broker_fixture import House

STEPS_MOST = 10_000


class Moving:
    """One transfer of a house, with its progress."""

    def __init__(
        self,
        house: House,
        source: str,
        targets: TransferTargets,
        most: int = int(UNLIMITED),
        selector: str = "",
        copies: bool = False,
    ) -> None:
        self.house = house
        self.progress = WorkProgress()
        queue = house.vhost.queues[source]
        self.source = TransferSource(house.broker, queue, not copies, self.progress)
        filter = MessageFilter(house.broker.formats, parse_selector(selector))
        self.transfer = Transfer(house.broker, "a move", self.source, targets, filter, most)
        self.steps: Steps[None] = self.transfer.steps()
        self.ended = False

    def step(self) -> None:
        """Take one step, unless it is held."""
        if self.ended or (self.progress.held_by and not self.progress.retried):
            return
        try:
            next(self.steps)
        except StopIteration:
            self.ended = True

    def run(self) -> None:
        """Take steps until the end, or until it is held."""
        for _ in range(STEPS_MOST):
            if self.ended or self.progress.held_by:
                return
            self.step()
        raise AssertionError("no end after so many steps")

    def retry(self) -> None:
        """Take a step although it is held, as each second."""
        self.progress.retried = True
        self.step()

    def left(self) -> dict[tuple[str, str], int]:
        return {key: int(kind.messages) for key, kind in self.transfer.left.items()}


def to_queue(house: House, name: str) -> ToQueue:
    return ToQueue(house.vhost.queues[name])


def to_exchange(house: House, source: str, exchange: str, key: str) -> ToExchange:
    return ToExchange(
        house.vhost, house.broker.formats, house.vhost.queues[source], house.vhost.route(exchange, key, False)
    )


def to_sources(house: House, source: str, trusts: bool = False) -> ToSources:
    formats = house.broker.formats
    return ToSources(house.vhost, formats, house.vhost.queues[source], trusts, lambda queue: "")


def put(house: House, queue: str, *contents: bytes, charge: int = 100, priority: int = 0) -> None:
    """Put messages into a queue, as publishes to exchange `in` with routing key `key`."""
    envelope = Envelope("in", "key", priority)
    for content in contents:
        house.vhost.queues[queue].enqueue(envelope, content, charge, house.broker.now)


def contents(house: House, queue: str) -> list[bytes]:
    """Return the contents in the order of their delivery; takes them."""
    found: list[bytes] = []
    ready = house.vhost.queues[queue].ready_queue
    while ready.available():
        found.append(ready.pull().content)
    return found
