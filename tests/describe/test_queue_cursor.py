"""Cursors as plain data: lag, reader, and the producers that wait."""

from __future__ import annotations

import json

import pytest

from penstock.content.properties import Properties
from penstock.core.message import Envelope
from penstock.describe.metrics import Selection
from penstock.describe.queue import CURSORS, QUEUES_SHOWN, blocked_rows, cursor_row
from penstock.protocols.amqp091.content_frames import make_content
from tests.ranges.test_refused_attach import Desk
from tests.support.metrics import samples_of, scraped


def test_view_has_lag_reader_and_counters() -> None:
    desk = Desk()
    token = desk.ask("cursor.attach", {"cursor": "c", "queues": ["a", "b"]})["token"]
    desk.ask("cursor.plan", {"cursor": "c", "token": token, "start": {}, "rows": 6})
    block = {"cursor": "c", "token": token, "queue": "a", "lo": 0, "hi": 3, "query": "q-1"}
    content = make_content(Properties(reply_to="answers"), json.dumps(block).encode())
    desk.driver.control.request(desk.vhost, desk.connection, "cursor.range", content)
    desk.ask("cursor.settle", {"cursor": "c", "token": token, "end": {"a": 3}})
    view = cursor_row(desk.vhost.cursors["c"], desk.driver)
    assert view["lag"] == {"messages": 17, "bytes": 170, "oldest_s": 0.0}
    assert view["reader"] == {"connection": desk.connection.name(), "open": True, "query": "q-1"}
    assert view["read"] == {"plans": 1, "blocks": 1, "messages": 3}
    first = view["queues"][0]
    assert (first["queue"], first["settled"], first["planned"], first["tail"]) == ("a", 3, 3, 10)
    assert first["lag"] == {"messages": 7, "bytes": 70, "oldest_s": 0.0}
    assert (first["holds_back"], first["gate_open"], first["blocked"]) == (True, True, 0)
    desk.driver.connections.clear()
    reader = cursor_row(desk.vhost.cursors["c"], desk.driver)["reader"]
    assert reader == {"connection": desk.connection.name(), "open": False, "query": "q-1"}


def test_cursor_of_very_many_queues_shows_the_first_and_counts_all() -> None:
    desk = Desk()
    names = [f"many-{number}" for number in range(QUEUES_SHOWN + 5)]
    for name in names:
        desk.vhost.declare_queue(name, {}, False, False, None, None).enqueue(Envelope("", name), b"", 10, 0.0)
    desk.ask("cursor.attach", {"cursor": "c", "queues": names})
    view = cursor_row(desk.vhost.cursors["c"], desk.driver)
    assert len(view["queues"]) == QUEUES_SHOWN
    assert (view["more_queues"], view["lag"]["messages"]) == (5, QUEUES_SHOWN + 5)


def test_nobody_waits_where_nobody_is_blocked() -> None:
    desk = Desk()
    desk.ask("cursor.attach", {"cursor": "c", "queues": ["a"]})
    assert blocked_rows(desk.vhost.cursors["c"], desk.driver.broker.now) == []


@pytest.mark.parametrize(
    ("messages", "beyond"),
    [(9, True), (10, False)],
)
def test_limit_of_lag_is_shown_with_its_state(messages: int, beyond: bool) -> None:
    desk = Desk()
    settings = {"cursor-max-lag-messages": messages, "cursor-max-lag-policy": "tell"}
    queue = desk.vhost.declare_queue("limited", settings, False, False, None, None)
    for _ in range(10):
        queue.enqueue(Envelope("", "limited"), b"", 10, 0.0)
    desk.ask("cursor.attach", {"cursor": "c", "queues": ["a", "limited"]})
    first, second = cursor_row(desk.vhost.cursors["c"], desk.driver)["queues"]
    assert first["max_lag"] is None
    assert second["max_lag"] == {
        "messages": messages, "bytes": None, "age_s": None, "policy": "tell", "beyond": beyond,
    }  # fmt: skip


def test_lag_of_a_cursor_is_told_by_queue() -> None:
    desk = Desk()
    token = desk.ask("cursor.attach", {"cursor": "c", "queues": ["a", "b"]})["token"]
    desk.ask("cursor.plan", {"cursor": "c", "token": token, "start": {}, "rows": 6})
    desk.ask("cursor.settle", {"cursor": "c", "token": token, "end": {"a": 3}})
    found = samples_of(scraped(desk.driver, Selection(100, frozenset([CURSORS]))))
    of_a = ("cursor=c", "queue=a", "vhost=/")
    assert found[("penstock_cursor_lag_messages", *of_a)] == 7
    assert found[("penstock_cursor_lag_bytes", *of_a)] == 70
    assert found[("penstock_cursor_lag_seconds", *of_a)] == 0
    assert found[("penstock_cursor_unsettled_messages", *of_a)] == 7
    assert found[("penstock_cursor_holds_back", *of_a)] == 1
    assert found[("penstock_cursor_lag_messages", "cursor=c", "queue=b", "vhost=/")] == 10


def test_cursors_beyond_the_limit_are_counted() -> None:
    desk = Desk()
    desk.ask("cursor.attach", {"cursor": "c", "queues": ["a", "b"]})
    found = samples_of(scraped(desk.driver, Selection(1, frozenset([CURSORS]))))
    assert found[("penstock_metrics_objects_omitted", "kind=cursor")] == 1
