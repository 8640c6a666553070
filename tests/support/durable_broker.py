"""A broker whose durable queues are kept, for tests that drive the core by hand."""

from __future__ import annotations

from typing import Any

from penstock.core.effects import GateChanged
from penstock.core.journal.journal import Journal
from penstock.core.publish.producer import Producer
from tests.support import at_once
from tests.support.broker_fixture import House


class Kept(House):
    """A house whose durable queues are kept; what the store would write is written when a test says so."""

    def __init__(self, **settings: object) -> None:
        super().__init__()
        self.broker.journal = self.journal = Journal(
            self.broker.durable_changes, self.broker.gates.disk, self.broker.large
        )
        self.disk = self.broker.gates.disk
        for name in ("a", "b"):
            self.vhost.declare_queue(name, {}, True, False, None, None)
        self.queue("passing")
        if settings:
            self.set("broker", "", **settings)
        self.write()

    def store(self, producer: Producer, key: str, charge: int = 100, exchange: str = "") -> None:
        """Publish a persistent message, by the hot path where there is one."""
        route = self.vhost.route(exchange, key, False)
        self.vhost.resolve(route, {})
        route = route.persistent()
        producer.publish(route, b"x", charge)

    def write(self) -> None:
        at_once.encode(self.journal, self.journal.take(), 0.0)
        self.journal.written()
        self.broker.run(1000)

    def crossings(self) -> list[tuple[str, bool]]:
        return [
            (each.transition.gate.name, each.transition.closed)
            for each in self.effects()
            if isinstance(each, GateChanged)
        ]

    def effects(self) -> list[Any]:
        self.broker.apply_gate_transitions()
        return list(self.broker.effects())

    def closed(self) -> list[str]:
        return [gate.name for gate in self.disk.gates() if not gate.open]

    def stored(self) -> int:
        return int(self.disk.vhost_usage("/").bytes())
