"""A delivery that is not acknowledged in time closes its channel and is requeued (RabbitMQ's timeout)."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support import at_once
from tests.support.amqp091_frames import names
from tests.support.driven_connection import Dialogue, make_driver, methods, publish

HALF_AN_HOUR = 1800.0
TOLD = (
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: {} ms. "
    "This timeout value can be configured, see consumers doc guide to learn more"
)


def consumer(driver: BrokerDriver, no_ack: bool = False, prefetch: int = 0, **arguments: object) -> Dialogue:
    """A client that consumes from queue q, at 100 seconds."""
    driver.begin(100.0)
    peer = Dialogue(driver).declare("q", **arguments)
    peer.names(method_frame(1, spec.BASIC_QOS, prefetch_count=prefetch))
    assert "basic.consume-ok" in peer.names(
        method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="c", no_ack=no_ack)
    )
    return peer


def test_default_ack_timeout_of_half_an_hour_closes_the_channel(driver: BrokerDriver) -> None:
    peer = consumer(driver)
    assert names(peer.say(publish("q", b"x"))) == ["basic.deliver"]
    assert peer.listen(100.0 + HALF_AN_HOUR - 0.1) == []
    (closed,) = methods(peer.listen(100.0 + HALF_AN_HOUR))
    assert (closed.name, closed.args["reply_code"]) == ("channel.close", 406)
    assert closed.args["reply_text"] == TOLD.format(1_800_000)
    assert any("delivery acknowledgement on channel 1 timed out" in note.text for note in driver.log_queue.take())
    peer.say(method_frame(1, spec.CHANNEL_CLOSE_OK))
    peer.names(method_frame(1, spec.CHANNEL_OPEN))
    (got,) = methods(peer.say(method_frame(1, spec.BASIC_GET, queue="q")))
    assert got.args["redelivered"] is True


def test_ack_timeout_runs_for_each_delivery(driver: BrokerDriver) -> None:
    peer = consumer(driver, consumer_timeout=10_000, prefetch=2)
    peer.say(publish("q", b"1"))
    driver.begin(106.0)
    peer.say(publish("q", b"2"))
    assert peer.say(method_frame(1, spec.BASIC_ACK, delivery_tag=1)) == []
    assert peer.listen(110.0) == []
    assert peer.listen(115.9) == []
    (closed,) = methods(peer.listen(116.0))
    assert closed.args["reply_text"] == TOLD.format(10_000)


def test_ack_timeout_applies_to_basic_get() -> None:
    driver = make_driver(now=100.0)
    peer = Dialogue(driver).declare("q", consumer_timeout=10_000)
    peer.say(publish("q", b"x"))
    assert names(peer.say(method_frame(1, spec.BASIC_GET, queue="q"))) == ["basic.get-ok"]
    assert names(peer.listen(110.0)) == ["channel.close"]


def test_consumer_that_keeps_up_is_never_closed(driver: BrokerDriver) -> None:
    peer = consumer(driver, consumer_timeout=10_000)
    for tag in range(1, 100):
        driver.begin(100.0 + tag * 9)
        assert names(peer.say(publish("q", b"x"))) == ["basic.deliver"]
        assert peer.say(method_frame(1, spec.BASIC_ACK, delivery_tag=tag)) == []
    assert peer.listen(10_000.0) == []


def test_ack_timeout_does_not_apply_without_acknowledgements(driver: BrokerDriver) -> None:
    peer = consumer(driver, no_ack=True, consumer_timeout=10_000)
    assert names(peer.say(publish("q", b"x"))) == ["basic.deliver"]
    assert peer.listen(10_000.0) == []
    assert driver.next_deadline() is None


def test_closed_channel_leaves_no_ack_timeout(driver: BrokerDriver) -> None:
    peer = consumer(driver, consumer_timeout=10_000)
    peer.say(publish("q", b"x"))
    assert driver.next_deadline() == 110.0
    peer.say(method_frame(1, spec.CHANNEL_CLOSE))
    assert driver.next_deadline() is None


@pytest.mark.parametrize("scope", ["broker", "vhost", "queue"])
def test_ack_timeout_is_a_setting_of_broker_virtual_host_and_queue(scope: str) -> None:
    driver = make_driver()
    pattern = {"broker": "", "vhost": "/", "queue": "#"}[scope]
    at_once.set_named(driver.broker, scope, pattern, consumer_timeout=5000)
    peer = consumer(driver)
    peer.say(publish("q", b"x"))
    assert names(peer.listen(105.0)) == ["channel.close"]
    at_once.set_named(driver.broker, scope, pattern, consumer_timeout="none")
    peer.say(method_frame(1, spec.CHANNEL_CLOSE_OK))
    peer.names(method_frame(1, spec.CHANNEL_OPEN))
    assert names(peer.say(method_frame(1, spec.BASIC_GET, queue="q"))) == ["basic.get-ok"]
    assert peer.listen(1e9) == []


@pytest.mark.parametrize("value", [0, -1, "soon", 1.5])
def test_invalid_ack_timeout_is_refused(value: object, driver: BrokerDriver) -> None:
    peer = Dialogue(driver)
    declare = method_frame(1, spec.QUEUE_DECLARE, queue="q", arguments={"x-consumer-timeout": value})
    (closed,) = methods(peer.say(declare))
    assert closed.args["reply_code"] == 406
    assert "x-consumer-timeout must be" in str(closed.args["reply_text"])


@pytest.mark.parametrize(
    ("asked", "of_queue", "seconds"), [(1000, None, 1.0), (1000, 5000, 1.0), (14_400_000, 5000, 5.0), ("2s", None, 2.0)]
)
def test_consumer_timeout_is_at_most_the_timeout_of_the_queue(
    asked: object, of_queue: int | None, seconds: float, driver: BrokerDriver
) -> None:
    driver.begin(100.0)
    peer = Dialogue(driver).declare("q", **({} if of_queue is None else {"consumer_timeout": of_queue}))
    arguments = {"x-consumer-timeout": asked}
    peer.names(method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="c", arguments=arguments))
    peer.say(publish("q", b"x"))
    assert peer.listen(100.0 + seconds - 0.1) == []
    (closed,) = methods(peer.listen(100.0 + seconds))
    assert closed.args["reply_text"] == TOLD.format(round(seconds * 1000))


def test_consumer_timeout_leaves_other_consumers_of_the_channel_unchanged(driver: BrokerDriver) -> None:
    driver.begin(100.0)
    peer = Dialogue(driver).declare("slow").declare("quick")
    for queue, arguments in (("slow", {}), ("quick", {"x-consumer-timeout": 2000})):
        peer.names(method_frame(1, spec.BASIC_CONSUME, queue=queue, consumer_tag=queue, arguments=arguments))
    peer.say(publish("slow", b"x"))
    assert peer.listen(150.0) == []
    peer.say(publish("quick", b"x"))
    assert peer.listen(151.9) == []
    (closed,) = methods(peer.listen(152.0))
    assert closed.args["reply_text"] == TOLD.format(2000)


@pytest.mark.parametrize("value", [0, -1, "soon", 1.5])
def test_time_of_a_consumer_that_cannot_be_meant_is_refused(value: object, driver: BrokerDriver) -> None:
    peer = Dialogue(driver).declare("q")
    consume = method_frame(1, spec.BASIC_CONSUME, queue="q", arguments={"x-consumer-timeout": value})
    (closed,) = methods(peer.say(consume))
    assert closed.args["reply_code"] == 406
    assert "x-consumer-timeout must be" in str(closed.args["reply_text"])
