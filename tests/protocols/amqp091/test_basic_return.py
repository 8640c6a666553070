"""Returned messages: which refusals a publisher hears by basic.return."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver, mandatory, methods, publish

GATED = {"capacity_messages": 10, "stop_messages": 0, "resume_messages": 0, "hold_deadline": 5}


def stopped(driver: BrokerDriver, product: str = "", **arguments: object) -> Dialogue:
    """Return a client with confirms that has closed the gate of q, and has waited a whole hold deadline."""
    driver.begin(100.0)
    peer = Dialogue(driver, product=product)
    peer.declare("q", **{**GATED, **arguments})
    peer.confirm()
    peer.say(publish("q", b"first"))
    assert [method.name for method in methods(peer.listen(105.0))] == ["basic.ack"]
    return peer


def test_a_mandatory_message_that_is_refused_comes_back_with_the_reason_before_its_nack() -> None:
    peer = stopped(make_driver())
    assert peer.say(mandatory(b"second")) == []
    frames = peer.listen(110.0)
    returned, nack = methods(frames)
    assert (returned.name, returned.args["reply_code"], returned.args["routing_key"]) == ("basic.return", 506, "q")
    assert returned.args["reply_text"] == (
        "RESOURCE_ERROR - refused after its hold deadline of 5 s; queue 'q' holds 1 message, 247 bytes (closed above 0 "
        "messages, opens at 0 messages, capacity 10 messages)"
    )
    assert [payload for kind, _, payload in frames if kind == spec.FRAME_BODY] == [b"second"]
    assert (nack.name, nack.args["delivery_tag"], nack.args["multiple"]) == ("basic.nack", 2, False)


def test_a_message_that_is_not_mandatory_is_only_refused() -> None:
    peer = stopped(make_driver())
    peer.say(publish("q", b"second"))
    assert [method.name for method in methods(peer.listen(110.0))] == ["basic.nack"]


def test_a_client_that_takes_a_returned_message_for_a_success_only_gets_the_nack() -> None:
    peer = stopped(make_driver(), product="aiormq")
    peer.say(mandatory(b"second"))
    assert [method.name for method in methods(peer.listen(110.0))] == ["basic.nack"]
    unroutable = methods(peer.say(mandatory(b"third", "nowhere")))
    assert [method.name for method in unroutable] == ["basic.return", "basic.ack"], "that is as with RabbitMQ"


def test_beyond_what_a_connection_may_hold_it_comes_back_too() -> None:
    driver = make_driver()
    peer = stopped(driver)
    peer.say(method_frame(1, spec.QUEUE_DECLARE, queue="own"))
    peer.say(method_frame(1, spec.BASIC_CONSUME, queue="own"))
    bound = peer.connection.pausing.budget.bound
    peer.say(mandatory(b"x" * 100_000) * (int(bound) // 100_000))
    came = methods(peer.say(mandatory(b"x" * 100_000)))
    assert [method.name for method in came] == ["basic.return", "basic.nack"]
    assert "are held already; queue 'q' holds 1 message" in str(came[0].args["reply_text"])
