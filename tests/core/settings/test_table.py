"""Settings of several sources: changes are all or nothing, and sources have an order."""

from __future__ import annotations

import pytest

from penstock.core.queue.queue import Queue
from penstock.core.settings.changes import drop_placed
from penstock.core.settings.table import FILE, PATTERNS_MAX, SHARED_MAX
from penstock.errors import NotFound, PreconditionFailed, ResourceError
from tests.support import at_once
from tests.support.settings_bench import Bench, refused

# All or nothing


def test_setting_that_contradicts_an_argument_is_refused_with_both_sources(bench: Bench) -> None:
    first, second = bench.queue("orders.a"), bench.queue("orders.b", capacity_messages=1000)
    said = refused(lambda: bench.set("queue", "orders.#", stop_messages=2000))
    assert said == (
        "queue 'orders.b': stop-messages=2000 (pattern 'orders.#', set by command) is above the capacity of 1000 "
        "messages (capacity-messages=1000, declared); stop must be at or below capacity"
    )
    assert first.thresholds.stop.as_dict()["messages"] is None
    assert second.thresholds.stop.as_dict()["messages"] == 800
    assert len(bench.broker.table) == 0


def test_declaration_that_contradicts_a_pattern_is_refused_and_creates_no_queue(bench: Bench) -> None:
    bench.set("queue", "orders.#", stop_messages=2000)
    said = refused(lambda: bench.queue("orders.b", capacity_messages=1000))
    assert "stop-messages=2000 (pattern 'orders.#', set by command)" in said
    assert "(capacity-messages=1000, declared)" in said
    assert bench.vhost.queues == {}
    bench.queue("orders.c", capacity_messages=1000, stop_messages=900)  # Its own stop beats the pattern's.


def test_unset_that_leaves_an_impossible_setting_is_refused(bench: Bench) -> None:
    bench.queue("q")
    bench.set("queue", "q", capacity_messages=5000, stop_messages=2000, resume_messages=1000)
    said = refused(lambda: at_once.remove(bench.broker, "queue", "q", ["stop-messages", "capacity-messages"]))
    assert "resume-messages=1000 (pattern 'q', set by command) has no stop threshold to go with" in said
    assert set(bench.broker.table.entries_of("queue", "q", "command")) == {
        "capacity-messages",
        "stop-messages",
        "resume-messages",
    }


def test_contradictions_of_an_address_or_a_virtual_host_are_refused_too(bench: Bench) -> None:
    bench.set("address", "amq.*", capacity_messages=10)
    assert "address 'amq.direct'" in refused(lambda: bench.set("address", "#", stop_messages=11))
    bench.set("vhost", "#", capacity_bytes=1000)
    assert "vhost '/'" in refused(lambda: bench.set("vhost", "/", stop_bytes=1001))
    bench.set("address", "a.#", capacity_messages=10)
    bench.set("address", "*.b", stop_messages=20)
    said = refused(lambda: bench.vhost.declare_exchange("a.b", "direct", {}, False, False, False))
    assert "pattern '*.b', set by command" in said
    assert "a.b" not in bench.vhost.exchanges


def test_settings_file_with_a_contradiction_changes_nothing(bench: Bench) -> None:
    queue = bench.queue("q", capacity_messages=100)
    bench.file(("queue", "q", {"stop-messages": 50}))
    with pytest.raises(PreconditionFailed):
        bench.file(("vhost", "/", {"hold-deadline": 1}), ("queue", "#", {"stop-messages": 101}))
    assert queue.thresholds.stop.as_dict()["messages"] == 50
    assert queue.settings.hold_deadline_s == 25.0
    assert [(each.scope, each.pattern) for each in bench.broker.table.entries()] == [("queue", "q")]


# Precedence of sources


def test_arguments_beat_patterns_patterns_the_virtual_host_and_that_the_broker(bench: Bench) -> None:
    queue = bench.queue("q", hold_deadline=1)
    other = bench.queue("other")
    for scope, pattern, seconds in (("broker", "", 40), ("vhost", "#", 30), ("vhost", "/", 20), ("queue", "#", 10)):
        bench.set(scope, pattern, hold_deadline=seconds)
        assert (queue.settings.hold_deadline_s, other.settings.hold_deadline_s) == (1.0, float(seconds))
    assert bench.broker.defaults.hold_deadline_s == 40.0
    assert bench.broker.table.limits("vhost", "/").hold_deadline_s == 20.0


