"""The publishing client of a channel: confirms, errors, blocks and returns as frames."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method, method_frame
from tests.support.driven_connection import Dialogue, make_driver, methods, publish


def full_queue() -> tuple[BrokerDriver, Dialogue]:
    """A queue of one message, which is full, and a client that has published into it."""
    driver = make_driver()
    driver.begin(100.0)
    peer = Dialogue(driver)
    peer.declare("q", capacity_messages=1, hold_deadline=5)
    peer.say(publish("q", b"1"))
    return driver, peer


def test_a_publish_held_before_confirm_select_is_not_numbered_when_it_passes() -> None:
    driver, peer = full_queue()
    peer.say(publish("q", b"2"))
    peer.say(method_frame(1, spec.CONFIRM_SELECT))
    peer.say(publish("q", b"3"))
    queue = driver.broker.vhosts["/"].queues["q"]
    queue.purge(driver.broker.now)
    assert "basic.ack" not in [method.name for method in methods(peer.listen(100.1))]
    confirms: list[Method] = []
    for now in (100.2, 100.3):
        queue.purge(driver.broker.now)
        confirms += [method for method in methods(peer.listen(now)) if method.name == "basic.ack"]
    assert [method.args["delivery_tag"] for method in confirms] == [1]


def test_a_publish_held_before_confirm_select_closes_the_channel_at_its_deadline() -> None:
    _, peer = full_queue()
    peer.say(publish("q", b"2"))
    peer.say(method_frame(1, spec.CONFIRM_SELECT))
    (closed,) = [method for method in methods(peer.listen(105.0)) if method.name == "channel.close"]
    assert closed.args["reply_code"] == 506


def test_a_channel_is_blocked_and_unblocked_once_for_its_connection() -> None:
    driver, peer = full_queue()
    for body in (b"2", b"3"):
        peer.say(publish("q", body))
    assert (peer.connection.blocks, peer.connection.reported_blocks) == (1, 1)
    for _ in range(3):
        driver.broker.vhosts["/"].queues["q"].purge(driver.broker.now)
        driver.run_turn()
    assert (peer.connection.blocks, peer.connection.reported_blocks) == (0, 0)
    lines = [line.text for line in driver.log_queue.take()]
    assert sum("CHN-1005" in line for line in lines) == 1
    assert sum("CHN-1006" in line for line in lines) == 1


def test_channel_publisher_confirms_a_run_of_publishes_with_one_frame() -> None:
    client = Dialogue(make_driver())
    client.declare("q")
    client.confirm()
    (frame,) = client.say(b"".join(publish("q", b"x") for _ in range(3)))
    method = decode_method(frame[2])
    assert (method.name, method.args["delivery_tag"], method.args["multiple"]) == ("basic.ack", 3, True)


def test_channel_publisher_refuses_what_a_full_queue_does_not_take() -> None:
    client = Dialogue(make_driver())
    client.declare("q", capacity_messages=1, overflow="reject")
    client.confirm()
    assert sorted(client.names(publish("q", b"x") + publish("q", b"x"))) == ["basic.ack", "basic.nack"]


def test_channel_publisher_without_confirms_hears_nothing() -> None:
    client = Dialogue(make_driver())
    client.declare("q")
    assert client.say(publish("q", b"x")) == []


def test_channel_publisher_to_an_exchange_that_does_not_exist_closes_its_channel() -> None:
    client = Dialogue(make_driver())
    assert client.names(publish("q", b"x", exchange="none")) == ["channel.close"]
