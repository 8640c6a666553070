"""Policies that change while queues and exchanges exist: all or nothing, in steps, effective at once."""

from __future__ import annotations

from penstock.core.queue.queue import Queue
from penstock.core.settings.changes import (
    RESOLVE_WORK,
    change_policies_steps,
    clear_policy_steps,
    drop_policies,
    setting,
)
from penstock.core.settings.policy_reader import read_policy
from penstock.flow.level import UNLIMITED
from penstock.flow.work import finish
from penstock.management.effective_settings import queue_settings
from tests.support.settings_bench import Bench, refused
from tests.support.topology import resolve

TURN = 4_000
"""Units of work of a turn."""


def put(bench: Bench, name: str, pattern: str, priority: int = 0, operator: bool = False, **definition: object) -> None:
    given = {key.replace("_", "-"): value for key, value in definition.items()}
    fields: dict[str, object] = {"pattern": pattern, "definition": given, "priority": priority}
    policy = read_policy("/", name, fields, operator)
    finish(change_policies_steps(bench.broker, [setting(policy)]))


def clear(bench: Bench, name: str, operator: bool = False) -> None:
    finish(clear_policy_steps(bench.broker, "/", name, operator))


def length(queue: Queue) -> int:
    return int(queue.settings.length.messages)


def names(queue: Queue) -> tuple[str | None, str | None]:
    return queue.settings.policies.name(), queue.settings.policies.operator_name()


def test_policy_applies_to_present_and_later_queues(bench: Bench) -> None:
    there, other = bench.queue("celery"), bench.queue("orders")
    put(bench, "short", "^celery", max_length=10)
    come = bench.queue("celery.later")
    assert [length(there), length(come), length(other)] == [10, 10, UNLIMITED]
    assert names(there) == ("short", None)
    put(bench, "short", "^orders$", max_length=20)
    assert [length(there), length(come), length(other)] == [UNLIMITED, UNLIMITED, 20]
    clear(bench, "short")
    assert length(other) == UNLIMITED
    assert refused(lambda: clear(bench, "short")) == "no policy 'short' of vhost '/'"


def test_policy_of_the_highest_priority_applies_alone(bench: Bench) -> None:
    queue = bench.queue("q")
    put(bench, "low", ".*", max_length=10, message_ttl=1000)
    put(bench, "high", "^q", 3, max_length=20)
    assert (length(queue), queue.settings.message_ttl_s) == (20, float("inf"))
    clear(bench, "high")
    assert (length(queue), queue.settings.message_ttl_s) == (10, 1.0)


def test_change_of_a_policy_affects_only_queues_without_a_policy_of_precedence(bench: Bench) -> None:
    first, second = bench.queue("q1"), bench.queue("other")
    put(bench, "high", "^q", 3, max_length=20)
    fields: dict[str, object] = {"pattern": ".*", "definition": {"max-length": 5}}
    changes = [setting(read_policy("/", "low", fields, False))]
    plan = finish(change_policies_steps(bench.broker, changes))
    assert [queue.name for queue, _ in plan.queues] == ["other"]
    assert [length(first), length(second)] == [20, 5]
    put(bench, "high", "^q", -1, max_length=20)
    assert [names(first)[0], length(first)] == ["low", 5]
    put(bench, "low", ".*", -2, max_length=6)
    assert [names(first)[0], names(second)[0]] == ["high", "low"]
    put(bench, "high", "^none", 9, max_length=20)
    assert [length(first), length(second)] == [6, 6]


def test_policy_is_weaker_than_an_argument_and_stronger_than_a_pattern(bench: Bench) -> None:
    bench.set("queue", "#", dead_letter_exchange="by-pattern", hold_deadline=5)
    given, plain = bench.queue("given", dead_letter_exchange="by-argument"), bench.queue("plain")
    put(bench, "p", ".*", dead_letter_exchange="by-policy")
    assert [each.settings.dead_letter_exchange for each in (given, plain)] == ["by-argument", "by-policy"]
    assert plain.settings.hold_deadline_s == 5
    rows = {row["setting"]: row["from"] for row in queue_settings(bench.broker, plain)}
    assert rows["hold-deadline"] == "pattern '#', set by command: hold-deadline=5"


def test_limits_of_an_argument_and_of_policies_are_the_smallest(bench: Bench) -> None:
    small, large = bench.queue("small", max_length=5), bench.queue("large", max_length=50)
    free = bench.queue("free", message_ttl="none")
    put(bench, "p", ".*", max_length=20, message_ttl=1000)
    assert [length(small), length(large)] == [5, 20]
    assert free.settings.message_ttl_s == float("inf")  # Only Penstock has such an argument.
    put(bench, "o", ".*", operator=True, max_length=3, message_ttl=2000)
    assert [length(small), length(large)] == [3, 3]
    assert [free.settings.message_ttl_s, small.settings.message_ttl_s] == [2.0, 1.0]
    assert names(small) == ("p", "o")
    rows = {row["setting"]: row["from"] for row in queue_settings(bench.broker, small)}
    assert rows["max-length"] == "operator policy 'o': max-length=3; of what is ready; beyond, drop-head"


