"""Links of a protocol with sender credit, for tests that drive the core by hand."""

from __future__ import annotations

from penstock.core.publish.connection_gates import ConnectionGates
from penstock.core.publish.credit_window import CreditWindow
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_listener import ProducerListener
from penstock.core.publish.sender_credit import SenderCredit
from tests.support.broker_fixture import MIB, House

OCTETS = 100
CHARGE = 340
"""What a message of 100 octets is charged."""


class LinkClient(ProducerListener):
    """The listener of a link: counts how often it was notified."""

    def __init__(self) -> None:
        super().__init__()
        self.notified = 0

    def on_credit(self) -> None:
        self.notified += 1


class Link:
    """An incoming link with its producer and its sender, which counts its own credit."""

    def __init__(
        self,
        house: House,
        key: str | None,
        exchange: str = "",
        window: CreditWindow | None = None,
        budget: HoldBudget | None = None,
        origin: ConnectionGates | None = None,
        exact: bool = False,
    ) -> None:
        self.house = house
        self.client = LinkClient()
        budget = HoldBudget(MIB) if budget is None else budget
        self.producer = Producer(house.broker, f"link of {key}", budget, origin or house.origin, self.client)
        self.producer.confirming = True
        self.route = None if key is None else house.vhost.route(exchange, key, False)
        if self.route is not None:
            house.vhost.resolve(self.route, {})
        window = CreditWindow(message_octets=OCTETS) if window is None else window
        self.credit = SenderCredit(self.producer, house.vhost, self.route, window, "1", exact)
        self.confirmed = 0
        self.refused = 0

    @property
    def left(self) -> int:
        return int(self.credit.credit)

    def send(self, messages: int = 1, charge: int = CHARGE, key: str | None = None, stored: bool = False) -> int:
        """Send as many messages as there is credit for, at most so many; returns how many."""
        sent = 0
        route = self.route
        if key is not None or route is None:
            route = self.house.vhost.route("", key or "", False)
            self.house.vhost.resolve(route, {})
        elif route.epoch != self.house.vhost.epoch:
            self.house.vhost.refresh_route(route)
        if stored:
            route = route.persistent()
        while sent < messages and self.credit.publish(route, b"x", charge):
            sent += 1
        return sent

    def take_outcomes(self) -> None:
        for outcome in self.producer.confirms.take():
            count = int(outcome.last - outcome.first) + 1
            if outcome.confirmed:
                self.confirmed += count
            else:
                self.refused += count


def run_turn(house: House, turns: int = 1000) -> None:
    """A turn of the driver, as far as credit is concerned."""
    house.broker.begin(house.broker.now)
    house.broker.run(turns)
    house.broker.effects()
    for producer in house.broker.take_confirming():
        producer.listener.on_confirms()
    for credit in house.broker.credits.take_changed():
        credit.announce()


def run_until_quiet(house: House) -> None:
    """Turns until nothing is left to do at once; fails if that takes very many."""
    for _ in range(1000):
        run_turn(house)
        if not house.broker.pending():
            return
    raise AssertionError("the broker does not come to rest")