def test_setting_is_taken_from_the_most_specific_pattern(bench: Bench) -> None:
    bench.set("queue", "#", capacity_messages=1000, stop_messages=900, hold_deadline=7)
    bench.set("queue", "orders.*", stop_messages=500)
    bench.set("queue", "orders.eu", resume_messages=100)
    found = bench.queue("orders.eu")
    marks = found.thresholds
    assert [level.as_dict()["messages"] for level in (marks.capacity, marks.stop, marks.resume)] == [1000, 500, 100]
    assert found.settings.hold_deadline_s == 7.0


def test_percentage_of_a_stronger_source_beats_a_number_of_a_weaker(bench: Bench) -> None:
    bench.set("queue", "#", stop_messages=900, resume_messages=800, capacity_messages=1000)
    bench.set("queue", "q", stop_percent=50, resume_percent=25)
    marks = bench.queue("q").thresholds
    assert (marks.stop.as_dict()["messages"], marks.resume.as_dict()["messages"]) == (500, 250)


def test_default_of_many_never_makes_a_declaration_fail(bench: Bench) -> None:
    bench.set("broker", "", stop_percent=30)
    bench.set("vhost", "/", resume_percent=90)
    bench.set("broker", "", capacity_bytes=1000)
    marks = bench.queue("q").thresholds
    assert marks.stop.as_dict()["bytes"] == 300
    assert marks.resume.as_dict()["bytes"] == 300
    marks = bench.queue("r", stop_bytes=4000).thresholds  # The default capacity gives way.
    assert (marks.capacity.as_dict()["bytes"], marks.stop.as_dict()["bytes"]) == (5000, 4000)
    marks = bench.queue("s", capacity_messages=100, resume_percent=50).thresholds
    assert (marks.stop.as_dict()["messages"], marks.resume.as_dict()["messages"]) == (50, 50)


def test_policy_of_a_pattern_overrides_the_policy_that_a_name_implies(bench: Bench) -> None:
    queue = bench.queue("q", **{"x-max-length": 5})
    assert queue.dropping() is not None
    bench.set("queue", "q", overflow="block")
    assert (queue.dropping(), queue.thresholds.stop.as_dict()["messages"]) == (None, 3)
    at_once.remove(bench.broker, "queue", "q", ["overflow"])
    assert queue.dropping() is not None
    other = bench.queue("other")
    bench.set("queue", "other", **{"max-length": 5})
    assert other.dropping() is not None


# Commands and the file


def test_command_overrides_the_file_and_survives_the_reload(bench: Bench) -> None:
    queue = bench.queue("q")
    bench.file(("queue", "q", {"capacity-messages": 100, "hold-deadline": 9}))
    bench.set("queue", "q", capacity_messages=50)
    assert queue.thresholds.capacity.as_dict()["messages"] == 50
    bench.file(("queue", "q", {"capacity-messages": 200, "hold-deadline": 8}))
    assert queue.thresholds.capacity.as_dict()["messages"] == 50
    assert queue.settings.hold_deadline_s == 8.0
    at_once.remove(bench.broker, "queue", "q", [])
    assert queue.thresholds.capacity.as_dict()["messages"] == 200
    bench.file()
    assert queue.thresholds.capacity.as_dict()["messages"] is None
    assert len(bench.broker.table) == 0


def test_settings_are_shared_only_by_queues_with_equal_arguments(bench: Bench) -> None:
    first, second = bench.queue("a", capacity_messages=1000), bench.queue("b", capacity_messages=1000)
    third, plain = bench.queue("c", capacity_messages=900), bench.queue("d")
    assert second.settings is first.settings
    assert len({id(each.settings) for each in (first, third, plain)}) == 3
    bench.set("queue", "b", stop_percent=50)
    assert [int(each.thresholds.stop.messages) for each in (first, second, third)] == [800, 500, 720]


def test_settings_that_are_shared_have_a_bound(bench: Bench) -> None:
    first = bench.queue("first", capacity_messages=1)
    for number in range(SHARED_MAX):
        bench.queue(f"q{number}", capacity_messages=number + 2)
    assert bench.queue("last", capacity_messages=1).settings is not first.settings


