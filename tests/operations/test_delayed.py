"""Operations on delayed messages: the list by due time, sending now, and cancelling; one of them or all."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused, PreconditionFailed
from penstock.operations.delayed import ACTED_AT_ONCE
from penstock.protocols.amqp091.content_frames import body_of
from tests.support.access_of import access_of
from tests.support.job_calls import Asker
from tests.support.operation_calls import ask

LIST = "GET /penstock/queues/{vhost}/{name}/delayed"


def delayed(driver: BrokerDriver, *delays_s: float, queue: str = "q") -> Queue:
    """Declare a queue and publish a message with each delay, which is also its body."""
    broker = driver.broker
    vhost = broker.vhosts["/"]
    declared = vhost.declare_queue(queue, {}, False, False, None, None)
    route = vhost.route("", queue, True)
    vhost.resolve(route, {})
    producer = Producer(broker, "p", HoldBudget(1 << 30))
    for delay_s in delays_s:
        content = broker.formats.encode(Properties(), b"%g" % delay_s)
        producer.publish(route.delayed(broker.now + delay_s), content, 300)
    return declared


def bodies(queue: Queue) -> list[bytes]:
    return [bytes(body_of(message.content)) for message in queue.ready_queue.messages()]


def test_delayed_messages_are_listed_by_due_time(driver: BrokerDriver) -> None:
    delayed(driver, 90, 30, 60)
    answer = Asker(driver).ask("message.delayed", queue="q", count=2)
    assert answer["total"] == 3
    assert [(row["id"], round(row["due_in_s"])) for row in answer["messages"]] == [("d2", 30), ("d3", 60)]
    row = answer["messages"][0]
    assert (row["exchange"], row["routing_key"], row["bytes"], row["failures"]) == ("", "q", 2, 0)


def test_queue_without_delayed_messages_has_an_empty_list(driver: BrokerDriver) -> None:
    delayed(driver)
    assert Asker(driver).ask("message.delayed", queue="q") == {"messages": [], "total": 0}


def test_message_is_sent_now_and_another_cancelled(driver: BrokerDriver) -> None:
    queue = delayed(driver, 90, 30, 60)
    asker = Asker(driver)
    assert asker.ask("message.send-now", queue="q", id="d1") == {"queue": "q", "messages": 1, "left": 2}
    assert asker.ask("message.cancel", queue="q", id="d3") == {"queue": "q", "messages": 1, "left": 1}
    assert bodies(queue) == [b"90"]
    assert (int(queue.messages), int(queue.delayed_messages)) == (2, 1)


def test_send_now_of_all_messages_follows_the_order_of_due_times(driver: BrokerDriver) -> None:
    delays = [60 + number * 37 % 101 for number in range(3 * ACTED_AT_ONCE)]
    queue = delayed(driver, *delays)
    answer = Asker(driver).ask("message.send-now", queue="q", id="all")
    assert (answer["messages"], answer["left"]) == (len(delays), 0)
    assert [int(body) for body in bodies(queue)] == sorted(delays)


def test_cancellation_of_all_messages_makes_no_dead_letters(driver: BrokerDriver) -> None:
    queue = delayed(driver, *[60] * (2 * ACTED_AT_ONCE + 1))
    answer = Asker(driver).ask("message.cancel", queue="q", id="all")
    assert (answer["messages"], answer["left"]) == (2 * ACTED_AT_ONCE + 1, 0)
    assert (int(queue.messages), int(queue.bytes)) == (0, 0)


@pytest.mark.parametrize("operation", ["message.send-now", "message.cancel"])
@pytest.mark.parametrize(
    ("given", "reason"),
    [("d9", "queue 'q' has no delayed message 'd9'"), ("9", "must be the id of a delayed message"), ("", "must be")],
)
def test_unknown_id_is_refused(driver: BrokerDriver, operation: str, given: str, reason: str) -> None:
    delayed(driver, 60)
    assert reason in Asker(driver).ask(operation, queue="q", id=given)["text"]


@pytest.mark.parametrize("operation", ["message.delayed", "message.send-now", "message.cancel"])
def test_missing_queue_is_refused(driver: BrokerDriver, operation: str) -> None:
    fields = {} if operation == "message.delayed" else {"id": "all"}
    assert "no queue 'gone'" in Asker(driver).ask(operation, queue="gone", **fields)["text"]


def test_user_without_read_permission_is_refused(driver: BrokerDriver) -> None:
    delayed(driver, 60)
    with pytest.raises(AccessRefused):
        ask(
            driver,
            "GET /penstock/queues/{vhost}/{name}/delayed",
            {"queue": "q"},
            access=access_of(driver.broker, "eve"),
        )


def test_message_that_waits_for_a_retry_is_listed_with_its_failures(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    queue = vhost.declare_queue("q", {"retry-delay": 60_000}, False, False, None, None)
    queue.enqueue(Envelope("", "q"), driver.broker.formats.encode(Properties(), b"x"), 300, driver.broker.now)
    session = Session()
    assert session.get(queue, False, driver.broker.now) is not None
    session.unsettled.settle_tag(1, False, Outcome.FAILED, driver.broker.now)
    (row,) = Asker(driver).ask("message.delayed", queue="q")["messages"]
    assert (row["id"], row["failures"]) == ("r1", 1)
    assert Asker(driver, "others").ask("message.send-now", queue="q", id="r1")["messages"] == 1
    assert int(queue.waiting()) == 1


def test_publish_by_path_with_the_header_is_delayed(driver: BrokerDriver) -> None:
    queue = delayed(driver)
    vhost = driver.broker.vhosts["/"]
    vhost.declare_exchange("later", "x-delayed-message", {"x-delayed-type": "fanout"}, False, False, False)
    vhost.bind("later", queue, None, "", {})
    fields = {
        "name": "later", "properties": {"headers": {"x-delay": 5000}}, "routing_key": "", "payload": "x",
        "payload_encoding": "string",
    }  # fmt: skip
    access = access_of(driver.broker)
    assert ask(driver, "POST /exchanges/{vhost}/{name}/publish", fields, access=access) == {"routed": True}
    assert (int(queue.delayed_messages), int(queue.waiting())) == (1, 0)
    fields["properties"] = {"headers": {"x-delay": "soon"}}
    with pytest.raises(PreconditionFailed, match="header x-delay is 'soon'"):
        ask(driver, "POST /exchanges/{vhost}/{name}/publish", fields, access=access)
