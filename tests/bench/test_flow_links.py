"""The scorecard of AMQP 1.0: what a cell counts, and that it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import penstock
from bench import brokers, loadgen
from bench.flow import links

CELL = links.Outcome("compiled", "8 x 50, 720 messages", 720, 720, 720, 0, 0, 0, 720)


def test_goal_is_met_by_what_is_sent_for_its_places_and_stays_there() -> None:
    assert CELL.met()
    assert not replace(CELL, sent=721).met()
    assert not replace(CELL, released=1).met()
    assert not replace(CELL, rejected=1).met()
    assert not replace(CELL, depth=721).met()
    assert "misses the goal" in replace(CELL, sent=721).words()


def test_links_to_a_bounded_queue_send_no_more_than_its_places(tmp_path: Path) -> None:
    form = brokers.COMPILED if penstock.compiled() else brokers.INTERPRETED
    try:
        loadgen.build(loadgen.AMQP1)
    except loadgen.LoadError as reason:
        pytest.skip(str(reason))
    broker = brokers.start_penstock(form, tmp_path)
    try:
        found = links.overshoot(broker, form, 8, 50, links.PLACES, 0.3)
    finally:
        broker.stop()
    assert found.met()
    assert found.depth == found.sent > 0
