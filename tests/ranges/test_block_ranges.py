"""Blocks of several ranges: as many as fit, in order, each with its end position."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.content.properties import Properties
from penstock.core.message import Envelope
from penstock.protocols.amqp091.content_frames import make_content
from penstock.ranges import blocks
from penstock.ranges.blocks import BLOCK_RANGES_MAX
from tests.support.control_requests import request
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.large_messages import persistent
from tests.support.piece_store import PieceStore

LARGE = bytes(1 << 20)


class Desk:
    """A driver with queues of numbered messages, a cursor that reads them, and a client that asks for blocks."""

    def __init__(self, **queues: int) -> None:
        self.driver = make_driver()
        self.store = PieceStore(self.driver.broker.large)
        self.vhost = self.driver.broker.vhosts["/"]
        for name in (*queues, "answers"):
            self.vhost.declare_queue(name, {}, False, False, None, None)
        for name, count in queues.items():
            self.put(name, count)
        self.client = Dialogue(self.driver)
        self.client.say(request("cursor.attach", cursor="c", queues=list(queues)))
        self.token = json.loads(self.answer()[1])["token"]

    def put(self, name: str, count: int) -> None:
        for _ in range(count):
            body = f"{name}{self.vhost.queues[name].tail + 1}".encode()
            self.vhost.queues[name].enqueue(Envelope("", name), make_content(Properties(), body), 100, 0.0)

    def answer(self) -> tuple[str, bytes]:
        """Take the answer: content type and body."""
        queue = self.vhost.queues["answers"]
        (message,) = queue.ready_queue.messages()
        of = self.driver.broker.formats.find(message.content)
        found = of.properties(message.content).content_type or "", of.body(message.content)
        queue.purge(0.0)
        return found

    def range(self, ranges: object, **fields: object) -> dict[str, Any]:
        """Ask for ranges; return the header of the block with its bodies, or the error."""
        asked = request("cursor.range", cursor="c", token=self.token, ranges=ranges, **fields)
        self.client.say(asked)
        self.store.write()
        while self.store.read():
            self.driver.run_turn()
        kind, body = self.answer()
        if kind != blocks.CONTENT_TYPE:
            found: dict[str, Any] = json.loads(body)
            return found
        head: dict[str, Any] = json.loads(body[8 : 8 + int.from_bytes(body[4:8], "little")])
        start, length = head["columns"]["value"]["data"]
        return {**head, "bodies": body[start : start + length]}


def test_block_has_the_ranges_of_several_queues_in_order() -> None:
    desk = Desk(a=3, b=2, c=4)
    found = desk.range([["c", 1, 3], ["a", 0, 3], ["b", 1, 2]])
    assert (found["rows"], found["bodies"]) == (6, b"c2c3a1a2a3b2")
    assert found["ranges"] == [["c", 2, 3], ["a", 3, 3], ["b", 1, 2]]
    assert "queue" not in found


def test_block_ends_within_a_range_at_the_limit_of_rows_or_bytes() -> None:
    desk = Desk(a=3, b=3, c=3)
    every = [["a", 0, 3], ["b", 0, 3], ["c", 0, 3]]
    assert desk.range(every, rows=5)["ranges"] == [["a", 3, 3], ["b", 2, 2]]
    assert desk.range(every, rows=3)["ranges"] == [["a", 3, 3]]
    assert desk.range(every, bytes=499)["ranges"] == [["a", 3, 3], ["b", 1, 1]]
    assert desk.range(every, bytes=350)["ranges"] == [["a", 3, 3]], "the next message does not fit"
    assert desk.range(every, bytes=0)["ranges"] == [["a", 1, 1]], "one message at least"


def test_block_ends_within_a_range_when_the_work_is_used_up() -> None:
    desk = Desk(a=1, b=1)
    for name in ("a", "b"):
        content = make_content(Properties(headers={"a": "x" * 60_000}), b"+")
        desk.vhost.queues[name].enqueue(Envelope("", name), content, 100, 0.0)
    ranges, columns = [["a", 0, 2], ["b", 0, 2]], ["value", "headers", "headers_json", "deaths"]
    assert desk.range(ranges, columns=["value"])["ranges"] == [["a", 2, 2], ["b", 2, 2]]
    assert desk.range(ranges, columns=columns)["ranges"] == [["a", 2, 2], ["b", 1, 1]]
    assert desk.range([["a", 1, 2], ["b", 1, 2]], columns=columns)["ranges"] == [["a", 1, 2]]


def test_range_without_messages_is_read_to_the_end() -> None:
    desk = Desk(a=2, b=2, c=0)
    desk.vhost.queues["a"].ready_queue.line.take_through(2, 2)  # Lost: transient messages of a restarted broker.
    found = desk.range([["a", 0, 2], ["b", 0, 2]])
    assert (found["ranges"], found["bodies"]) == ([["a", 0, 2], ["b", 2, 2]], b"b1b2")
    assert desk.range([["a", 0, 2], ["a", 0, 1]])["ranges"] == [["a", 0, 2], ["a", 0, 1]]


def test_gap_at_the_end_of_a_range_is_no_reason_to_ask_again() -> None:
    desk = Desk(a=2, b=2)
    found = desk.range([["a", 0, 9], ["b", 1, 2]])
    assert found["ranges"] == [["a", 2, 9], ["b", 1, 2]]


def test_range_with_a_large_message_has_a_separate_block() -> None:
    desk = Desk(a=2, b=0, c=2)
    desk.client.say(persistent("b", LARGE))
    desk.store.write()
    every = [["a", 0, 2], ["b", 0, 1], ["c", 0, 2]]
    assert desk.range(every)["ranges"] == [["a", 2, 2]]
    found = desk.range(every[1:])
    assert (found["ranges"], found["bodies"]) == ([["b", 1, 1]], LARGE)
    found = desk.range([["a", 5, 5], *every[1:]])
    assert found["ranges"] == [["a", 0, 5], ["b", 1, 1]], "ranges without messages before it are no reason to wait"


@pytest.mark.parametrize(
    "ranges",
    [[], {}, 7, [["a", 0]], [["a", 0, -1]], [["a", True, 2]], [[1, 0, 2]], ["a"], [["a", 0, 1 << 62]]],
)
def test_malformed_ranges_are_refused(ranges: object) -> None:
    found = Desk(a=1).range(ranges)
    assert (found["name"], "'ranges'" in found["text"]) == ("precondition-failed", True)


def test_number_of_ranges_is_bounded() -> None:
    desk = Desk(a=1)
    assert len(desk.range([["a", 0, 1]] * BLOCK_RANGES_MAX)["ranges"]) == BLOCK_RANGES_MAX
    assert "1 to 1,000 ranges" in desk.range([["a", 0, 1]] * (BLOCK_RANGES_MAX + 1))["text"]


def test_lease_has_a_single_range_per_block() -> None:
    assert "under a lease a block has one range" in Desk(a=1).range([["a", 0, 1]], lease=1)["text"]


def test_range_of_a_queue_that_the_cursor_does_not_read_is_refused() -> None:
    desk = Desk(a=1)
    desk.vhost.declare_queue("other", {}, False, False, None, None)
    assert desk.range([["a", 0, 1], ["other", 0, 1]])["name"] == "not-found"
