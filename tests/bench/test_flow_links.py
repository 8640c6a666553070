"""The scorecard of AMQP 1.0: what a cell counts, and that it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import penstock
from bench import brokers, loadgen
from bench.flow import links, stops

FORM = brokers.COMPILED if penstock.compiled() else brokers.INTERPRETED
STOPS = stops.Stops("compiled", "1 x 50, 720 places", 1000, 0, 97.0, 100.0, 0)
CELL = links.Outcome("compiled", "8 x 50, 720 messages", 720, 720, 720, 0, 0, 0, 720)


def test_goal_is_met_by_messages_within_their_places_only() -> None:
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


def test_stops_meet_the_goal_without_hangs_and_at_nearly_the_unlimited_rate() -> None:
    assert STOPS.met()
    assert not replace(STOPS, hangs=1).met()
    assert not replace(STOPS, failed=1).met()
    assert not replace(STOPS, rate=96.0).met()
    assert "(96%)   <- misses the goal" in replace(STOPS, rate=96.0).words()


def test_links_that_stop_again_and_again_all_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        loadgen.build(loadgen.AMQP1)
    except loadgen.LoadError as reason:
        pytest.skip(str(reason))
    monkeypatch.setattr(stops, "RUNS_MAX", 2)
    broker = brokers.start_penstock(FORM, tmp_path)
    try:
        found = stops.stops(broker, FORM, 4, 10_000, ("--argument", "capacity-messages=120"), "120 places", 0.2)
    finally:
        broker.stop()
    assert (found.hangs, found.failed) == (0, 0)
    assert found.stops > 0
