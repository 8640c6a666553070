"""Senders and receivers of Qpid Proton whose credit, outcomes and link properties an experiment looks at.

Importing this module skips the tests where Qpid Proton could not be built.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.brokers import PATIENCE, BrokerProcess, some_name

pytest.importorskip("proton", reason="python-qpid-proton is not installed: there was no C compiler")

import proton
from proton.reactor import LinkOption
from proton.utils import BlockingConnection


class WithProperties(LinkOption):  # type: ignore[misc]
    """Properties of a link, such as `consumerWindowSize`."""

    def __init__(self, **properties: object) -> None:
        self.properties = properties

    def apply(self, link: Any) -> None:
        link.properties = self.properties


class ProtonClient:
    """One connection over AMQP 1.0."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.blocking = BlockingConnection(broker.url.rstrip("/"), timeout=PATIENCE, allowed_mechs="PLAIN")

    def settled(self) -> None:
        """Everything sent has been acted on, and what came of it has arrived: sessions answer in order."""
        for _ in range(2):
            session = self.blocking.conn.session()
            session.open()
            self.blocking.wait(lambda session=session: session.state & proton.Endpoint.REMOTE_ACTIVE, timeout=PATIENCE)
            session.close()

    def sender(self, address: str, **properties: object) -> ProtonSender:
        return ProtonSender(self, address, properties)

    def receiver(self, address: str, credit: int, **properties: object) -> Any:
        options = WithProperties(**properties) if properties else None
        return self.blocking.create_receiver(address, credit=credit, name=some_name("link"), options=options)

    def close(self) -> None:
        self.blocking.close()


class ProtonSender:
    """A sender that sends as its credit permits, and keeps the outcomes."""

    def __init__(self, client: ProtonClient, address: str, properties: dict[str, object]) -> None:
        self.client = client
        options = WithProperties(**properties) if properties else None
        self.link = client.blocking.create_sender(address, name=some_name("link"), options=options).link
        self.most = 0
        """The highest credit seen."""
        self.deliveries: list[Any] = []

    @property
    def credit(self) -> int:
        """Credit that is left, when all that was due has come."""
        self.client.settled()
        return int(self.link.credit)

    def send(self, count: int, octets: int = 1) -> ProtonSender:
        """Send so many messages, each when there is credit for it."""
        for _ in range(count):
            self.client.blocking.wait(lambda: self.link.credit > 0, timeout=PATIENCE)
            self._one(octets)
        return self

    def send_while_credit(self, most: int, octets: int = 1) -> int:
        """Send until no credit is left, at most so many messages; returns how many."""
        count = 0
        while count < most and (self.link.credit > 0 or self.credit > 0):
            self._one(octets)
            count += 1
        return count

    def _one(self, octets: int) -> None:
        self.most = max(self.most, int(self.link.credit))
        self.deliveries.append(self.link.send(proton.Message(body=b"x" * octets, inferred=True)))

    def states(self) -> list[object]:
        """Outcomes so far: `proton.Delivery.ACCEPTED`, `REJECTED`, or 0 where the broker has not answered."""
        self.client.settled()
        return [delivery.remote_state for delivery in self.deliveries]

    @property
    def accepted(self) -> int:
        return self.states().count(proton.Delivery.ACCEPTED)
