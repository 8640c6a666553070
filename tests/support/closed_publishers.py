"""Publishers without confirms that end while their publishes are held."""

from __future__ import annotations

from penstock.core.queue.queue import Queue
from penstock.driver.driver import BrokerDriver
from penstock.management.flow_log_records import Recorder
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish

CAPACITY = 20
SENT = 40


def recording_driver() -> BrokerDriver:
    driver = make_driver()
    driver.recorder = Recorder(driver.broker)
    driver.begin(100.0)
    return driver


def publisher(driver: BrokerDriver, sent: int = SENT, confirms: bool = False, deadline_s: int = 10) -> Dialogue:
    """A client that has sent more than its queue takes; the rest is held."""
    client = Dialogue(driver)
    client.declare("q", capacity_messages=CAPACITY, hold_deadline=deadline_s)
    if confirms:
        client.confirm()
    client.say(b"".join(publish("q", b"%d" % number) for number in range(sent)))
    assert client.connection.pausing.budget.messages == sent - CAPACITY
    return client


def queue_of(driver: BrokerDriver) -> Queue:
    return driver.broker.vhosts["/"].queues["q"]


def end(driver: BrokerDriver, client: Dialogue) -> None:
    """The peer closes its side of the socket, and then the socket is gone."""
    client.connection.hung_up()
    assert not driver.run_turn()
    driver.disconnect(client.connection)
    assert not driver.run_turn()


def take_all(driver: BrokerDriver, now: float) -> list[bytes]:
    """Consume and acknowledge until nothing comes any more, at this time; returns the bodies."""
    reader = Dialogue(driver)
    bodies: list[bytes] = []
    frames = reader.say(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="c"))
    while frames:
        driver.begin(now)
        bodies += [payload for kind, _, payload in frames if kind == spec.FRAME_BODY]
        tags = [
            method.args["delivery_tag"]
            for method in (decode_method(payload) for kind, _, payload in frames if kind == spec.FRAME_METHOD)
            if method.id == spec.BASIC_DELIVER
        ]
        frames = reader.say(b"".join(method_frame(1, spec.BASIC_ACK, delivery_tag=tag) for tag in tags))
    return bodies


def refusals(driver: BrokerDriver) -> list[tuple[object, object]]:
    """Cause and count of each record of the flow log about refused publishes."""
    driver.tick()
    return [(record["cause"], record["count"]) for record in driver.take_records() if record["event"] == "refused"]


def notices(client: Dialogue, data: bytes) -> float:
    """Send octets, and return for how long a notice is to wait of which the output is made."""
    client.connection.receive(data)
    assert not client.driver.run_turn()
    return client.connection.engine.output_delay(client.driver.broker.now)
