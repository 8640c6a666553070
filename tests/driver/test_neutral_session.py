"""The driver delivers to a session of any protocol, and notifies it of cancelled consumers."""

from __future__ import annotations

from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.core.queue.queue_settings import ConsumerSettings
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError
from penstock.settings.read import read_consume_arguments
from tests.support.driven_connection import make_driver


class RecordingSession(Session):
    """A session of a protocol that records instead of writing."""

    def __init__(self) -> None:
        super().__init__(name="con:7(guest@test)/link:1", connection_number=7)
        self.written: list[tuple[str, int, int]] = []
        self.cancelled: list[str] = []

    def deliver(self, batch: Batch) -> None:
        self.written.append((batch.consumer.tag, int(batch.first), len(batch.messages)))

    def on_cancelled(self, consumer: Consumer, reason: BrokerError) -> None:
        self.cancelled.append(consumer.tag)


def test_session_of_any_protocol_gets_its_deliveries_and_cancellations(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    queue = vhost.declare_queue("q", {}, False, False, None, None)
    session = RecordingSession()
    driver.broker.consume(session, Consumer("link", session, queue, False, False, 2))
    for _ in range(3):
        queue.enqueue(Envelope("", "q"), b"", 10, 0.0)
    driver.broker.schedule_delivery(queue)
    driver.run_turn()
    assert session.written == [("link", 1, 2)]
    driver.broker.delete_queue(queue)
    driver.run_turn()
    assert (session.cancelled, session.consumers) == (["link"], {})


def test_slow_consumer_is_logged_by_the_name_of_its_session(driver: BrokerDriver) -> None:
    queue = driver.broker.vhosts["/"].declare_queue("q", {}, False, False, None, None)
    session = RecordingSession()
    arguments = {"slow-consumer-threshold": 5, "slow-consumer-check-period": 10}
    terms = ConsumerSettings(queue.settings, read_consume_arguments("link", arguments))
    driver.broker.consume(session, Consumer("link", session, queue, False, False, 1), terms)
    for _ in range(3):
        queue.enqueue(Envelope("", "q"), b"", 10, 0.0)
    driver.broker.schedule_delivery(queue)
    for now in (1.0, 21.0):
        driver.begin(now)
        driver.run_turn()
    assert any(session.name in line.text and "link" in line.text for line in driver.log_queue.take())


def test_session_without_a_client_has_no_name_and_drops_deliveries() -> None:
    session = Session()
    assert (session.name, session.connection_number) == ("", 0)
    driver = make_driver()
    queue = driver.broker.vhosts["/"].declare_queue("q", {}, False, False, None, None)
    driver.broker.consume(session, Consumer("t", session, queue, False, False, 0))
    queue.enqueue(Envelope("", "q"), b"", 10, 0.0)
    driver.broker.schedule_delivery(queue)
    driver.run_turn()
    assert session.unsettled.count() == 1
