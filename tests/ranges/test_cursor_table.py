"""Limits of the lag of cursors: reported once, and the rest of a detached cursor."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.flow.work import SHARE
from penstock.protocols.amqp091.content_frames import body_of
from penstock.ranges.cursor_table import LOOK_S, LOOK_SHARE, LOOK_WORK
from tests.support import at_once
from tests.support.control_requests import request
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.longest_turn import LongestTurn


class Desk:
    """A driver with a queue, and readers that are behind."""

    def __init__(self, **settings: object) -> None:
        self.driver = make_driver()
        self.broker = self.driver.broker
        self.vhost = self.broker.vhosts["/"]
        for name in ("q", "answers"):
            self.vhost.declare_queue(name, {"capacity-messages": 50}, False, False, None, None)
        self.queue = self.vhost.queues["q"]
        self.now = self.broker.now
        self.client = Dialogue(self.driver)
        self.set(**settings)

    def set(self, **settings: object) -> None:
        given = {name.replace("_", "-"): value for name, value in settings.items()}
        if given:
            at_once.set_named(self.broker, "queue", "q", **given)

    def put(self, count: int) -> None:
        for _ in range(count):
            self.queue.enqueue(Envelope("", "q"), b"", 10, self.now)
        self.broker.schedule_delivery(self.queue)

    def ask(self, operation: str, cursor: str = "c", **fields: object) -> Any:
        found = self.vhost.cursors.get(cursor)
        self.client.say(request(operation, cursor=cursor, token=found.token if found else 1, **fields))
        return self.answer()

    def answer(self) -> Any:
        answers = self.vhost.queues["answers"]
        found = [json.loads(body_of(message.content)) for message in answers.ready_queue.messages()]
        answers.purge(0.0)
        return found[-1] if found else None

    def look(self, seconds: float = LOOK_S) -> list[str]:
        """Let time pass; returns what was logged about cursors."""
        self.now += seconds
        self.driver.begin(self.now)
        self.driver.run_turn()
        lines = [line.text for line in self.driver.log_queue.take()]
        return [line.partition("PST-102")[2] for line in lines if "PST-102" in line]


def test_cursor_that_is_behind_is_logged_once_while_it_stays_behind() -> None:
    desk = Desk(cursor_max_lag_messages=10)
    desk.ask("cursor.attach", queues=["q"])
    desk.put(10)
    assert desk.look() == []
    desk.put(1)
    assert desk.look() == ["0 : Cursor Behind c : 11 messages behind, beyond cursor-max-lag-messages=10"]
    assert desk.look() == []
    desk.ask("cursor.settle", end={"q": 5})
    assert desk.look() == []
    desk.put(10)
    assert len(desk.look()) == 1
    assert "c" in desk.vhost.cursors


@pytest.mark.parametrize(
    ("limit", "clause"),
    [
        ({"cursor_max_lag_bytes": 100}, "200 bytes behind, beyond cursor-max-lag-bytes=100"),
        ({"cursor_max_lag_age": 5}, "6 s behind, beyond cursor-max-lag-age=5"),
    ],
)
def test_bytes_and_age_are_limits_too_and_one_that_is_set_later_counts(limit: dict[str, object], clause: str) -> None:
    desk = Desk()
    desk.ask("cursor.attach", queues=["q"])
    desk.put(20)
    assert desk.look(4) == []
    desk.set(**limit)
    assert desk.look(0) == []
    assert [line for _ in range(2) for line in desk.look()] == [f"0 : Cursor Behind c : {clause}"]


def test_detached_cursor_is_deleted_and_producers_go_on() -> None:
    desk = Desk(cursor_max_lag_messages=40, cursor_max_lag_policy="detach")
    desk.ask("cursor.attach", queues=["q"])
    desk.put(50)
    assert not desk.queue.gate.open
    assert desk.look() == ["1 : Cursor Detached c : 50 messages behind, beyond cursor-max-lag-messages=40"]
    assert (desk.queue.messages, desk.queue.gate.open, list(desk.vhost.cursors)) == (0, True, [])
    refused = desk.ask("cursor.plan")
    assert refused["name"] == "precondition-failed"
    assert refused["text"] == (
        "cursor 'c' was detached: in queue 'q' it was 50 messages behind, beyond cursor-max-lag-messages=40, with "
        "cursor-max-lag-policy=detach; what only it had not settled was dropped. Attach it again to begin anew"
    )
    assert desk.look() == []
    attached = desk.ask("cursor.attach", queues=["q"])
    assert (attached["created"], attached["initial"]) == (True, {"q": 50})
    assert desk.ask("cursor.plan")["rows"] == 0


def test_plan_that_waits_is_refused_when_its_cursor_is_detached() -> None:
    desk = Desk(cursor_max_lag_messages=10, cursor_max_lag_policy="detach")
    desk.ask("cursor.attach", queues=["q"])
    desk.put(20)
    assert desk.ask("cursor.plan", start={"q": 20}, wait_ms=60_000) is None
    desk.look()
    assert "was detached" in desk.answer()["text"]


def test_detached_cursor_drops_nothing_that_others_read() -> None:
    desk = Desk(cursor_max_lag_messages=10, cursor_max_lag_policy="detach")
    for name in ("slow", "fast"):
        desk.ask("cursor.attach", name, queues=["q"])
    desk.put(20)
    desk.ask("cursor.settle", "fast", end={"q": 15})
    desk.look()
    assert (list(desk.vhost.cursors), desk.queue.messages) == (["fast"], 5)
    assert desk.ask("cursor.plan", "fast")["messages"] == {"q": 5}


def test_detached_cursor_leaves_its_messages_to_consumers() -> None:
    desk = Desk(cursor_max_lag_messages=10, cursor_max_lag_policy="detach")
    desk.ask("cursor.attach", queues=["q"])
    desk.put(20)
    assert desk.ask("cursor.plan")["rows"] == 20
    session = Session()
    desk.broker.consume(session, Consumer("t", session, desk.queue, True, False, 0))
    assert desk.queue.available() == 0
    desk.look()
    desk.look()
    assert (desk.queue.messages, desk.queue.settled) == (0, 20)


def test_very_many_cursors_of_a_queue_are_looked_at_in_slices() -> None:
    desk, count = Desk(cursor_max_lag_messages=10), 600
    for number in range(count):
        desk.ask("cursor.attach", f"c{number}", queues=["q"])
    desk.put(11)
    turns = LongestTurn(desk.driver)
    told = steps = 0
    while told < count and steps < count:
        steps += 1
        desk.now += LOOK_S if steps == 1 or steps > 20 else 0.002
        turns.turn(desk.now)
        desk.driver.log_queue.tick()
        for line in desk.driver.log_queue.take():
            if "PST-1020" in line.text:
                told += 1 + int(str(line.fields.get("more", 0)))
    assert told == count, "each line counts those that its limit has left out"
    assert steps >= count * LOOK_WORK // LOOK_SHARE
    assert turns.longest <= LOOK_SHARE + SHARE
