"""Metrics of cursors: the lag of each on each of its queues."""

from __future__ import annotations

from penstock.management.metrics.cursor_families import CURSORS
from penstock.management.metrics.scrape import Selection
from tests.management.test_refused_attach import Desk
from tests.support.metrics import samples_of, scraped


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
