"""Contents of AMQP 0-9-1: headers of dead letters, with all other bytes unchanged.

Also: rows of blocks as contents, compared with properties that are encoded one by one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.properties import Properties
from penstock.core.deaths import DEATHS_KEPT, DeathRecord
from penstock.core.message_format import UnreadableContent
from penstock.errors import PreconditionFailed
from penstock.flow.level import OVERHEAD
from penstock.protocols.amqp091.content_frames import (
    FRAME_PAYLOAD_MAX,
    body_of,
    header_end,
    header_payload,
    make_content,
    properties_of,
)
from penstock.protocols.amqp091.message_format import (
    COPIED_OCTETS,
    Amqp091Format,
    Amqp091RowEncoder,
    HeaderRewriter,
    payload_of,
    properties_in,
)
from penstock.ranges.incoming_block import IncomingBlock
from penstock.wire.amqp091.codec import encode_table
from penstock.wire.amqp091.content_header import FLAGS_AT, decode_properties, property_flags
from tests.profiles import examples
from tests.support.block_encoder import encode_published
from tests.support.dead_letters import died
from tests.wire.amqp091.test_content_header import properties

ALL_BUT_HEADERS_AND_EXPIRATION = (
    *("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "message_id"),
    *("timestamp", "type", "user_id", "app_id", "cluster_id"),
)


@pytest.fixture(scope="module")
def writer() -> Amqp091Format:
    return Amqp091Format()


def written(writer: Amqp091Format, content: bytes, death: DeathRecord) -> bytes:
    found = writer.with_death(content, death)
    assert found is not None
    return found


@settings(max_examples=examples(300), derandomize=True, database=None)
@given(properties(), st.binary(max_size=300))
def test_dead_letter_keeps_the_body_and_unrelated_properties(made: Properties, body: bytes) -> None:
    writer = Amqp091Format()
    letter = written(writer, make_content(made, body), died("q"))
    assert body_of(letter) == body
    size, found = decode_properties(header_payload(letter))
    assert size == len(body)
    before = decode_properties(header_payload(make_content(made, body)))[1]
    headers = found.headers or {}
    (entry,) = headers["x-death"]  # type: ignore[misc]
    assert entry.get("original-expiration") == before.expiration  # type: ignore[attr-defined]
    assert found.expiration is None
    for name in ALL_BUT_HEADERS_AND_EXPIRATION:
        assert getattr(found, name) == getattr(before, name), name
    for name, value in (before.headers or {}).items():
        assert headers[name] == value


def test_death_entry_exists_per_queue_and_reason_with_the_last_death_first(writer: Amqp091Format) -> None:
    content = make_content(Properties(), b"")
    for queue, reason in (("a", "rejected"), ("b", "expired"), ("a", "rejected"), ("a", "maxlen")):
        content = written(writer, content, died(queue, reason))
    assert writer.deaths(content) == [("a", "maxlen"), ("a", "rejected"), ("b", "expired")]
    headers = properties_of(content).headers
    deaths = headers["x-death"]
    assert isinstance(deaths, list)
    assert [entry["count"] for entry in deaths] == [1, 2, 1]
    assert all(entry["time"].tzinfo is not None or isinstance(entry["time"], datetime) for entry in deaths)
    assert headers["x-first-death-reason"] == "rejected"
    assert headers["x-last-death-reason"] == "maxlen"


def test_death_time_is_that_of_the_wall_clock(writer: Amqp091Format) -> None:
    headers = properties_of(written(writer, make_content(Properties(), b""), died("q"))).headers
    (entry,) = headers["x-death"]  # type: ignore[misc]
    expected = datetime.fromtimestamp(5, UTC)
    assert entry["time"].replace(tzinfo=UTC) == expected  # type: ignore[attr-defined]


def test_deaths_are_bounded_and_the_oldest_is_left_out(writer: Amqp091Format) -> None:
    content = make_content(Properties(), b"")
    for number in range(DEATHS_KEPT + 5):
        content = written(writer, content, died(f"q{number}"))
    found = writer.deaths(content)
    assert len(found) == DEATHS_KEPT
    assert found[0] == (f"q{DEATHS_KEPT + 4}", "rejected")


@pytest.mark.parametrize("value", [5, "text", [], [5, "x"], {"a": 1}, [{"queue": 5}], [{"count": "many"}]])
def test_x_death_header_of_a_client_does_no_harm(writer: Amqp091Format, value: object) -> None:
    content = make_content(Properties(headers={"x-death": value}), b"body")
    letter = written(writer, content, died("q"))
    assert writer.deaths(letter)[0] == ("q", "rejected")
    assert body_of(letter) == b"body"


def test_entries_without_a_count_become_a_single_entry_with_the_number(writer: Amqp091Format) -> None:
    old = [{"queue": queue, "reason": "expired"} for queue in ("a", "a", "b", "a", "q", "q")]
    counted = {"queue": "c", "reason": "expired", "count": 7}
    content = make_content(Properties(headers={"x-death": [*old, counted]}), b"")
    headers = properties_of(written(writer, content, died("q", "expired"))).headers
    found = [(entry["queue"], entry["count"]) for entry in headers["x-death"]]  # type: ignore[attr-defined]
    assert found == [("q", 3), ("a", 3), ("b", 1), ("c", 7)]


def test_death_is_not_written_on_unreadable_headers(writer: Amqp091Format) -> None:
    content = bytearray(make_content(Properties(headers={"name": "value"}), b"body"))
    at = content.index(b"S", content.index(b"name"))
    content[at : at + 1] = b"?"
    assert writer.with_death(bytes(content), died("q")) is None
    assert writer.deaths(bytes(content)) == []
    assert writer.headers(bytes(content)) == {}


def test_header_that_would_outgrow_the_frame_is_left_unchanged(writer: Amqp091Format) -> None:
    headers: dict[str, object] = {"large": "x" * 130_900}
    assert len(encode_table(headers)) < 131_000
    assert writer.with_death(make_content(Properties(headers=headers), b""), died("q")) is None


def test_charge_is_flags_properties_and_body_without_frames(writer: Amqp091Format) -> None:
    body = b"x" * 200_000
    content = writer.encode(Properties(content_type="text"), body)
    assert writer.charge(content) == 2 + 5 + len(body)
    assert writer.body_bytes(content) == len(body)
    assert writer.body(content) == body


def test_properties_are_read_and_absence_is_detected_cheaply(writer: Amqp091Format) -> None:
    made = Properties(message_id="1", headers={"a": 1})
    assert writer.properties(writer.encode(made, b"")) == made
    assert writer.present(writer.encode(made, b""))
    assert writer.present(writer.encode(Properties(), b"body")) == 0


def test_content_with_a_non_text_property_is_unreadable(writer: Amqp091Format) -> None:
    content = writer.encode(Properties(message_id="ab"), b"body").replace(b"\x02ab", b"\x02a\xff")
    with pytest.raises(UnreadableContent, match="a short string is not UTF-8"):
        writer.properties(content)
    assert writer.headers(content) == {}
    assert writer.body(content) == b"body"


@pytest.mark.parametrize("made", [Properties(message_id="x" * 256), Properties(headers={"large": "x" * 131_072})])
def test_properties_that_do_not_fit_are_refused(writer: Amqp091Format, made: Properties) -> None:
    with pytest.raises(PreconditionFailed, match="the properties cannot be sent"):
        writer.encode(made, b"")


def test_headers_are_added_and_the_rest_stays(writer: Amqp091Format) -> None:
    made = Properties(message_id="1", headers={"a": 1})
    counted = writer.with_headers(writer.encode(made, b"body"), {"x-delivery-count": 3})
    assert counted is not None
    assert writer.properties(counted) == Properties(message_id="1", headers={"a": 1, "x-delivery-count": 3})
    assert writer.body(counted) == b"body"


@settings(max_examples=examples(200), derandomize=True, database=None)
@given(properties())
def test_header_split_and_joined_has_the_same_bytes(made: Properties) -> None:
    payload = header_payload(make_content(made, b"body"))
    assert payload_of(payload, properties_in(payload)) == payload


def test_headers_are_added_replaced_and_removed_without_changing_the_rest() -> None:
    content = make_content(Properties(message_id="m", headers={"a": 1, "b": "x", "c": 2.5}), b"body")
    header = HeaderRewriter(content)
    kept = header.headers["c"]
    del header.headers["a"]
    written = header.written({"b": "y", "d": [1, {"e": True}]})
    assert properties_of(written) == Properties(message_id="m", headers={"c": 2.5, "b": "y", "d": [1, {"e": True}]})
    assert kept in written
    assert written.endswith(content[-12:])


def test_header_that_would_not_fit_into_a_frame_is_not_written() -> None:
    assert HeaderRewriter(make_content(Properties(), b"")).with_headers({"large": "x" * 131_072}) is None


FORMAT = Amqp091Format()
short = st.none() | st.text(max_size=20)
row = st.fixed_dictionaries(
    {"value": st.binary(max_size=50)},
    optional={
        **dict.fromkeys(
            (
                "message_id",
                "correlation_id",
                "reply_to",
                "content_type",
                "content_encoding",
                "type",
                "app_id",
                "user_id",
            ),
            short,
        ),
        "priority": st.none() | st.integers(0, 255),
        "delivery_mode": st.none() | st.integers(0, 255),
        "message_timestamp": st.none() | st.integers(-(2**63), 2**63 - 1),
        "headers": st.none() | st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=3),
        "headers_json": st.sampled_from([None, "{}", '{"a":[1,2.5,null,{"b":"c"}]}']),
    },
)


@settings(max_examples=examples(400))
@given(rows=st.lists(row, min_size=1, max_size=6))
def test_rows_are_encoded_as_properties_are(rows: list[dict[str, Any]]) -> None:
    block = IncomingBlock(encode_published(rows))
    encoder = Amqp091RowEncoder(block.columns)
    for at, given_row in enumerate(rows):
        content = encoder.encode(at)
        assert content == FORMAT.encode(block.columns.properties(at), given_row["value"])
        assert encoder.charge == FORMAT.charge(content) + OVERHEAD
        assert property_flags(content, FLAGS_AT, header_end(content) - 1) >= 0


@pytest.mark.parametrize(
    "size",
    [0, 1, COPIED_OCTETS, COPIED_OCTETS + 1, FRAME_PAYLOAD_MAX, FRAME_PAYLOAD_MAX + 1, 3 * FRAME_PAYLOAD_MAX + 5],
)
def test_bodies_of_all_sizes_are_framed(size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    block = IncomingBlock(encode_published([{"value": body[:size]}], {"delivery_mode": 2, "message_id": "m"}))
    content = Amqp091RowEncoder(block.columns).encode(0)
    assert content == FORMAT.encode(block.columns.properties(0), body[:size])


def test_properties_that_no_frame_holds_are_refused() -> None:
    rows = [{"value": b"", "headers": [("k", bytes(FRAME_PAYLOAD_MAX))]}]
    block = IncomingBlock(encode_published(rows))
    with pytest.raises(PreconditionFailed, match="row 0 has properties of"):
        Amqp091RowEncoder(block.columns).encode(0)
