"""Messages to be sent."""

from __future__ import annotations

import pytest

import penstock
from penstock.client.engine.messages import delayed
from penstock.content.properties import Properties


@pytest.mark.parametrize("body", [b"x", bytearray(b"x"), memoryview(b"x")])
def test_body_may_be_any_bytes_object(body: bytes | bytearray | memoryview) -> None:
    assert penstock.Message(body).body == b"x"


def test_properties_by_name_equal_the_properties_of_the_message() -> None:
    message = penstock.Message(b"x", headers={"a": 1}, durable=False, expiration=1.5, reply_to="q")
    assert message.properties == Properties(headers={"a": 1}, delivery_mode=1, expiration="1500", reply_to="q")
    given = Properties(app_id="shop")
    assert penstock.Message(b"x", properties=given).properties is given


def test_delay_is_an_annotation_in_milliseconds() -> None:
    given = Properties(app_id="shop", headers={"a": 1})
    message = penstock.Message(b"x", properties=given, delay=1.5)
    assert message.properties.headers == {"a": 1, "x-opt-delivery-delay": 1500}
    assert given.headers == {"a": 1}
    assert message.delay == 1.5


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), 2.0**53])
def test_invalid_delay_of_a_message_is_refused(delay: float) -> None:
    with pytest.raises(ValueError, match="a delay is a number of seconds from 0 to 9007199254740, not"):
        penstock.Message(b"x", delay=delay)


def test_message_with_a_delay_keeps_its_target() -> None:
    message = delayed(penstock.Message(b"x", routing_key="k", exchange="e", priority=3), 2)
    assert isinstance(message, penstock.Message)
    assert (message.routing_key, message.exchange, message.properties.priority, message.delay) == ("k", "e", 3, 2)
    assert delayed(b"x", None) == b"x"
