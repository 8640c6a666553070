"""Fields of control requests: read by type, or refused by name."""

from __future__ import annotations

import re

import pytest

from penstock.connections.control_request import ControlRequest
from penstock.errors import PreconditionFailed
from tests.support.broker_fixture import House


def request(body: bytes) -> ControlRequest:
    return ControlRequest(House().vhost, None, None, None, body)


@pytest.mark.parametrize("body", [b"[]", b"{", b"1", b"[" * 100_000])
def test_control_request_is_a_json_object(body: bytes) -> None:
    with pytest.raises(PreconditionFailed, match="the body of a control request must be a JSON object"):
        request(body)


def test_control_request_reads_fields_of_each_kind() -> None:
    found = request(b'{"name": "a", "count": 5, "queues": ["a", "b"], "from": {"a": 7}}')
    assert (found.text("name"), found.number("count"), found.names("queues")) == ("a", 5, ["a", "b"])
    assert (found.amount("count", 1), found.amount("absent", 1)) == (5, 1)
    assert found.offsets("from") == {"a": 7}
    assert found.offsets("absent") == {}
    assert found.asker() == "a request"


def test_control_request_reads_times_and_sizes_with_their_units() -> None:
    found = request(b'{"wait_ms": "30s", "bare": 250, "bytes": "4MiB"}')
    assert (found.milliseconds("wait_ms", 1), found.milliseconds("bare", 1), found.milliseconds("absent", 1)) == (
        30_000, 250, 1,
    )  # fmt: skip
    assert (found.size("bytes", 1), found.size("bare", 1), found.size("absent", 1)) == (4 << 20, 250, 1)
    soon = request(b'{"x": "soon"}')
    for act, said in ((soon.milliseconds, "milliseconds from 0 (such as 30min)"), (soon.size, "bytes from 0 (such")):
        with pytest.raises(PreconditionFailed, match=re.escape(f"'x' must be {said}")):
            act("x", 1)


def test_control_request_without_a_body_has_no_fields() -> None:
    assert request(b"").fields == {}


def test_control_request_starts_each_queue_at_the_given_position_or_the_earliest() -> None:
    found = request(b'{"start": {"a": 7}, "end": "latest"}')
    assert found.starting("start", ["a", "b"]) == {"a": 7, "b": "earliest"}
    assert found.starting("end", ["a", "b"]) == {"a": "latest", "b": "latest"}
    assert found.starting("absent", ["a"]) == {"a": "earliest"}


@pytest.mark.parametrize(
    ("body", "act", "said"),
    [
        (b'{"x": 5}', "text", "'x' must be a string, not 5"),
        (b"{}", "text", "'x' must be a string, not null"),
        (b'{"x": -1}', "number", "'x' must be a whole number from 0, not -1"),
        (b'{"x": true}', "number", "'x' must be a whole number from 0, not true"),
        (b'{"x": []}', "names", "'x' must be a list of at least one string"),
        (b'{"x": ["a", "a"]}', "names", "'x' must be a list of different strings, not ['a', 'a']"),
        (b'{"x": "\\ud800"}', "text", "'x' must be a string without halves of characters (lone surrogates), not"),
        (b'{"x": 1}', "flag", "'x' must be true or false, not 1"),
        (
            b'{"x": 1000000000000000000000000000000}',
            "number",
            "'x' must be a whole number from 0 to 4611686018427387903",
        ),
        (b'{"x": NaN}', "number", "'x' must be a whole number from 0, not NaN"),
        (b'{"x": 5}', "table", "'x' must be an object, not 5"),
        (b'{"x": {"a": "b"}}', "offsets", "'x.a' must be a whole number from 0, not 'b'"),
    ],
)
def test_control_request_refuses_a_field_by_name_and_value(body: bytes, act: str, said: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        getattr(request(body), act)("x")
    assert said in str(refused.value)