def test_unset_of_an_unset_setting_is_refused_with_advice(bench: Bench) -> None:
    bench.set("queue", "orders.#", stop_messages=5)
    bench.file(("queue", "logs", {"stop-messages": 5}))
    remove = lambda pattern, *names: refused(lambda: at_once.remove(bench.broker, "queue", pattern, list(names)))  # noqa: E731
    assert "did you mean 'orders.#'?" in remove("order.#")
    assert remove("orders.#", "hold-deadline") == "hold-deadline of queue 'orders.#' is not set; nothing to unset"
    assert "not set by command but by the settings file" in remove("logs")
    assert "not set by command but by the settings file" in remove("logs", "stop-messages")
    with pytest.raises(NotFound):
        at_once.remove(bench.broker, "queue", "x", [])
    assert len(bench.broker.table) == 2


def test_entries_are_in_the_order_of_scopes_and_patterns(bench: Bench) -> None:
    for pattern in ("m", "b", "z", "a"):
        bench.set("queue", pattern, capacity_messages=10)
    bench.set("vhost", "#", capacity_bytes=1000)
    at_once.remove(bench.broker, "queue", "b", [])
    bench.set("queue", "c", capacity_messages=10)
    bench.set("queue", "z", capacity_messages=20)
    in_order = [(entry.scope, entry.pattern) for entry in bench.broker.table.entries()]
    assert sorted(in_order[:-1]) == in_order[:-1] == [("queue", each) for each in ("a", "c", "m", "z")]
    assert in_order[-1] == ("vhost", "#")


@pytest.mark.once
def test_patterns_have_a_bound(bench: Bench) -> None:
    bench.file(*[("user", f"user-{number}", {"weight": 2}) for number in range(PATTERNS_MAX)])
    with pytest.raises(ResourceError, match="the most that there may be"):
        bench.set("user", "one-more", weight=3)
    bench.set("user", "user-5", weight=3)
    with pytest.raises(ResourceError):
        bench.file(*[("user", f"user-{number}", {"weight": 2}) for number in range(1, PATTERNS_MAX + 2)])
    assert bench.broker.table.entries_of("user", "user-0", FILE)


# Other scopes


def test_limits_of_a_user_come_from_all_matching_patterns(bench: Bench) -> None:
    bench.set("user", "#", rate_messages=100, weight=2)
    bench.set("user", "alice", rate_bytes="0.5", burst_messages=10)
    found = bench.broker.table.limits("user", "alice")
    assert (found.rate_messages, found.rate_bytes, found.weight) == (100.0, 0.5, 2)
    assert (found.burst_messages, found.burst_bytes) == (10.0, 1.0)
    bob = bench.broker.table.limits("user", "bob")
    assert (bob.rate_messages, bob.refill_messages, bob.burst_messages) == (100.0, 99.0, 2.0), "a burst of 10 ms"
    bench.set("user", "alice", rate_messages="none")
    assert bench.broker.table.limits("user", "alice").rate_messages is None
    assert bench.broker.table.limits("connection", "alice").unlimited()
    assert bench.set("producer", "alice", rate_messages=1).scopes == ["producer"]


def test_limits_of_an_address_and_of_a_virtual_host_are_resolved_as_a_queues(bench: Bench) -> None:
    bench.set("address", "logs.#", capacity_messages=1000, rate_messages=5)
    found = bench.broker.table.limits("address", "logs.eu")
    assert found.thresholds.stop.as_dict() == {"messages": 800, "bytes": None}
    assert bench.broker.table.limits("address", "other").unlimited()
    bench.set("broker", "", stop_percent=50, resume_percent=40)
    bench.set("vhost", "/", capacity_bytes="1KiB")
    limits = bench.broker.table.limits("vhost", "/").thresholds
    assert (limits.stop.as_dict()["bytes"], limits.resume.as_dict()["bytes"]) == (512, 409)


def test_memory_is_bytes_or_a_share_of_the_machine(bench: Bench) -> None:
    assert "the memory of this machine is unknown" in refused(lambda: bench.set("broker", "", memory_capacity="40%"))
    bench.broker.table.machine_bytes = 10_000
    plan = bench.set("broker", "", memory_capacity="40%", memory_resume=1000)
    assert plan.broker.thresholds is not None
    marks = plan.broker.thresholds
    assert [level.as_dict()["bytes"] for level in (marks.capacity, marks.stop, marks.resume)] == [4000, 2000, 1000]
    assert "memory-stop=50%" in refused(lambda: bench.set("broker", "", memory_stop="50%"))


