"""Limits of cursors: a lag that is logged once, the rest of a detached cursor, and expiry without a reader."""

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
from tests.support.control_requests import known_to, request
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.longest_turn import LongestTurn


class Desk:
    """A driver with a queue, and readers that are behind."""

    def __init__(self, **settings: object) -> None:
        self.driver = make_driver(now=1000.0)
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
        holder = known_to(operation, cursor=cursor, token=found.token if found else 1)
        self.client.say(request(operation, **holder, **fields))
        return self.answer()

    def answer(self) -> Any:
        answers = self.vhost.queues["answers"]
        found = [json.loads(body_of(message.content)) for message in answers.ready_queue.messages()]
        answers.purge(0.0)
        return found[-1] if found else None

    def hang_up(self) -> None:
        """End the connection of the reader, and open another one."""
        self.driver.disconnect(self.client.connection)
        self.client = Dialogue(self.driver)

    def look(self, seconds: float = LOOK_S) -> list[str]:
        """Let time pass; returns what was logged about cursors."""
        self.now += seconds
        self.driver.begin(self.now)
        self.driver.run_turn()
        lines = [line.text for line in self.driver.log_queue.take()]
        return [line.partition("PST-102")[2] for line in lines if "PST-102" in line]


def test_cursor_behind_the_limit_is_logged_once() -> None:
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
def test_bytes_and_age_are_limits_too_and_a_later_limit_counts(limit: dict[str, object], clause: str) -> None:
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


def test_plan_that_waits_is_refused_when_the_cursor_is_detached() -> None:
    desk = Desk(cursor_max_lag_messages=10, cursor_max_lag_policy="detach")
    desk.ask("cursor.attach", queues=["q"])
    desk.put(20)
    assert desk.ask("cursor.plan", start={"q": 20}, wait_ms=60_000) is None
    desk.look()
    assert "was detached" in desk.answer()["text"]


def test_detached_cursor_drops_no_message_that_other_cursors_read() -> None:
    desk = Desk(cursor_max_lag_messages=10, cursor_max_lag_policy="detach")
    for name in ("slow", "fast"):
        desk.ask("cursor.attach", name, queues=["q"])
    desk.put(20)
    desk.ask("cursor.settle", "fast", end={"q": 15})
    desk.look()
    assert (list(desk.vhost.cursors), desk.queue.messages) == (["fast"], 5)
    assert desk.ask("cursor.plan", "fast")["messages"] == {"q": 5}


def test_detached_cursor_leaves_the_messages_to_consumers() -> None:
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


EXPIRED = "4 : Cursor Expired c of user guest : nobody was attached for {} s, beyond cursor-expires=60"


def test_cursor_without_a_reader_expires_and_the_messages_stay() -> None:
    desk = Desk(cursor_expires=60)
    desk.ask("cursor.attach", queues=["q"])
    desk.put(50)
    assert desk.ask("cursor.plan", rows=20)["rows"] == 20
    desk.hang_up()
    assert desk.look(59) == []
    assert desk.look(1) == [EXPIRED.format(60)]
    assert (list(desk.vhost.cursors), desk.queue.messages, desk.queue.cursors) == ([], 50, [])
    session = Session()
    desk.broker.consume(session, Consumer("t", session, desk.queue, True, False, 0))
    desk.look()
    assert desk.queue.messages == 0, "a consumer gets what the cursor had planned, too"


def test_cursor_with_a_connected_reader_never_expires() -> None:
    desk = Desk(cursor_expires=60)
    desk.ask("cursor.attach", queues=["q"])
    for _ in range(5):
        assert desk.look(100) == []
    desk.hang_up()
    assert desk.look(59) == []
    desk.ask("cursor.attach", queues=["q"])
    assert desk.look(59) == []
    desk.hang_up()
    assert [desk.look(each) for each in (59, 1)] == [[], [EXPIRED.format(60)]]


def test_expired_cursor_lets_other_cursors_and_the_producers_continue() -> None:
    desk = Desk(cursor_expires=60)
    for name in ("c", "live"):
        desk.ask("cursor.attach", name, queues=["q"], takeover=True)
    desk.put(50)
    desk.ask("cursor.settle", "live", end={"q": 50})
    assert (desk.queue.gate.open, desk.queue.messages) == (False, 50)
    desk.hang_up()
    desk.ask("cursor.attach", "live", queues=["q"])
    assert desk.look(60) == [EXPIRED.format(60)]
    desk.look(0)
    assert (list(desk.vhost.cursors), desk.queue.messages, desk.queue.gate.open) == (["live"], 0, True)


def test_expiry_set_later_or_shortened_applies_to_an_idle_cursor() -> None:
    desk = Desk()
    desk.ask("cursor.attach", queues=["q"])
    desk.hang_up()
    assert desk.look(1000) == []
    desk.set(cursor_expires=3600)
    assert [desk.look(0), desk.look(10)] == [[], []]
    desk.set(cursor_expires=60)
    desk.look(0)
    assert desk.look() == [EXPIRED.format("1,011")]


def test_cursor_of_several_queues_expires_by_the_least_time() -> None:
    desk = Desk()
    desk.vhost.declare_queue("other", {"cursor-expires": 60}, False, False, None, None)
    desk.vhost.declare_queue("third", {"cursor-expires": 5}, False, False, None, None)
    desk.ask("cursor.attach", queues=["q", "other"])
    shown = desk.ask("cursor.show")
    assert (shown["user"], shown["idle_s"], shown["expires_in_s"]) == ("guest", None, 60)
    desk.hang_up()
    desk.look(20)
    shown = desk.ask("cursor.show")
    assert (shown["idle_s"], shown["expires_in_s"]) == (20, 40)
    assert desk.look(40) == [EXPIRED.format(60)]
    assert desk.queue.cursors == []


def test_cursor_made_by_an_operator_expires_if_no_reader_comes() -> None:
    desk = Desk(cursor_expires=60)
    desk.ask("cursor.attach", queues=["q"], create=True)
    assert desk.look(59) == []
    assert desk.look(1) == [EXPIRED.format(60)]


def test_reader_of_an_expired_cursor_learns_the_reason() -> None:
    desk = Desk(cursor_expires=60)
    desk.ask("cursor.attach", queues=["q"])
    desk.hang_up()
    desk.look(60)
    reason = (
        "cursor 'c' has expired: nobody was attached for 60 s, beyond cursor-expires=60, in queue 'q'; what only it "
        "had not settled stays in its queues, without a position"
    )
    assert desk.ask("cursor.plan")["text"] == f"{reason}. Attach it again to begin anew"
    assert desk.ask("cursor.attach", queues=["q"], dry_run=True)["ended"] == reason
    assert desk.ask("cursor.attach", "other", queues=["q"], dry_run=True)["ended"] is None
    assert desk.ask("cursor.attach", queues=["q"])["created"]
    assert desk.ask("cursor.attach", queues=["q"], dry_run=True)["ended"] is None


def test_lease_is_no_cursor_that_expires() -> None:
    desk = Desk(cursor_expires=5)
    desk.ask("cursor.attach", queues=["q"])
    desk.put(3)
    assert desk.ask("lease.open", queues=["q"], timeout_ms=600_000)["lease"]
    desk.hang_up()
    assert len(desk.look(5)) == 1
    assert len(desk.queue.cursors) == 1
    for _ in range(3):
        assert desk.look(100) == []
    desk.ask("cursor.attach", queues=["q"])
    desk.hang_up()
    assert [line for _ in range(6) for line in desk.look()] != [], "a watch that had only a lease looks on"
