"""Direct reply-to: replies to a channel without a declared queue."""

from __future__ import annotations

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, make_driver, publish, refused

REPLY_TO = "amq.rabbitmq.reply-to"


def test_direct_reply_to_delivers_replies_to_the_channel_that_consumes_them() -> None:
    driver = make_driver()
    client, server = Dialogue(driver), Dialogue(driver)
    assert client.names(method_frame(1, spec.BASIC_CONSUME, queue=REPLY_TO, no_ack=True)) == ["basic.consume-ok"]
    (address,) = driver.broker.vhost("/").replies
    assert address.startswith(REPLY_TO + ".")
    server.say(publish(address, b"answer"))
    delivered, _, body = client.listen()
    assert decode_method(delivered[2]).name == "basic.deliver"
    assert body[2] == b"answer"


def test_direct_reply_to_wants_no_acknowledgements_and_one_consumer() -> None:
    client = Dialogue(make_driver())
    _, code, text = refused(client, method_frame(1, spec.BASIC_CONSUME, queue=REPLY_TO))
    assert (code, text) == (406, "PRECONDITION_FAILED - reply consumer cannot acknowledge")
    client = Dialogue(make_driver())
    consume = method_frame(1, spec.BASIC_CONSUME, queue=REPLY_TO, no_ack=True)
    assert client.names(consume) == ["basic.consume-ok"]
    assert refused(client, consume)[2] == "PRECONDITION_FAILED - reply consumer already set"


def test_direct_reply_to_addresses_end_with_their_channel() -> None:
    client = Dialogue(make_driver())
    client.say(method_frame(1, spec.BASIC_CONSUME, queue=REPLY_TO, no_ack=True))
    close = method_frame(1, spec.CHANNEL_CLOSE, reply_code=200, reply_text="", class_id=0, method_id=0)
    assert client.names(close) == ["channel.close-ok"]
    assert not client.driver.broker.vhost("/").replies