def test_memory_in_bytes_is_divided_by_the_shards_of_the_node(bench: Bench) -> None:
    bench.broker.table.machine_bytes = 10_000
    bench.broker.table.shards = 4
    plan = bench.set("broker", "", memory_capacity=8000, memory_resume="10%")
    assert plan.broker.thresholds is not None
    marks = plan.broker.thresholds
    assert (marks.capacity.as_dict()["bytes"], marks.resume.as_dict()["bytes"]) == (2000, 1000)
    plan = bench.set("broker", "", memory_capacity="none")
    assert plan.broker.thresholds is not None
    assert plan.broker.thresholds.capacity.unlimited()


def test_consumer_settings_are_resolved_for_the_queue(bench: Bench) -> None:
    settings = bench.queue("q").settings
    assert (settings.consumer_window_bytes, settings.consumer_max_rate, settings.slow_consumer_rate) == (-1, -1.0, -1.0)
    assert (settings.slow_consumer_period_s, settings.slow_consumer_policy) == (5.0, "notify")
    bench.set("queue", "q", consumer_window_bytes="1MiB", consumer_max_rate=2.5, slow_consumer_rate=1)
    bench.set("queue", "q", slow_consumer_period=30, slow_consumer_policy="KILL")
    settings = bench.vhost.queues["q"].settings
    assert (settings.consumer_window_bytes, settings.consumer_max_rate) == (1 << 20, 2.5)
    assert (settings.slow_consumer_rate, settings.slow_consumer_period_s) == (1.0, 30.0)
    assert settings.slow_consumer_policy == "cancel"
    bench.set("queue", "q", consumer_window_bytes=-1, consumer_max_rate=-1)
    settings = bench.vhost.queues["q"].settings
    assert (settings.consumer_window_bytes, settings.consumer_max_rate) == (-1, -1.0)


# Virtual hosts


def capacity_of(queue: Queue) -> int | None:
    return queue.thresholds.capacity.as_dict()["messages"]


def test_pattern_of_a_virtual_host_counts_there_alone(bench: Bench) -> None:
    shop = bench.broker.add_vhost("shop")
    there = shop.declare_queue("orders", {}, False, False, None, None)
    here = bench.queue("orders")
    bench.set("queue", "shop/orders", capacity_messages=5)
    assert (capacity_of(here), capacity_of(there)) == (None, 5)
    later = shop.declare_queue("orders.eu", {}, False, False, None, None)
    assert capacity_of(later) is None
    at_once.remove(bench.broker, "queue", "shop/orders", [])
    assert (capacity_of(here), capacity_of(there)) == (None, None)


def test_most_specific_pattern_wins_and_of_equals_that_of_the_virtual_host(bench: Bench) -> None:
    shop = bench.broker.add_vhost("shop")
    queue = shop.declare_queue("orders.eu", {}, False, False, None, None)
    for pattern, most in (("#", 1), ("shop/#", 2), ("orders.*", 3), ("shop/orders.*", 4), ("orders.eu", 5)):
        bench.set("queue", pattern, capacity_messages=most)
        assert capacity_of(queue) == most, pattern
    bench.set("queue", "shop/orders.eu", capacity_messages=6)
    assert capacity_of(queue) == 6
    values = bench.broker.table.resolve_queue("shop", "orders.eu", {})
    assert values["capacity-messages"].source() == "pattern 'orders.eu' of vhost 'shop', set by command"


def test_address_and_the_routing_keys_have_patterns_of_a_virtual_host(bench: Bench) -> None:
    table = bench.broker.table
    bench.broker.add_vhost("shop")
    bench.set("address", "shop//logs", capacity_messages=5)
    bench.set("address", "shop//logs/eu.#", capacity_messages=3)
    assert table.limits("address", "logs", None, "/").unlimited()
    assert table.limits("address", "logs", None, "shop").thresholds.capacity.messages == 5
    assert table.topic_limits("shop", "logs", "eu.fr").thresholds.capacity.messages == 3
    assert table.topic_limits("/", "logs", "eu.fr").thresholds is None
    assert table.has_topics()
    at_once.remove(bench.broker, "address", "shop//logs/eu.#", [])
    assert not table.has_topics()


def test_settings_of_a_virtual_host_are_dropped_together(bench: Bench) -> None:
    bench.broker.add_vhost("shop")
    for pattern in ("shop/#", "#"):
        bench.set("queue", pattern, capacity_messages=5)
    bench.set("address", "shop//logs", capacity_messages=5)
    drop_placed(bench.broker, "shop")
    assert [(entry.scope, entry.pattern) for entry in bench.broker.table.entries()] == [("queue", "#")]