def test_alternate_exchange_of_a_policy_gets_unroutable_messages(bench: Bench) -> None:
    vhost = bench.vhost
    queue = bench.queue("unrouted")
    for name, kind in (("logs", "topic"), ("lost", "fanout"), ("other", "fanout")):
        vhost.declare_exchange(name, kind, {}, False, False, False)
    vhost.bind("lost", queue, None, "", {})
    route = resolve(vhost, "logs", "a")
    assert route.target.queues == []
    put(bench, "ae", "^logs$", alternate_exchange="lost")
    vhost.refresh_route(route)
    assert route.target.queues == [queue]
    mine = vhost.declare_exchange("logs2", "topic", {"alternate-exchange": "other"}, False, False, False)
    put(bench, "ae", "^logs", alternate_exchange="lost")
    assert (mine.alternate, mine.policy is not None) == ("other", True)
    clear(bench, "ae")
    vhost.refresh_route(route)
    assert (route.target.queues, mine.policy) == ([], None)


def test_policy_that_contradicts_a_queue_changes_nothing(bench: Bench) -> None:
    queue, other = bench.queue("q", resume_messages=80, stop_messages=90), bench.queue("r")
    says = refused(lambda: put(bench, "p", ".*", capacity_messages=50))
    assert "stop-messages=90 is above the capacity of 50 messages (capacity-messages=50, policy 'p')" in says
    assert bench.broker.table.policies.get("/", "p", False) is None
    assert names(queue) == names(other) == (None, None)
    put(bench, "p", "^r", capacity_messages=50)
    assert "policy 'p'" in refused(lambda: put(bench, "p", ".*", capacity_messages=60))
    assert other.settings.thresholds.capacity.messages == 50


def test_policies_of_a_vhost_end_with_the_vhost_and_do_not_affect_other_vhosts(bench: Bench) -> None:
    other = bench.broker.add_vhost("eu").declare_queue("q", {}, False, False, None, None)
    queue = bench.queue("q")
    put(bench, "p", ".*", max_length=5)
    assert [length(queue), length(other)] == [5, UNLIMITED]
    drop_policies(bench.broker, "/")
    assert bench.broker.table.policies.count == 0


def test_policies_of_many_queues_change_in_steps_of_stated_work(bench: Bench) -> None:
    for number in range(2_000):
        bench.queue(f"q{number}")
    fields: dict[str, object] = {"pattern": "^q", "definition": {"max-length": 5}}
    changes = [setting(read_policy("/", f"p{n}", {**fields, "pattern": f"^none{n}"}, False)) for n in range(99)]
    finish(change_policies_steps(bench.broker, changes))
    work = bench.broker.work
    before, steps = int(work.done), 0
    work.limit = work.done + TURN
    for _ in change_policies_steps(bench.broker, [setting(read_policy("/", "all", fields, False))]):
        assert work.done <= work.limit + 200
        work.limit = work.done + TURN
        steps += 1
    spent = int(work.done) - before
    assert steps >= spent // (TURN + 200)
    assert spent <= 2_000 * (2 + RESOLVE_WORK + 100 + 10) + 1_000


def test_declarations_and_changes_of_settings_count_the_policies_looked_through(bench: Bench) -> None:
    def work() -> list[int]:
        found = []
        for act in (
            lambda: bench.queue("q"),
            lambda: bench.vhost.declare_exchange("e", "direct", {}, False, False, False),
            lambda: bench.set("queue", "q", capacity_messages=5),
        ):
            before = bench.broker.work.done
            act()
            found.append(int(bench.broker.work.done - before))
        bench.set("queue", "q", capacity_messages=6)
        bench.broker.delete_queue(bench.vhost.queue("q"))
        bench.vhost.delete_exchange("e", False)
        return found

    without = work()
    fields: dict[str, object] = {"definition": {"max-length": 5}}
    some = [setting(read_policy("/", f"p{n}", {**fields, "pattern": f"^none{n}"}, False)) for n in range(99)]
    finish(change_policies_steps(bench.broker, some))
    assert [more - less for more, less in zip(work(), without, strict=True)] == [99, 99, 99]


def test_queue_that_policies_apply_to_shares_the_settings(bench: Bench) -> None:
    put(bench, "p", "^q", max_length=5)
    one, two, other = bench.queue("q1"), bench.queue("q2"), bench.queue("r")
    assert one.settings is two.settings
    assert other.settings is not one.settings
