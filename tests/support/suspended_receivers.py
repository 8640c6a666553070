"""A peer whose receiver's link has unsettled deliveries, to be detached, suspended and resumed (AMQP 1.0)."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.protocols.amqp10.engine import Amqp10Engine
from penstock.protocols.amqp10.suspended_links import SuspendedLinks
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from tests.support.amqp10_dialogue import Amqp10Dialogue, names, performative, sender, transfers


def source(**fields: object) -> object:
    return composite(spec.SOURCE, address="/queues/q", **fields)


def receiver(count: int = 3, driver: BrokerDriver | None = None, **terminus: object) -> Amqp10Dialogue:
    """A peer with this many unsettled deliveries from queue q on handle 10."""
    client = sender(driver)
    client.put(*(b"%d" % n for n in range(count)), settled=True)
    assert len(transfers(client.attach_receiver(None, 10, credit=count, source=source(**terminus)))) == count
    return client


def owner(client: Amqp10Dialogue) -> SuspendedLinks:
    engine = client.connection.engine
    assert isinstance(engine, Amqp10Engine)
    return engine.endpoint.shared.suspended


def detach(client: Amqp10Dialogue, closed: bool = False) -> None:
    assert names(client.say(performative(spec.DETACH, handle=10, closed=closed))) == ["detach"]
