"""Received messages: assembled from a method, a content header and body frames."""

from __future__ import annotations

import pytest

from penstock.client.content import CONTENT_MAX, Content, Delivery
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, Method, Properties
from penstock.wire.amqp091.spec import ReplyCode

DELIVERED: dict[str, object] = {
    "consumer_tag": "c", "delivery_tag": 7, "redelivered": True, "exchange": "e", "routing_key": "k"
}  # fmt: skip
RETURNED: dict[str, object] = {"reply_code": 312, "reply_text": "NO_ROUTE", "exchange": "e", "routing_key": "k"}


def content(size: int, *parts: bytes) -> Content:
    """Return a delivery with a header that announces this size, and these body frames."""
    found = Content(Method(spec.METHODS[spec.BASIC_DELIVER], DELIVERED))
    found.add_header(size, Properties(message_id="m"))
    for part in parts:
        found.add_body(memoryview(part))
    return found


@pytest.mark.parametrize("parts", [(b"abcdef",), (b"abc", b"def"), (b"a", b"", b"bcdef")])
def test_content_is_complete_when_all_octets_of_its_body_have_come(parts: tuple[bytes, ...]) -> None:
    assert not content(6, *parts[:-1]).complete
    found = content(6, *parts)
    assert found.complete
    assert found.delivery() == Delivery("c", 7, True, "e", "k", None, Properties(message_id="m"), b"abcdef")


def test_content_without_a_body_is_complete_with_its_header() -> None:
    assert not Content(Method(spec.METHODS[spec.BASIC_DELIVER], DELIVERED)).complete
    assert content(0).complete
    assert content(0).delivery().body == b""


def test_returned_content_has_the_reason_of_the_return() -> None:
    found = Content(Method(spec.METHODS[spec.BASIC_RETURN], RETURNED))
    found.add_header(1, Properties())
    found.add_body(memoryview(b"x"))
    assert found.returned()[:4] == (312, "NO_ROUTE", "e", "k")
    assert found.returned().body == b"x"


def test_content_with_a_second_header_is_an_unexpected_frame() -> None:
    with pytest.raises(CodecError, match="a second content header") as refused:
        content(1).add_header(1, Properties())
    assert refused.value.code == ReplyCode.UNEXPECTED_FRAME


@pytest.mark.parametrize("found", [Content(Method(spec.METHODS[spec.BASIC_DELIVER], DELIVERED)), content(2, b"xy")])
def test_content_with_a_body_frame_out_of_place_is_refused(found: Content) -> None:
    with pytest.raises(CodecError, match="without its header, or beyond its size"):
        found.add_body(memoryview(b"z"))


def test_content_beyond_the_largest_body_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(CodecError, match=f"a body of {CONTENT_MAX + 1} octets is larger than"):
        content(CONTENT_MAX + 1)
