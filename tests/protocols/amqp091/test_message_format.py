"""Contents of AMQP 0-9-1: what is written on dead letters, and that everything else of them stays as it was."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.death_headers import DEATHS_KEPT
from penstock.core.death_record import DeathRecord
from penstock.core.message_format import UnreadableContent
from penstock.errors import PreconditionFailed
from penstock.protocols.amqp091.content_frames import body_of, header_payload, make_content, properties_of
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.wire.amqp091.codec import Properties, decode_properties, encode_table
from tests.profiles import examples
from tests.wire.amqp091.test_content_header import properties

ALL_BUT_HEADERS_AND_EXPIRATION = (
    *("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to", "message_id"),
    *("timestamp", "type", "user_id", "app_id", "cluster_id"),
)


@pytest.fixture(scope="module")
def writer() -> Amqp091Format:
    return Amqp091Format()


def died(queue: str, reason: str = "rejected") -> DeathRecord:
    return DeathRecord(queue, reason, "in", "key", 5.0)


def written(writer: Amqp091Format, content: bytes, death: DeathRecord) -> bytes:
    found = writer.with_death(content, death)
    assert found is not None
    return found


@settings(max_examples=examples(300), derandomize=True, database=None)
@given(properties(), st.binary(max_size=300))
def test_everything_else_stays_as_its_publisher_sent_it(made: Properties, body: bytes) -> None:
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


def test_one_entry_for_each_queue_and_reason_the_last_one_first(writer: Amqp091Format) -> None:
    content = make_content(Properties(), b"")
    for queue, reason in (("a", "rejected"), ("b", "expired"), ("a", "rejected"), ("a", "maxlen")):
        content = written(writer, content, died(queue, reason))
    assert writer.deaths(content) == [("a", "maxlen"), ("a", "rejected"), ("b", "expired")]
    headers = properties_of(content).headers
    assert headers is not None
    deaths = headers["x-death"]
    assert isinstance(deaths, list)
    assert [entry["count"] for entry in deaths] == [1, 2, 1]
    assert all(entry["time"].tzinfo is not None or isinstance(entry["time"], datetime) for entry in deaths)
    assert headers["x-first-death-reason"] == "rejected"
    assert headers["x-last-death-reason"] == "maxlen"


def test_the_time_is_the_wall_clocks(writer: Amqp091Format) -> None:
    headers = properties_of(written(writer, make_content(Properties(), b""), died("q"))).headers
    assert headers is not None
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
def test_what_a_client_wrote_in_our_place_does_no_harm(writer: Amqp091Format, value: object) -> None:
    content = make_content(Properties(headers={"x-death": value}), b"body")
    letter = written(writer, content, died("q"))
    assert writer.deaths(letter)[0] == ("q", "rejected")
    assert body_of(letter) == b"body"


def test_entries_without_a_count_are_made_one_that_says_how_many_they_were(writer: Amqp091Format) -> None:
    old = [{"queue": queue, "reason": "expired"} for queue in ("a", "a", "b", "a", "q", "q")]
    counted = {"queue": "c", "reason": "expired", "count": 7}
    content = make_content(Properties(headers={"x-death": [*old, counted]}), b"")
    headers = properties_of(written(writer, content, died("q", "expired"))).headers
    assert headers is not None
    found = [(entry["queue"], entry["count"]) for entry in headers["x-death"]]  # type: ignore[attr-defined]
    assert found == [("q", 3), ("a", 3), ("b", 1), ("c", 7)]


def test_on_headers_that_cannot_be_read_nothing_is_written(writer: Amqp091Format) -> None:
    content = bytearray(make_content(Properties(headers={"name": "value"}), b"body"))
    at = content.index(b"S", content.index(b"name"))
    content[at : at + 1] = b"?"
    assert writer.with_death(bytes(content), died("q")) is None
    assert writer.deaths(bytes(content)) == []
    assert writer.headers(bytes(content)) == {}


def test_a_header_that_would_outgrow_its_frame_is_left_alone(writer: Amqp091Format) -> None:
    headers: dict[str, object] = {"large": "x" * 130_900}
    assert len(encode_table(headers)) < 131_000
    assert writer.with_death(make_content(Properties(headers=headers), b""), died("q")) is None


def test_charge_is_flags_properties_and_body_without_frames(writer: Amqp091Format) -> None:
    body = b"x" * 200_000
    content = writer.encode(Properties(content_type="text"), body)
    assert writer.charge(content) == 2 + 5 + len(body)
    assert writer.body_bytes(content) == len(body)
    assert writer.body(content) == body


def test_properties_are_read_and_their_absence_is_cheap_to_see(writer: Amqp091Format) -> None:
    made = Properties(message_id="1", headers={"a": 1})
    assert writer.properties(writer.encode(made, b"")) == made
    assert writer.present(writer.encode(made, b""))
    assert writer.present(writer.encode(Properties(), b"body")) == 0


def test_content_with_a_property_that_is_no_text_is_unreadable(writer: Amqp091Format) -> None:
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
