"""The driver: what is delivered before a method, and the time of the next turn."""

from __future__ import annotations

from penstock.protocols.common.connection_state import ConnectionState
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish


def test_driver_delivers_what_was_published_before_a_method_that_asks_for_the_queue() -> None:
    driver = make_driver()
    client = Dialogue(driver)
    client.declare("q")
    client.say(method_frame(1, spec.BASIC_CONSUME, queue="q", no_ack=True, consumer_tag="t"))
    names = client.names(publish("q", b"x") + method_frame(1, spec.BASIC_GET, queue="q"))
    assert names == ["basic.deliver", "basic.get-empty"]


def test_driver_has_a_deadline_for_a_publish_that_is_held() -> None:
    driver = make_driver()
    client = Dialogue(driver)
    client.declare("q", capacity_messages=1, hold_deadline=5)
    client.confirm()
    driver.begin(100.0)
    assert client.names(publish("q", b"x") + publish("q", b"x")) == ["connection.blocked"]
    deadline = driver.next_deadline()
    assert deadline is not None
    assert deadline <= 105.0
    assert client.listen(105.5) != []


def test_driver_knows_its_connections_until_they_are_lost() -> None:
    driver = make_driver()
    connection = Dialogue(driver).connection
    assert list(driver.connections.values()) == [connection]
    driver.disconnect(connection)
    driver.run_turn()
    assert connection.state is ConnectionState.GONE
    assert not driver.connections
