"""Contents of AMQP 0-9-1 that clients publish as they are stored."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.properties import Properties
from penstock.core.message_format import StoredContent
from penstock.errors import PreconditionFailed
from penstock.flow.timers import NEVER
from penstock.protocols.amqp091.content_frames import FRAME_PAYLOAD_MAX, make_content
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.protocols.amqp091.stored_content import SMALL_FRAME, check_stored
from penstock.wire.amqp091.codec import frame
from penstock.wire.amqp091.content_header import encode_header
from penstock.wire.amqp091.spec import FRAME_BODY, FRAME_HEADER
from tests.profiles import examples

FORMAT = Amqp091Format()
FULL = Properties("text/plain", "gzip", {"a": 1}, 2, 9, "c", "replies", "1500", "m", 17, "t", "guest", "app")


def checked(content: bytes, user: bytes = b"guest") -> StoredContent:
    found = StoredContent()
    check_stored(content, user, found)
    return found


def framed(sizes: list[int], announced: int | None = None, **properties: object) -> bytes:
    """Return a content whose body is in frames of these sizes."""
    total = sum(sizes) if announced is None else announced
    header = frame(FRAME_HEADER, 7, encode_header(total, Properties(**properties)))  # type: ignore[arg-type]
    return header + b"".join(frame(FRAME_BODY, 7, bytes([65 + index % 26]) * size) for index, size in enumerate(sizes))


@pytest.mark.parametrize("body", [b"", b"x", bytes(FRAME_PAYLOAD_MAX), bytes(3 * FRAME_PAYLOAD_MAX + 5)])
def test_content_of_a_broker_passes_unchanged(body: bytes) -> None:
    for properties in (Properties(), FULL, Properties(delivery_mode=1)):
        content = make_content(properties, body)
        found = checked(content)
        assert found.content == content
        assert found.charge == FORMAT.charge(content)
        assert found.limited_bytes == len(body)


def test_facts_of_a_publish_are_read_from_the_header() -> None:
    found = checked(make_content(FULL, b"x"))
    assert (found.persistent, found.priority, found.ttl_s, found.expires_ms) == (True, 9, 1.5, 0)
    plain = checked(make_content(Properties(), b"x"))
    assert (plain.persistent, plain.priority, plain.ttl_s) == (False, 0, NEVER)
    assert not checked(make_content(Properties(delivery_mode=1), b"x")).persistent


def test_user_id_of_another_user_is_left_out() -> None:
    content = make_content(FULL, b"body")
    found = checked(content, b"other")
    assert FORMAT.properties(content).user_id == "guest"
    assert FORMAT.properties(found.content) == Properties(
        "text/plain", "gzip", {"a": 1}, 2, 9, "c", "replies", "1500", "m", 17, "t", None, "app"
    )
    assert FORMAT.body(found.content) == b"body"
    assert found.charge == FORMAT.charge(found.content)
    assert (found.persistent, found.priority, found.ttl_s) == (True, 9, 1.5)


@pytest.mark.parametrize("sizes", [[1, 1, 1], [SMALL_FRAME - 1, 5], [0], [2000, 0], [5000, 1, 5000]])
def test_body_in_small_frames_is_put_into_large_ones(sizes: list[int]) -> None:
    content = framed(sizes, delivery_mode=2)
    found = checked(content)
    assert FORMAT.body(found.content) == FORMAT.body(content)
    assert len(found.content) <= len(make_content(Properties(delivery_mode=2), bytes(sum(sizes))))
    assert found.persistent


@pytest.mark.parametrize("sizes", [[SMALL_FRAME, 1], [5000, 5000, 3], [100_000, FRAME_PAYLOAD_MAX]])
def test_body_in_frames_as_a_broker_stores_them_stays(sizes: list[int]) -> None:
    content = framed(sizes)
    assert checked(content).content is content


WRONG_CLASS = b"\x02\0\0\0\0\0\x0e\0\x3d\0\0" + bytes(10) + b"\xce"
NO_END = framed([3])[:-1] + b"\0"


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"\x02", "does not begin with a content header frame"),
        (framed([])[:-1], "does not begin with a content header frame"),
        (WRONG_CLASS, "does not begin with a content header frame of class basic"),
        (framed([3])[:-1], "not whole"),
        (NO_END, "not whole"),
        (framed([3], 4), "the body frames have 3 bytes, and the header announces 4"),
        (framed([], 4), "the body frames have 0 bytes, and the header announces 4"),
        (framed([3], 0), "the body frames have 3 bytes, and the header announces 0"),
        (framed([2000, 3]) + b"\x03", "no whole body frame"),
        (framed([3]) + framed([3]), "no whole body frame"),
        (framed([FRAME_PAYLOAD_MAX + 1]), "more than 131,064 bytes"),
        (framed([3])[:11] + b"\xff" + framed([3])[12:], "the header announces"),
        (framed([3])[:20] + b"\x01" + framed([3])[21:], "the properties do not fill their content header"),
        (make_content(Properties(expiration="soon"), b"x"), "invalid expiration 'soon'"),
        (make_content(Properties(reply_to="amq.rabbitmq.reply-to"), b"x"), "fast reply consumer does not exist"),
    ],
)
def test_malformed_content_is_refused_with_its_fault(content: bytes, rule: str) -> None:
    with pytest.raises(PreconditionFailed, match=rule):
        checked(content)


@settings(max_examples=examples(400))
@given(st.data())
def test_damaged_content_is_refused_or_read_in_its_bounds(data: st.DataObject) -> None:
    content = bytearray(framed(data.draw(st.sampled_from([[], [3], [2000, 7], [5, 5]])), **FULL.as_dict()))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(1, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(1, len(content)))])
    with suppress(PreconditionFailed):
        found = checked(cut)
        assert found.charge == FORMAT.charge(found.content)
        assert len(FORMAT.body(found.content)) == found.limited_bytes
