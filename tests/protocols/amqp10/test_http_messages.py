"""HTTP over AMQP: what a request says, and what a response looks like."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import BrokerError, InvalidField
from penstock.protocols.amqp10.http_messages import pairs, read_request, response
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.values import Typed, ulong
from tests.support.amqp10_dialogue import data_section
from tests.support.amqp10_management import request_message
from tests.support.amqp10_messages import decode_message


def test_request_has_method_path_query_and_body() -> None:
    found = read_request(request_message("GET", "/bindings/a%2Fb?src=a%20b&key=%3D", {"a": 1}))
    assert (found.method, found.path, found.segments()) == ("GET", "/bindings/a%2Fb", ["bindings", "a/b"])
    assert (found.query(), found.body) == ({"src": "a b", "key": "="}, {"a": 1})


@pytest.mark.parametrize("number", ["text", b"\x01", ulong(7), Typed("uuid", bytes(16))])
def test_response_correlates_with_the_message_id_of_any_type(number: Any) -> None:
    request = read_request(request_message("GET", "/", message_id=number))
    found = decode_message(response(request, 204, None))
    assert found.properties == {"subject": "204", "correlation_id": number}
    assert found.application == {"http:response": "1.1"}
    assert found.body == [("amqp-value", None)]


def test_request_without_a_body_section_has_none() -> None:
    content = encode(spec.PROPERTIES, subject="GET", to="/queues/q", reply_to="$me") + data_section(b"x")
    assert read_request(content).body is None


def test_body_may_come_before_the_properties() -> None:
    found = read_request(b"\x00\x53\x77\x40" + encode(spec.PROPERTIES, subject="GET", to="/a", reply_to="$me"))
    assert (found.method, found.path, found.body) == ("GET", "/a", None)


@pytest.mark.parametrize(
    "content",
    [
        data_section(b"x"),
        request_message("GET", "/", reply_to="/queues/q"),
        request_message("GET", "/", reply_to=None),
        request_message("GET", "/")[:-1],
        b"",
    ],
)
def test_request_that_no_answer_can_be_sent_to(content: bytes) -> None:
    with pytest.raises(BrokerError):
        read_request(content)


@pytest.mark.parametrize("text", ["a", "=1&b", "a=%FF"])
def test_query_that_is_none(text: str) -> None:
    with pytest.raises(InvalidField):
        pairs(text, "&")
