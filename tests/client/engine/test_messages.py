"""Messages to be sent."""

from __future__ import annotations

import pytest

import penstock
from penstock.content.properties import Properties


@pytest.mark.parametrize("body", [b"x", bytearray(b"x"), memoryview(b"x")])
def test_body_may_be_any_bytes_object(body: bytes | bytearray | memoryview) -> None:
    assert penstock.Message(body).body == b"x"


def test_properties_by_name_equal_the_properties_of_the_message() -> None:
    message = penstock.Message(b"x", headers={"a": 1}, durable=False, expiration=1.5, reply_to="q")
    assert message.properties == Properties(headers={"a": 1}, delivery_mode=1, expiration="1500", reply_to="q")
    given = Properties(app_id="shop")
    assert penstock.Message(b"x", properties=given).properties is given
