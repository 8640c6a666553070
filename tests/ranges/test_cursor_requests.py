"""Plans of cursors that wait for messages, and very many plans: their wake-ups and their share of a turn."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from penstock.core.effects import QueueChanged
from penstock.core.message import Envelope, Message
from penstock.core.queue.indexed_ready_queue import CHUNK, REACH_WORK
from penstock.core.queue.queue import Queue
from penstock.flow.work import AT_ONCE, SHARE
from tests.support import at_once
from tests.support.control_requests import answers, known_to, request
from tests.support.driven_connection import Dialogue, make_driver, publish

MOST_A_STEP = 300
"""Units by which the last step of a turn may pass the share."""


class Readers:
    """A driver with queues and one client that asks for cursors."""

    def __init__(self, *queues: str) -> None:
        self.driver = make_driver()
        self.vhost = self.driver.broker.vhosts["/"]
        for name in (*queues, "answers"):
            self.vhost.declare_queue(name, {}, False, False, None, None)
        self.client = Dialogue(self.driver)

    def queue(self, name: str) -> Queue:
        return self.vhost.queues[name]

    def put(self, name: str, count: int = 1) -> None:
        for _ in range(count):
            self.queue(name).enqueue(Envelope("", name), b"", 10, 0.0)
        self.driver.broker.schedule_delivery(self.queue(name))

    def ask(self, operation: str, cursor: str, **fields: object) -> list[Any]:
        """Ask; return the answers that came at once."""
        found = self.vhost.cursors.get(cursor)
        before = len(answers(self.driver))
        token = found.token if found is not None else 0
        self.client.say(request(operation, **known_to(operation, cursor=cursor, token=token), **fields))
        return answers(self.driver)[before:]

    def turn(self) -> list[Any]:
        """Give a turn; return the answers that came in it."""
        before = len(answers(self.driver))
        self.driver.run_turn()
        return answers(self.driver)[before:]


@pytest.fixture
def desk() -> Readers:
    return Readers("q")


def test_queue_change_is_a_single_effect_for_all_waiting_plans(desk: Readers) -> None:
    for number in range(20):
        desk.ask("cursor.attach", f"c{number}", queues=["q"])
        assert desk.ask("cursor.plan", f"c{number}", wait_ms=1000) == []
    desk.put("q")
    assert desk.driver.broker.next_batch() is None
    effects = desk.driver.broker.effects()
    assert [type(effect) for effect in effects] == [QueueChanged]
    desk.driver.control.ranges.look_again(desk.queue("q"))
    assert [answer["end"] for answer in answers(desk.driver)[20:]] == [{"q": 1}] * 20


def test_arrival_does_not_look_again_at_a_plan_that_can_go_no_further() -> None:
    desk = Readers("q", "r")
    desk.ask("cursor.attach", "c", queues=["q", "r"])
    desk.put("q", 3)
    assert desk.ask("cursor.plan", "c", start={"q": 2}, upto={"q": 2}, wait_ms=1000) == []
    done = int(desk.driver.broker.work.done)
    desk.put("q")
    desk.driver.control.ranges.look_again(desk.queue("q"))
    assert desk.driver.broker.work.done == done
    desk.put("r")
    assert [answer["end"] for answer in desk.turn()] == [{"q": 2, "r": 1}]


def test_plan_that_waits_is_answered_at_the_queues_deletion_or_the_timeout() -> None:
    desk = Readers("q", "r")
    for cursor, queue in (("c", "q"), ("d", "r")):
        desk.ask("cursor.attach", cursor, queues=[queue])
        assert desk.ask("cursor.plan", cursor, wait_ms=1000) == []
    desk.driver.broker.delete_queue(desk.queue("q"))
    assert ["was deleted" in answer["text"] for answer in desk.turn()] == [True]
    desk.driver.begin(desk.driver.broker.now + 2)
    assert [answer["end"] for answer in desk.turn()] == [{"r": 0}]


def test_plan_is_answered_again_and_again_by_arrivals(desk: Readers) -> None:
    desk.ask("cursor.attach", "c", queues=["q"])
    for number in range(5):
        assert desk.ask("cursor.plan", "c", start={"q": number}, wait_ms=1000) == []
        desk.put("q")
        assert [answer["end"] for answer in desk.turn()] == [{"q": number + 1}]


@pytest.mark.once
@pytest.mark.parametrize("operation", ["cursor.plan", "cursor.range"])
def test_first_look_at_very_many_messages_takes_a_share_a_turn(operation: str) -> None:
    count = 2 * SHARE // 10 * CHUNK
    desk = Readers("q")
    desk.put("q", count)
    desk.ask("cursor.attach", "c", queues=["q"])
    desk.driver.broker.delete_queue(desk.queue("answers"))
    fields = known_to(operation, start={"q": 0}, queue="q", lo=count - 1, hi=count)
    data = request(operation, cursor="c", token=1, **fields)
    desk.vhost.declare_queue("answers", {}, False, False, None, None)
    client = Dialogue(desk.driver)
    desk.driver.scheduler.begin_turn()
    desk.driver.scheduler.receive(client.connection, data)
    turns = 0
    while not desk.queue("answers").messages:
        assert client.connection.busy
        before = int(desk.driver.broker.work.done)
        desk.driver.run_turn()
        assert desk.driver.broker.work.done - before <= SHARE + MOST_A_STEP
        turns += 1
    assert turns >= 2
    if operation == "cursor.plan":
        assert answers(desk.driver)[0]["end"] == {"q": count}


class CountingDeque(deque[Message]):
    """The messages that are not in the index, with a count of those that were taken."""

    taken = 0

    def popleft(self) -> Message:
        self.taken += 1
        return super().popleft()


@pytest.mark.once
@pytest.mark.parametrize("operation", ["cursor.plan", "cursor.settle"])
def test_query_that_settles_very_many_messages_takes_a_share_a_turn(operation: str) -> None:
    """The index is not stored: after a restart the first request of a query settles what it planned before."""
    share = SHARE // REACH_WORK * CHUNK
    desk = Readers("q")
    desk.queue("q").ready_queue.ready = ready = CountingDeque()
    desk.put("q", 3 * share)
    desk.ask("cursor.attach", "slow", queues=["q"])
    desk.ask("cursor.attach", "c", queues=["q"])
    desk.ask("cursor.plan", "c", start={"q": 0}, rows=1)
    token, queue = desk.vhost.cursors["c"].token, desk.queue("answers")
    desk.client.say(request("cursor.range", cursor="c", token=token, queue="q", lo=0, hi=1, rows=1, query="etl"))
    assert ready.taken == CHUNK
    count = int(queue.messages)
    end = {"q": 3 * share}
    data = request(operation, cursor="c", token=token, **known_to(operation, settle=end, start=end, end=end))
    desk.driver.scheduler.begin_turn()
    desk.driver.scheduler.receive(desk.client.connection, data)
    turns = 0
    while queue.messages == count:
        before = ready.taken
        desk.driver.run_turn()
        assert ready.taken - before <= share + MOST_A_STEP // REACH_WORK * CHUNK
        turns += 1
    assert turns >= 3
    assert desk.vhost.cursors["c"].position("q").settled == 3 * share


def test_messages_settled_in_slices_are_a_single_settlement() -> None:
    many = 3 * int(AT_ONCE)
    desk = Readers("q")
    queue = desk.queue("q")
    desk.put("q", many)
    desk.ask("cursor.attach", "c", queues=["q"])
    desk.ask("cursor.plan", "c", start={"q": 0})
    token, now = desk.vhost.cursors["c"].token, desk.driver.broker.now
    desk.client.connection.receive(request("cursor.settle", cursor="c", token=token, end={"q": many}))
    assert queue.messages == many - AT_ONCE
    while queue.messages:
        now += 0.001
        desk.driver.begin(now)
        desk.driver.run_turn()
    assert queue.counters.settlements == 1


def test_plan_at_the_end_of_a_long_queue_indexes_no_message(desk: Readers) -> None:
    desk.queue("q").ready_queue.ready = ready = CountingDeque()
    desk.put("q", 10 * CHUNK)
    desk.ask("cursor.attach", "slow", queues=["q"])
    desk.ask("cursor.attach", "c", queues=["q"], starting="latest")
    end = {"q": 10 * CHUNK}
    (answer,) = desk.ask("cursor.plan", "c", start=end, least=1)
    assert (answer["end"], ready.taken) == (end, 0)


def test_plan_has_the_queues_of_the_subscription_alone() -> None:
    desk = Readers("q", "r", "s")
    for name in ("q", "r", "s"):
        desk.put(name, 3)
    desk.ask("cursor.attach", "c", queues=["q", "r"])
    (grown,) = desk.ask("cursor.attach", "c", queues=["r", "s"], starting={"s": "latest"}, holder=True, dry_run=True)
    assert (grown["created"], grown["new"]) == (False, ["s"])
    (grown,) = desk.ask("cursor.attach", "c", queues=["r", "s"], starting={"s": "latest"}, holder=True)
    assert (grown["token"], grown["initial"], grown["left"]) == (1, {"r": 0, "s": 3}, {"q": [0, 3]})
    (plan,) = desk.ask("cursor.plan", "c", settle={"q": 2})
    assert plan["end"] == {"r": 3, "s": 3}
    assert desk.queue("q").messages == 1, "a left queue can still be settled"
    (released,) = desk.ask("cursor.attach", "c", queues=["r", "s"], holder=True, release=True)
    assert released["left"] == {}
    assert desk.queue("q").cursors == []


def test_holder_that_was_fenced_off_does_not_change_the_subscription() -> None:
    desk = Readers("q", "r")
    for _ in range(2):
        desk.ask("cursor.attach", "c", queues=["q"])
    desk.client.say(request("cursor.attach", cursor="c", token=1, queues=["q", "r"], holder=True))
    assert answers(desk.driver)[-1]["name"] == "fenced"
    assert list(desk.vhost.cursors["c"].positions) == ["q"]


def test_attach_in_parts_is_a_single_subscription() -> None:
    desk = Readers("a", "b", "c", "d")
    for name in ("a", "b", "c", "d"):
        desk.put(name, 3)
    desk.ask("cursor.attach", "c", queues=["a", "d"])
    (dry,) = desk.ask("cursor.attach", "c", queues=["a", "b"], part="first", dry_run=True)
    assert (dry["new"], dry["left"], dry["positions"], dry["most"]) == (["b"], {}, 2, 10_000)
    (dry,) = desk.ask("cursor.attach", "c", queues=["c"], part="last", dry_run=True)
    assert (dry["new"], dry["left"]) == (["c"], {"a": [0, 3], "d": [0, 3]}), "all that this part does not name"
    (first,) = desk.ask("cursor.attach", "c", queues=["a"], part="first", release=True)
    assert (first["token"], first["left"]) == (2, {})
    (following,) = desk.ask("cursor.attach", "c", queues=["b"], part="next", holder=True, release=True)
    assert (following["token"], following["initial"], following["left"]) == (2, {"b": 0}, {})
    assert desk.queue("d").cursors != [], "what later parts may name is not released"
    (last,) = desk.ask("cursor.attach", "c", queues=["c"], part="last", holder=True)
    assert (last["token"], last["left"], last["positions"]) == (2, {"d": [0, 3]}, 4)
    (plan,) = desk.ask("cursor.plan", "c")
    assert plan["end"] == {"a": 3, "b": 3, "c": 3}
    desk.ask("cursor.attach", "c", queues=["c"], part="last", holder=True, release=True)
    assert desk.queue("d").cursors == []


def test_later_part_of_an_attach_drops_positions_on_deleted_queues() -> None:
    desk = Readers("a", "b", "c")
    desk.ask("cursor.attach", "c", queues=["a", "b"])
    desk.driver.broker.delete_queue(desk.queue("b"))
    (found,) = desk.ask("cursor.attach", "c", queues=[], partial=True, part="last", holder=True)
    assert (found["left"], found["positions"]) == ({}, 1)
    desk.vhost.declare_queue("b", {}, False, False, None, None)
    (found,) = desk.ask("cursor.attach", "c", queues=["b", "c"], part="last", holder=True)
    assert (found["generation"], found["positions"]) == ({"b": 1, "c": 1}, 3)


def test_part_of_an_attach_is_of_a_known_kind_and_of_the_holder(desk: Readers) -> None:
    assert "first, next or last, not 'other'" in desk.ask("cursor.attach", "c", queues=["q"], part="other")[0]["text"]
    for part in ("next", "last"):
        (refusal,) = desk.ask("cursor.attach", "c", queues=["q"], part=part)
        assert f"the {part} part of an attach needs 'holder'" in refusal["text"]
    assert desk.vhost.cursors == {}


def test_partial_attach_omits_and_reports_refused_queues(desk: Readers) -> None:
    desk.vhost.declare_queue("drops", {"x-max-length": 5}, False, False, None, None)
    (found,) = desk.ask("cursor.attach", "c", queues=["drops", "none", "q"], partial=True)
    assert found["initial"] == {"q": 0}
    assert "drop-head" in found["refused"]["drops"]
    assert "no queue 'none'" in found["refused"]["none"]
    (found,) = desk.ask("cursor.attach", "nothing", queues=[], partial=True)
    assert found["initial"] == {}
    assert desk.ask("cursor.plan", "nothing", wait_ms=1000) == []
    desk.driver.begin(desk.driver.broker.now + 2)
    assert [answer["end"] for answer in desk.turn()] == [{}]


def test_queue_names_come_with_a_count_of_changes(desk: Readers) -> None:
    desk.vhost.declare_queue("own", {}, False, True, desk.client.connection, None)
    desk.ask("cursor.attach", "c", queues=["q"])
    (before,) = desk.ask("cursor.queues", "c") or desk.turn()
    assert sorted(before["queues"]) == ["answers", "q"], "an exclusive queue is its owner's"
    assert desk.ask("cursor.plan", "c")[0]["epoch"] == before["epoch"]
    desk.vhost.declare_queue("r", {}, False, False, None, None)
    assert desk.ask("cursor.plan", "c")[0]["epoch"] != before["epoch"]


def test_attach_of_a_cursor_answers_the_limits_of_the_queues() -> None:
    desk = Readers()
    desk.vhost.declare_queue("q", {"capacity-messages": 9, "hold-deadline": 7}, False, False, None, None)
    (found,) = desk.ask("cursor.attach", "c", queues=["q"])
    assert (found["limits"]["q"]["messages"], found["limits"]["q"]["hold_s"]) == (9, 7.0)


def test_plan_waits_for_a_least_size_and_checks_again_when_enough_may_be_there() -> None:
    desk = Readers("q", "r")
    desk.ask("cursor.attach", "c", queues=["q", "r"])
    assert desk.ask("cursor.plan", "c", least=10, wait_ms=1000) == []
    desk.put("q", 4)
    assert desk.turn() == []
    done = int(desk.driver.broker.work.done)
    desk.put("q", 1)
    desk.driver.control.ranges.look_again(desk.queue("q"))
    assert desk.driver.broker.work.done == done, "five of one queue are looked at: half of what is missing"
    desk.turn()
    desk.put("r", 5)
    (answer,) = desk.turn()
    assert (answer["end"], answer["rows"], answer["pressed"]) == ({"q": 5, "r": 5}, 10, [])


def test_least_size_ends_at_the_deadline_with_the_present_messages(desk: Readers) -> None:
    desk.ask("cursor.attach", "c", queues=["q"])
    assert desk.ask("cursor.plan", "c", least=10, wait_ms=1000) == []
    desk.put("q", 4)
    assert desk.turn() == []
    desk.driver.begin(desk.driver.broker.now + 2)
    assert [(answer["rows"], answer["pressed"]) for answer in desk.turn()] == [(4, [])]


def test_plan_at_the_limit_or_with_blocked_producers_skips_the_least_size() -> None:
    desk = Readers()
    desk.vhost.declare_queue("q", {"capacity-messages": 9, "stop-messages": 3}, False, False, None, None)
    desk.ask("cursor.attach", "c", queues=["q"])
    desk.put("q", 3)
    assert desk.ask("cursor.plan", "c", least=8, rows=2, wait_ms=1000)[0]["pressed"] == ["q"], "it is full"
    assert desk.ask("cursor.plan", "c", least=8, wait_ms=1000) == []
    desk.put("q", 1)
    desk.queue("q").update_gate(0.0)
    assert not desk.queue("q").gate.open
    assert [(answer["rows"], answer["pressed"]) for answer in desk.turn()] == [(4, ["q"])], "an arrival closed the gate"


def test_least_size_is_not_waited_for_while_the_address_of_the_messages_is_full(desk: Readers) -> None:
    desk.vhost.bind("amq.fanout", desk.queue("q"), None, "", {})
    at_once.set_named(desk.driver.broker, "address", "amq.fanout", capacity_messages=4)
    desk.ask("cursor.attach", "c", queues=["q"])
    for number in range(6):
        desk.client.say(publish("", b"%d" % number, exchange="amq.fanout"))
    desk.driver.run_turn()
    assert desk.queue("q").gate.open
    (answer,) = desk.ask("cursor.plan", "c", least=100, wait_ms=1000)
    assert (answer["rows"], answer["pressed"]) == (int(desk.queue("q").messages), ["q"])


def test_attach_is_refused_while_another_query_is_connected() -> None:
    desk = Readers("q", "r")
    desk.ask("cursor.attach", "c", queues=["q"], identity="one")
    other = Dialogue(desk.driver)

    def attach(**fields: object) -> Any:
        other.say(request("cursor.attach", cursor="c", queues=["r"], **fields))
        return answers(desk.driver)[-1]

    refused = attach(identity="two")
    assert (refused["name"], "in use by con:" in refused["text"]) == ("resource-locked", True)
    found = attach(identity="two", dry_run=True)
    assert (found["new"], found["initial"], found["left"]) == (["r"], {"r": 0}, {"q": [0, 0]})
    assert found["held"]["text"] == refused["text"]
    assert list(desk.vhost.cursors["c"].positions) == ["q"]
    assert attach(identity="one")["token"] == 2
    (found,) = desk.ask("cursor.attach", "c", queues=["q"], takeover=True)
    assert found["token"] == 3
    desk.driver.disconnect(desk.client.connection)
    assert attach(identity="two")["token"] == 4


def test_attach_answers_the_furthest_plan_and_an_id_to_those_who_ask(desk: Readers) -> None:
    desk.put("q", 5)
    (plain,) = desk.ask("cursor.attach", "c", queues=["q"])
    assert "planned" not in plain
    assert desk.vhost.cursors["c"].id == ""
    (attached,) = desk.ask("cursor.attach", "c", queues=["q"], planned=True)
    assert attached["planned"] == {"q": 0}
    desk.ask("cursor.plan", "c", start={"q": 0}, rows=2)
    (again,) = desk.ask("cursor.attach", "c", queues=["q"], planned=True)
    assert again["planned"] == {"q": 2}
    assert again["id"] == attached["id"] == desk.vhost.cursors["c"].id
    (other,) = desk.ask("cursor.attach", "d", queues=["q"], planned=True)
    assert other["id"] not in ("", again["id"])
