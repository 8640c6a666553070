"""Queues with message groups: settings, and what else a queue may have beside groups."""

from __future__ import annotations

import pytest

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.group_scan import GroupScan, groups_of
from penstock.core.queue.indexed_ready_queue import IndexedReadyQueue
from penstock.core.queue.ready_queue import Priorities
from penstock.errors import NotSupported, PreconditionFailed, ResourceLocked
from tests.support.at_once import remove, set_named
from tests.support.attached_cursors import attached
from tests.support.memory_store import Shelf
from tests.support.paging_broker import PagedHouse
from tests.support.selecting_bench import SelectingBench

BY_COLOR = {"group-by": "color"}


def grant(bench: SelectingBench, tag: str, credit: int = 1) -> None:
    bench.grant(next(iter(bench.sessions[tag].consumers.values())), credit)


def test_queue_without_the_setting_has_no_groups() -> None:
    bench = SelectingBench("red", "red")
    consumer = bench.attach("a", credit=1)
    assert consumer.scan is None
    assert bench.queue.grouping is None
    assert not bench.queue.tracks_removals
    assert not isinstance(bench.queue.ready_queue, IndexedReadyQueue)


def test_settings_turn_groups_on_and_off_for_present_consumers() -> None:
    bench = SelectingBench("red", "red")
    bench.attach("a", credit=1)
    bench.attach("b", credit=1)
    bench.deliver()
    assert sorted(bench.got["a"] + bench.got["b"]) == [1, 2]
    set_named(bench.broker, "queue", "q", group_by="color")
    bench.put("blue", "blue")
    grant(bench, "a")
    bench.deliver()
    grant(bench, "b")
    bench.deliver()
    assert 3 in bench.got["a"]
    assert 4 not in bench.got["b"]
    remove(bench.broker, "queue", "q", ["group-by"])
    bench.deliver()
    assert 4 in bench.got["b"], "a consumer that waited for its groups is asked again"
    bench.put("green", "green")
    grant(bench, "a")
    grant(bench, "b")
    bench.deliver()
    assert sorted(bench.got["a"] + bench.got["b"]) == [1, 2, 3, 4, 5, 6]
    assert {5, 6}.isdisjoint(bench.got["a"]) is False
    assert {5, 6}.isdisjoint(bench.got["b"]) is False


def test_argument_none_turns_groups_off_against_a_pattern() -> None:
    bench = SelectingBench("red", **{"group-by": "none", "x-max-priority": 5})
    assert bench.queue.grouping is None
    other = SelectingBench("red", **{"group-by": "none"})
    set_named(other.broker, "queue", "#", group_by="color")
    assert other.queue.grouping is None
    assert other.attach("a").scan is None


def test_consumer_with_a_selector_is_refused_beside_groups() -> None:
    bench = SelectingBench(**BY_COLOR)
    with pytest.raises(NotSupported, match="has group-by=color, beside which a selector or no-local is not supported"):
        bench.attach("a", "color = 'red'")
    bench.attach("b", browses=True)


def test_groups_set_later_wait_until_consumers_with_selectors_have_left() -> None:
    bench = SelectingBench()
    bench.attach("a", "n > 0")
    set_named(bench.broker, "queue", "q", group_by="color")
    assert bench.queue.grouping is None
    bench.broker.cancel(bench.sessions["a"], "a")
    consumer = bench.attach("b")
    assert isinstance(consumer.scan, GroupScan)


def test_browser_of_a_queue_with_groups_sees_all_messages() -> None:
    bench = SelectingBench("red", "red", "blue", **BY_COLOR)
    bench.attach("a", credit=1)
    bench.deliver()
    bench.attach("b", browses=True)
    bench.deliver()
    assert bench.got == {"a": [1], "b": [2, 3]}


def test_declaration_with_groups_and_priorities_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="group-by=color is not supported beside x-max-priority=5"):
        SelectingBench(**BY_COLOR, **{"x-max-priority": 5})


def test_setting_has_no_effect_on_a_queue_with_priorities() -> None:
    bench = SelectingBench(**{"x-max-priority": 5})
    set_named(bench.broker, "queue", "q", group_by="color")
    assert bench.queue.grouping is None
    assert bench.attach("a").scan is None


def test_urgent_messages_of_a_quorum_queue_keep_the_order_of_their_group() -> None:
    bench = SelectingBench(**BY_COLOR, **{"x-queue-type": "quorum"})
    bench.put("red", priority=0)
    bench.put("red", priority=9)
    assert not isinstance(bench.queue.ready_queue, Priorities)
    bench.attach("a")
    bench.deliver()
    assert bench.got["a"] == [1, 2]


def test_groups_set_later_put_the_classes_of_a_quorum_queue_in_order() -> None:
    bench = SelectingBench(**{"x-queue-type": "quorum"})
    bench.put("red", priority=0)
    bench.put("red", priority=9)
    assert isinstance(bench.queue.ready_queue, Priorities)
    set_named(bench.broker, "queue", "q", group_by="color")
    bench.attach("a")
    bench.deliver()
    assert bench.got["a"] == [1, 2]


def test_next_single_active_consumer_waits_for_unsettled_groups_of_the_former() -> None:
    bench = SelectingBench("red", "blue", "red", **BY_COLOR, **{"x-single-active-consumer": True})
    bench.attach("a", credit=2)
    bench.attach("b")
    bench.deliver()
    assert bench.got == {"a": [1, 2], "b": []}
    bench.broker.cancel(bench.sessions["a"], "a")
    bench.deliver()
    assert bench.got["b"] == [], "the former consumer still has messages of the group"
    bench.accept("a")
    bench.deliver()
    assert bench.got["b"] == [3]


def test_consumer_of_a_higher_priority_gets_free_groups_first() -> None:
    bench = SelectingBench("red", "blue", "green", **BY_COLOR)
    bench.attach("a", priority=1, credit=2)
    bench.attach("b")
    bench.deliver()
    assert bench.got == {"a": [1, 2], "b": [3]}


def test_cursor_and_consumers_with_groups_exclude_each_other() -> None:
    bench = SelectingBench("red", "red", **BY_COLOR)
    bench.attach("a", credit=0)
    with pytest.raises(ResourceLocked, match="has browsers, or consumers with selectors or groups"):
        attached(bench.queue)
    bench.broker.cancel(bench.sessions["a"], "a")
    cursor = attached(bench.queue)
    with pytest.raises(ResourceLocked, match="those of a queue that pages, or has groups, must wait"):
        bench.attach("b")
    assert groups_of(bench.queue) is None
    batch = bench.sessions["a"].get(bench.queue, True, 1.0)
    assert batch is not None, "basic.get has no groups beside a cursor"
    cursor.delete(1.0)
    bench.put("red")
    bench.attach("c", credit=1)
    bench.attach("d")
    bench.deliver()
    assert (bench.got["c"], bench.got["d"]) == ([2], [])


def test_stream_has_no_groups() -> None:
    house = PagedHouse(Shelf(), {"q": ({"x-queue-type": "stream"}, True)})
    set_named(house.broker, "queue", "#", group_by="color")
    assert house.queues["q"].grouping is None
    with pytest.raises(PreconditionFailed, match="group-by"):
        house.vhost.declare_queue("p", {"x-queue-type": "stream", **BY_COLOR}, True, False, None, None)


def test_exclusive_consumer_beside_groups_is_alone() -> None:
    bench = SelectingBench("red", **BY_COLOR)
    consumer = bench.attach("a", exclusive=True)
    assert isinstance(consumer, Consumer)
    bench.deliver()
    assert bench.got["a"] == [1]
