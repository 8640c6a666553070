"""JSON lines of any size and any cut: messages in order, and the first wrong line by its number."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli import message_lines
from penstock.cli.message_lines import READ_BYTES, InvalidLine, MessageLines
from penstock.client.engine.messages import Message


def lines_of(data: bytes, buffer: int = 8192, **how: bool) -> MessageLines:
    source = io.BufferedReader(io.BytesIO(data), buffer)  # type: ignore[arg-type]
    given = {"persistent": False, "to_origin": False, "by_links": False, **how}
    return MessageLines(source, given["persistent"], given["to_origin"], given["by_links"])


def line(body: str, **more: object) -> bytes:
    return json.dumps({"payload": body, **more}).encode()


def read(lines: MessageLines) -> tuple[list[Message], str]:
    """Return the messages, and the error that ended the reading."""
    found: list[Message] = []
    try:
        for batch in lines.batches():
            found += batch
    except InvalidLine as error:
        return found, str(error)
    return found, ""


@given(st.lists(st.text(max_size=20), max_size=8), st.integers(1, 64), st.booleans(), st.booleans())
def test_lines_are_read_whatever_the_pieces(bodies: list[str], buffer: int, ends: bool, blank: bool) -> None:
    data = (b"\r\n\n" if blank else b"\n").join(line(body) for body in bodies) + (b"\n" if ends else b"")
    found, error = read(lines_of(data, buffer))
    assert ([message.body.decode() for message in found], error) == (bodies, "")


def test_line_longer_than_many_pieces_is_one_message() -> None:
    body = "x" * (3 * READ_BYTES + 7)
    found, error = read(lines_of(line(body) + b"\n" + line("y")))
    assert ([len(message.body) for message in found], error) == ([len(body), 1], "")


@pytest.mark.parametrize("cut", [1, 5, 14])
def test_file_that_is_cut_ends_at_its_last_whole_line(cut: int) -> None:
    data = b"\n".join([line("one"), b"", line("two"), line("three")])[:-cut]
    found, error = read(lines_of(data))
    assert [message.body for message in found] == [b"one", b"two"]
    assert error.startswith("line 4 cannot be published: the line is not JSON")


def test_line_without_an_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_lines, "LINE_MOST", READ_BYTES)
    found, error = read(lines_of(line("a") + b"\n" + b"x" * (3 * READ_BYTES)))
    assert [message.body for message in found] == [b"a"]
    assert error == f"line 2 cannot be published: the line has more than {READ_BYTES:,} bytes"


def test_header_that_the_protocol_lacks_is_refused_at_its_line() -> None:
    data = line("a", properties={"headers": {"price": {"$decimal": "1.5"}}})
    assert read(lines_of(data))[1] == ""
    found, error = read(lines_of(line("x") + b"\n" + data, by_links=True))
    assert len(found) == 1
    assert error.startswith("line 2 cannot be published: the header 'price' cannot be sent: a Decimal goes over AMQP")


def test_message_goes_to_its_origin_only_on_request() -> None:
    data = line("a", exchange="logs", routing_key="eu") + b"\n" + line("b")
    first, second = read(lines_of(data))[0]
    assert (first.exchange, first.routing_key, second.exchange) == (None, None, None)
    first, second = read(lines_of(data, to_origin=True))[0]
    assert (first.exchange, first.routing_key) == ("logs", "eu")
    assert (second.exchange, second.routing_key) == (None, None)


def test_persistent_is_the_default_of_lines_that_do_not_say() -> None:
    data = line("a", properties={"delivery_mode": 1}) + b"\n" + line("b")
    modes = [message.properties.delivery_mode for message in read(lines_of(data, persistent=True))[0]]
    assert modes == [1, 2]
    assert read(lines_of(data))[0][1].properties.delivery_mode is None


def test_messages_of_a_pipe_are_read_before_its_end(tmp_path: Path) -> None:
    import os

    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as target:
        target.write(line("a") + b"\n" + line("b") + b"\n" + b'{"payl')
        batches = MessageLines(source, False, False, False).batches()
        assert [message.body for message in next(batches)] == [b"a", b"b"]
        target.write(b'oad": "c"}\n')
        assert [message.body for message in next(batches)] == [b"c"]
