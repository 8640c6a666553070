"""Plans of batches over many queues: exact limits, fair shares, and answers with changes only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.flow.work import ASKING_SHARE
from penstock.ranges.plan_batch import LOOKED_WORK, NAMED_MAX
from tests.profiles import examples
from tests.support.control_requests import answers, request
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.longest_turn import LongestTurn

CHARGE = 10


class Readers:
    """A driver with queues of messages of given charges, and a client whose cursor reads all of them."""

    def __init__(self, queues: dict[str, Sequence[int]]) -> None:
        self.driver = make_driver()
        self.vhost = self.driver.broker.vhosts["/"]
        for name in (*queues, "answers"):
            self.vhost.declare_queue(name, {}, False, False, None, None)
        for name, charges in queues.items():
            self.put(name, *charges)
        self.client = Dialogue(self.driver)
        self.token = int(self.ask("cursor.attach", queues=list(queues))["token"])

    def queue(self, name: str) -> Queue:
        return self.vhost.queues[name]

    def put(self, name: str, *charges: int) -> None:
        for charge in charges:
            self.queue(name).enqueue(Envelope("", name), b"", charge, 0.0)
        self.driver.broker.schedule_delivery(self.queue(name))

    def ask(self, operation: str, client: Dialogue | None = None, **fields: object) -> dict[str, Any]:
        """Ask, and give turns until the answer is there."""
        before = len(answers(self.driver))
        (client or self.client).say(request(operation, cursor="c", **fields))
        while len(answers(self.driver)) == before:
            self.driver.run_turn()
        found = answers(self.driver)[-1]
        assert isinstance(found, dict)
        return found

    def plan(self, client: Dialogue | None = None, **fields: object) -> dict[str, Any]:
        return self.ask("cursor.plan", client, token=self.token, **fields)


def names(count: int) -> list[str]:
    return [f"q{number:03d}" for number in range(count)]


@pytest.mark.parametrize("hot", ["q000", "q050", "q099"])
@pytest.mark.parametrize("others", [0, 5])
def test_hot_queue_among_a_hundred_gets_the_rest_of_the_plan(hot: str, others: int) -> None:
    desk = Readers({name: [CHARGE] * (2_000 if name == hot else others) for name in names(100)})
    found = desk.plan(rows=1_000)
    assert (found["rows"], found["messages"][hot]) == (1_000, 1_000 - 99 * others)
    found = desk.plan(bytes=1_000 * CHARGE)
    assert (found["bytes"], found["messages"][hot]) == (1_000 * CHARGE, 1_000 - 99 * others)


def test_queues_take_turns_in_a_batch_smaller_than_the_number_of_queues() -> None:
    desk = Readers({name: [CHARGE] * 3 for name in names(10)})
    starts = dict.fromkeys(names(10), 0)
    served = []
    for _ in range(5):
        found = desk.plan(start=starts, rows=4)
        served += [name for name, rows in found["messages"].items() for _ in range(rows)]
        starts = found["end"]
    assert {name: served.count(name) for name in names(10)} == dict.fromkeys(names(10), 2)


def test_queues_with_large_messages_take_turns_where_a_batch_has_few_bytes() -> None:
    desk = Readers({name: [100] * 3 for name in names(5)})
    starts = dict.fromkeys(names(5), 0)
    served = []
    for _ in range(5):
        found = desk.plan(start=starts, bytes=250)
        assert found["bytes"] == 200
        served += [name for name, rows in found["messages"].items() for _ in range(rows)]
        starts = found["end"]
    assert {name: served.count(name) for name in names(5)} == dict.fromkeys(names(5), 2)


def test_message_larger_than_the_limit_is_planned_alone() -> None:
    desk = Readers({"a": [500, 10], "b": [500], "c": []})
    found = desk.plan(bytes=100)
    assert (found["rows"], found["bytes"]) == (1, 500)
    found = desk.plan(start={"a": 1}, bytes=100)
    assert (found["messages"], found["bytes"]) == ({"a": 1, "b": 0, "c": 0}, 10)


CHARGES = st.lists(st.lists(st.integers(1, 40), max_size=8), min_size=1, max_size=6)


@given(charges=CHARGES, rows=st.none() | st.integers(1, 30), size=st.none() | st.integers(1, 300))
@settings(max_examples=examples(150))
def test_batch_keeps_and_reaches_the_limits(charges: list[list[int]], rows: int | None, size: int | None) -> None:
    queues = {f"q{index}": some for index, some in enumerate(charges)}
    found = Readers(dict(queues)).plan(rows=rows, bytes=size)
    taken = {name: queues[name][: found["end"][name]] for name in queues}
    total = sum(map(len, charges))
    assert found["rows"] == sum(found["messages"].values()) == sum(map(len, taken.values()))
    assert found["bytes"] == sum(map(sum, taken.values()))
    assert found["rows"] <= (total if rows is None else rows)
    following = {name: some[len(taken[name])] for name, some in queues.items() if len(taken[name]) < len(some)}
    if size is None:
        assert found["rows"] == min(total, total if rows is None else rows)
        for name in following:
            assert all(len(taken[name]) + 1 >= len(others) for others in taken.values()), "equal parts come first"
    else:
        assert found["bytes"] <= size or found["rows"] == 1
        if following and (rows is None or found["rows"] < rows):
            assert min(following.values()) + found["bytes"] > size, "what is left has room for none"


def test_share_without_a_rest_is_no_full_batch() -> None:
    desk = Readers({name: [CHARGE] * (200 if name == "q000" else 0) for name in names(100)})
    found = desk.plan(rows=100, least=50)
    assert (found["rows"], found["pressed"]) == (100, ["q000"])
    found = desk.plan(rows=300, least=250)
    assert (found["rows"], found["pressed"]) == (200, []), "all that is there, and less than the least size"


def test_plan_with_changes_has_only_tails_that_the_connection_lacks() -> None:
    desk = Readers({"a": [10], "b": [10, 10], "c": []})
    found = desk.plan(changes=True)
    assert (found["end"], found["messages"]) == ({"a": 1, "b": 2}, {"a": 1, "b": 2})
    assert found["tail"] == {"a": 1, "b": 2, "c": 0}
    desk.put("c", 10)
    found = desk.plan(settle={"a": 1, "b": 1}, changes=True)
    assert (found["end"], found["tail"]) == ({"b": 2, "c": 1}, {"c": 1})
    assert desk.plan(changes=True)["tail"] == {}
    other = Dialogue(desk.driver)
    assert desk.plan(other, changes=True)["tail"] == {"a": 1, "b": 2, "c": 1}, "a new connection knows none"
    assert desk.plan()["end"] == {"a": 1, "b": 2, "c": 1}, "without the flag an answer has all queues"


def test_plan_of_named_queues_leaves_the_remaining_queues_alone() -> None:
    desk = Readers({"a": [10] * 5, "b": [10] * 5, "c": [10] * 5})
    desk.driver.broker.delete_queue(desk.queue("c"))
    found = desk.plan(upto={"a": 3, "none": 7}, only=True)
    assert (found["end"], found["messages"], found["tail"]) == ({"a": 3}, {"a": 3}, {"a": 5})
    assert desk.plan(upto={}, only=True)["end"] == {}
    assert "was deleted" in desk.plan(upto={"c": 3}, only=True)["text"]


def test_waiting_plan_of_named_queues_is_not_woken_by_the_remaining_queues() -> None:
    desk = Readers({"a": [], "b": []})
    desk.client.say(request("cursor.plan", cursor="c", token=desk.token, upto={"a": 9}, only=True, wait_ms=1_000))
    before = len(answers(desk.driver))
    desk.put("b", 10)
    desk.driver.run_turn()
    assert len(answers(desk.driver)) == before
    desk.put("a", 10)
    desk.driver.run_turn()
    assert answers(desk.driver)[-1]["end"] == {"a": 1}


def test_waiting_plan_is_checked_once_the_queues_have_the_least_size_together() -> None:
    desk = Readers({name: [] for name in names(20)})
    desk.client.say(request("cursor.plan", cursor="c", token=desk.token, least=20, wait_ms=1_000, changes=True))
    before = len(answers(desk.driver))
    for name in names(19):
        desk.put(name, 10)
        done = int(desk.driver.broker.work.done)
        desk.driver.control.ranges.look_again(desk.queue(name))
        assert desk.driver.broker.work.done == done
    assert len(answers(desk.driver)) == before
    desk.put("q019", 10)
    desk.driver.run_turn()
    assert answers(desk.driver)[-1]["rows"] == 20


def test_answer_names_some_of_very_many_queues() -> None:
    desk = Readers({name: [10, 10] for name in names(NAMED_MAX + 50)})
    found = desk.plan(rows=NAMED_MAX + 50, least=NAMED_MAX, left_out=True)
    assert (len(found["pressed"]), len(found["left_out"])) == (NAMED_MAX, NAMED_MAX)
    assert len(found["messages"]) == NAMED_MAX + 50


def test_plan_of_five_thousand_queues_takes_a_share_a_turn() -> None:
    desk = Readers({f"q{number}": [] for number in range(5_000)})
    desk.put("q4321", 10)
    done = len(answers(desk.driver))
    desk.driver.scheduler.begin_turn()
    asked = request("cursor.plan", cursor="c", token=desk.token, changes=True)
    desk.driver.scheduler.receive(desk.client.connection, asked)
    turns = []
    while len(answers(desk.driver)) == done:
        before = int(desk.driver.broker.work.done)
        desk.driver.run_turn()
        turns.append(int(desk.driver.broker.work.done) - before)
    assert len(turns) > 1
    assert max(turns) <= ASKING_SHARE + LOOKED_WORK
    found = answers(desk.driver)[-1]
    assert (found["end"], found["messages"]) == ({"q4321": 1}, {"q4321": 1})


def waiting_on_thousands() -> Readers:
    desk = Readers({f"q{number}": [] for number in range(5_000)})
    before = len(answers(desk.driver))
    desk.client.say(request("cursor.plan", cursor="c", token=desk.token, changes=True, wait_ms=60_000))
    while desk.driver.run_turn() or not desk.vhost.cursors["c"].polling:
        pass
    assert len(answers(desk.driver)) == before
    return desk


def woken(desk: Readers, *, until_answers: int, now: float | None = None) -> int:
    """Make turns until the answers are there; return the units of work of the longest one."""
    turns, before = LongestTurn(desk.driver), len(answers(desk.driver))
    while len(answers(desk.driver)) < before + until_answers:
        turns.turn(now)
    assert turns.turns >= 5_000 // 100 * LOOKED_WORK // ASKING_SHARE
    return turns.longest


def test_waiting_plan_of_five_thousand_queues_wakes_in_slices() -> None:
    desk = waiting_on_thousands()
    desk.put("q4321", 10)
    assert woken(desk, until_answers=1) <= 2 * ASKING_SHARE
    found = answers(desk.driver)[-1]
    assert (found["messages"], found["rows"]) == ({"q4321": 1}, 1)
    assert not desk.vhost.cursors["c"].polling


def test_deadline_of_a_waiting_plan_of_five_thousand_queues_ends_the_plan_in_slices() -> None:
    desk = waiting_on_thousands()
    now = desk.driver.broker.now + 60.0
    assert woken(desk, until_answers=1, now=now) <= 2 * ASKING_SHARE
    assert answers(desk.driver)[-1]["rows"] == 0


def test_message_that_comes_while_a_plan_looks_is_in_the_answer() -> None:
    desk = waiting_on_thousands()
    waiting = desk.driver.control.ranges.cursors.waiting["/", "c"]
    desk.driver.control.ranges.plans.answer(waiting, False)
    desk.driver.run_turn()
    assert waiting.looking
    desk.put("q0", 10)
    woken(desk, until_answers=1)
    assert answers(desk.driver)[-1]["messages"] == {"q0": 1}


@pytest.mark.parametrize("way", ["delete", "move", "hang up"])
def test_plan_in_slices_is_answered_at_most_once_when_the_cursor_is_deleted(way: str) -> None:
    desk = waiting_on_thousands()
    waiting = desk.driver.control.ranges.cursors.waiting["/", "c"]
    before = len(answers(desk.driver))
    desk.driver.control.ranges.plans.answer(waiting, False)
    desk.driver.run_turn()
    assert waiting.looking
    if way == "hang up":
        desk.driver.disconnect(desk.client.connection)
    else:
        operator = Dialogue(desk.driver)
        fields = {"cursor": "c"} if way == "delete" else {"cursor": "c", "to": "latest", "force": True}
        operator.say(request(f"cursor.{way}", **fields))
    while desk.driver.run_turn():
        pass
    found = answers(desk.driver)[before:]
    refused = [each for each in found if "code" in each]
    assert len(refused) == (0 if way == "hang up" else 1)
    assert all("cursor 'c'" in each["text"] for each in refused)
    assert len(found) == (0 if way == "hang up" else 2), "the operator has an answer as well"


def test_next_plan_of_the_holder_ends_a_plan_in_slices() -> None:
    desk = waiting_on_thousands()
    waiting = desk.driver.control.ranges.cursors.waiting["/", "c"]
    desk.driver.control.ranges.plans.answer(waiting, False)
    desk.driver.run_turn()
    assert waiting.looking
    other = Dialogue(desk.driver)
    desk.put("q7", 10)
    other.say(request("cursor.plan", cursor="c", token=desk.token, changes=True))
    while desk.driver.run_turn():
        pass
    assert [each["rows"] for each in answers(desk.driver)[-2:]] == [1, 1]
    assert ("/", "c") not in desk.driver.control.ranges.cursors.waiting
