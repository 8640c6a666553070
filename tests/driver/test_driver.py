"""The driver: deliveries before a method, and the time of the next turn."""

from __future__ import annotations

from penstock.connections.connection_state import ConnectionState
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.session import Session, request_drain
from penstock.core.large_bodies import LargeReader, PieceListener
from penstock.core.large_content import body_of
from penstock.driver.driver import BrokerDriver
from penstock.flow.credit import LinkCredit
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, publish
from tests.support.memory_store import some_large
from tests.support.restored_broker import journaled


def test_driver_delivers_publishes_before_a_later_method_on_the_queue(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q")
    client.say(method_frame(1, spec.BASIC_CONSUME, queue="q", no_ack=True, consumer_tag="t"))
    names = client.names(publish("q", b"x") + method_frame(1, spec.BASIC_GET, queue="q"))
    assert names == ["basic.deliver", "basic.get-empty"]


def test_driver_has_a_deadline_for_a_held_publish(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q", capacity_messages=1, hold_deadline=5).confirm()
    driver.begin(100.0)
    assert client.names(publish("q", b"x") + publish("q", b"x")) == ["connection.blocked"]
    deadline = driver.next_deadline()
    assert deadline is not None
    assert deadline <= 105.0
    assert client.listen(105.5) != []


def test_driver_lists_connections_until_their_loss(driver: BrokerDriver) -> None:
    connection = Dialogue(driver).connection
    assert list(driver.connections.values()) == [connection]
    driver.disconnect(connection)
    driver.run_turn()
    assert connection.state is ConnectionState.GONE
    assert not driver.connections


class Receiver(Session):
    """A session that writes down in which order it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def deliver(self, batch: Batch) -> None:
        self.calls.append(f"{batch.left} delivered")

    def on_drained(self, consumer: Consumer, credit: int) -> None:
        self.calls.append(f"{consumer.tag} drained of {credit}")


def test_session_is_notified_of_a_drain_after_the_deliveries_of_the_turn(driver: BrokerDriver) -> None:
    peer = Dialogue(driver).declare("q")
    receiver = Receiver()
    consumer = Consumer("link", receiver, driver.broker.vhosts["/"].queues["q"], True, False, 0)
    consumer.credit = LinkCredit()
    driver.broker.consume(receiver, consumer)
    receiver.grant_credit(consumer, 0, 10)
    request_drain(consumer)
    peer.say(publish("q", b"x") + publish("q", b"y"))
    assert receiver.calls == ["2 delivered", "link drained of 8"]
    peer.say(publish("q", b"z"))
    assert receiver.calls == ["2 delivered", "link drained of 8"]


def test_driver_has_work_for_the_store_while_a_piece_of_a_large_body_is_wanted() -> None:
    driver = journaled()
    broker = driver.broker
    assert not driver.has_store_work()
    content = some_large(broker, b"m")
    body = body_of(content)
    body.pieces.clear()  # As when it was written.
    reader = LargeReader(broker.large, body, body.spans, PieceListener())
    assert reader.take(10) == b""
    assert driver.has_store_work()
    (read,) = broker.large.take_reads()
    assert not driver.has_store_work()
    reader.end()
    read.on_read(b"mmm")


def test_slow_turn_is_logged_once_a_second_with_the_connection_that_cost_most(driver: BrokerDriver) -> None:
    driver.slow_turn_s = 0.1
    client = Dialogue(driver)
    driver.log_queue.take()
    client.say(method_frame(1, spec.QUEUE_DECLARE, queue="q"))
    driver.scheduler.turn_times.count(client.connection, 500)
    for seconds in (0.05, 0.2, 0.3, 0.4):
        driver.end_turn(seconds, driver.broker.now)
    (line,) = driver.log_queue.take()
    assert line.fields["id"] == "PST-2010"
    assert line.fields["ms"] == 200.0
    driver.begin(driver.broker.now + 1.0)
    driver.tick()
    (line,) = driver.log_queue.take()
    assert line.text.startswith("slow turn of the event loop: 400 ms, ")
    assert line.text.endswith("(and 1 more since the last such line)")
