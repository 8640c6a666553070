"""Rewriting a content header: what is not changed stays octet by octet."""

from __future__ import annotations

from hypothesis import given, settings

from penstock.content.properties import Properties
from penstock.protocols.amqp091.content_frames import header_payload, make_content, properties_of
from penstock.protocols.amqp091.header_rewriter import HeaderRewriter, payload_of, properties_in
from tests.profiles import examples
from tests.wire.amqp091.test_content_header import properties


@settings(max_examples=examples(200), derandomize=True, database=None)
@given(properties())
def test_splitting_and_joining_gives_the_same_octets(made: Properties) -> None:
    payload = header_payload(make_content(made, b"body"))
    assert payload_of(payload, properties_in(payload)) == payload


def test_headers_are_added_replaced_and_removed_and_others_keep_their_octets() -> None:
    content = make_content(Properties(message_id="m", headers={"a": 1, "b": "x", "c": 2.5}), b"body")
    header = HeaderRewriter(content)
    kept = header.headers["c"]
    del header.headers["a"]
    written = header.written({"b": "y", "d": [1, {"e": True}]})
    assert properties_of(written) == Properties(message_id="m", headers={"c": 2.5, "b": "y", "d": [1, {"e": True}]})
    assert kept in written
    assert written.endswith(content[-12:])


def test_a_header_that_would_not_fit_into_a_frame_is_not_written() -> None:
    assert HeaderRewriter(make_content(Properties(), b"")).with_headers({"large": "x" * 131_072}) is None
