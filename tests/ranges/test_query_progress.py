"""`query.progress`: the cursors of a query, and one record a second."""

from __future__ import annotations

import json

import pytest

from penstock.content.properties import Properties
from penstock.management.flow_log_records import Recorder
from penstock.protocols.amqp091.content_frames import make_content
from penstock.ranges.cursor_requests import QUERY_LETTERS
from tests.ranges.test_refused_attach import Desk, Fields


@pytest.fixture
def desk() -> Desk:
    """A desk where the query q-1 has read and settled 4 of 20 messages."""
    desk = Desk()
    desk.driver.recorder = Recorder(desk.driver.broker)
    token = desk.ask("cursor.attach", {"cursor": "c", "queues": ["a", "b"]})["token"]
    block = {"cursor": "c", "token": token, "queue": "a", "lo": 0, "hi": 4, "query": "q-1"}
    content = make_content(Properties(reply_to="answers"), json.dumps(block).encode())
    desk.driver.control.request(desk.vhost, desk.connection, "cursor.range", content)
    desk.ask("cursor.settle", {"cursor": "c", "token": token, "end": {"a": 4}})
    return desk


def recorded(desk: Desk) -> list[dict[str, object]]:
    desk.driver.recorder.tick()
    return [record for record in desk.driver.recorder.take() if record["event"] == "query"]


def test_query_progress_has_the_cursors_of_the_query_for_any_user(desk: Desk) -> None:
    desk.connection.user = "reader"
    answer = desk.ask("query.progress", {"query": "q-1", "batch": 3, "rows": 4})
    (cursor,) = answer["cursors"]  # type: ignore[misc]
    assert (cursor["name"], cursor["lag"]["messages"]) == ("c", 16)
    assert desk.ask("query.progress", {"query": "q-2"}) == {"query": "q-2", "cursors": [], "more_cursors": 0}


def test_record_is_the_last_of_a_second_and_names_the_queue_that_lags_most(desk: Desk) -> None:
    for batch in range(50):
        desk.ask("query.progress", {"query": "q-1", "batch": batch, "rows": 4, "batch_ms": 250})
    desk.ask("query.progress", {"query": "q-2", "batch": 1})
    (record,) = recorded(desk)
    assert (record["query"], record["consumer"], record["queue"], record["batch"]) == ("q-1", "cursor(c)", "b", 49)
    assert (record["lag_messages"], record["lag_bytes"], record["rows"], record["batch_ms"]) == (16, 160, 4, 250)
    assert recorded(desk) == []


@pytest.mark.parametrize(
    "fields",
    [{}, {"query": ""}, {"query": "x" * (QUERY_LETTERS + 1)}, {"query": 5}, {"query": "q-1", "rows": -1},
     {"query": "q-1", "batch": 1 << 62}, {"query": "q-1", "batch_ms": "x"}],
)  # fmt: skip
def test_invalid_request_is_refused_and_not_recorded(desk: Desk, fields: Fields) -> None:
    assert desk.ask("query.progress", fields)["code"] == 406
    assert recorded(desk) == []
