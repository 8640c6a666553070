"""Overflow policies of queues when policies and settings change, and the sentences of the commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import pytest

from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings
from penstock.core.settings.overflow_changes import OverflowChanges, describe_overflow
from penstock.errors import PreconditionFailed
from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.setting_values import settings_of
from tests.support.settings_bench import Bench, refused

Given = dict[str, object]


def ways(settings: Settings) -> tuple[str, str | None]:
    """The policy at the capacity, and at the length; None without a length."""
    return settings.overflow.name, None if settings.length.unlimited() else settings.at_length.name


CAPACITY: Given = {"capacity-messages": 4}
RING: Given = {"capacity-messages": 400, "overflow": "drop-head"}
LENGTH: Given = {"x-max-length": 4}
STATED: Given = {"x-max-length": 4, "x-overflow": "drop-head"}
MANY = 5_000_000


@pytest.mark.parametrize(("arguments", "definition", "expected"), [
    (CAPACITY, {"max-length": MANY}, ("block", "drop-head")),
    (CAPACITY, {"max-length": 2}, ("block", "drop-head")),
    (CAPACITY, {"max-length-bytes": MANY}, ("block", "drop-head")),
    (CAPACITY, {"max-length": MANY, "overflow": "drop-head"}, ("block", "drop-head")),
    (CAPACITY, {"max-length": MANY, "overflow": "reject-publish"}, ("block", "reject")),
    (CAPACITY, {"max-length": MANY, "overflow": "block"}, ("block", None)),
    (CAPACITY, {"capacity-messages": MANY, "overflow": "drop-head"}, ("block", None)),
    (CAPACITY, {"capacity-bytes": MANY, "overflow": "ring-strict"}, ("block", None)),
    (CAPACITY, {"max-length": MANY, "overflow": "self-destruct"}, ("block", None)),
    (CAPACITY, {"capacity-messages": 2, "overflow": "drop-head"}, ("drop-head", None)),
    (CAPACITY, {"overflow": "drop-head"}, ("drop-head", None)),
    (RING, {"capacity-messages": 4}, ("drop-head", None)),
    (RING, {"max-length": 4}, ("drop-head", "drop-head")),
    (RING, {"max-length": 4, "overflow": "reject-publish"}, ("drop-head", "drop-head")),
    (LENGTH, {"capacity-messages": 2}, ("block", "drop-head")),
    (STATED, {"capacity-messages": 2}, ("block", "drop-head")),
    (LENGTH, {"overflow": "reject-publish"}, ("block", "reject")),
    (LENGTH, {"max-length": 9, "overflow": "reject-publish"}, ("block", "reject")),
    (LENGTH, {"max-length": 2, "capacity-messages": 9, "overflow": "reject-publish"}, ("reject", "reject")),
    ({"overflow": "drop-head"}, {"max-length": MANY}, ("block", "drop-head")),
    ({"overflow": "drop-head"}, {"capacity-messages": 4}, ("drop-head", None)),
    ({}, {"max-length": MANY}, ("block", "drop-head")),
    ({}, {"capacity-messages": MANY}, ("block", None)),
    ({}, {"overflow": "reject-publish"}, ("reject", None)),
    ({"overflow": "block", **CAPACITY}, {"max-length": 2}, ("block", None)),
])  # fmt: skip
@pytest.mark.parametrize("source", ["policy", "operator policy", "pattern"])
def test_overflow_of_a_policy_applies_to_the_own_limits(
    bench: Bench, arguments: Given, definition: Given, expected: tuple[str, str | None], source: str
) -> None:
    by_rank = {"capacity-messages", "max-length", "max-length-bytes"}
    if source == "pattern" and any(name in by_rank and f"x-{name}" in arguments for name in definition):
        pytest.skip("an argument hides a pattern's value")
    bench.queue("before", **arguments)
    if source == "pattern":
        bench.set("queue", "#", **definition)
        if arguments == CAPACITY and definition == {"capacity-messages": 2, "overflow": "drop-head"}:
            expected = ("block", None)  # The argument is in effect, which the pattern does not speak of.
    else:
        bench.policy("p", source != "policy", **definition)
    bench.queue("after", **arguments)
    assert [ways(bench.vhost.queues[name].settings) for name in ("before", "after")] == [expected, expected]


def test_overflow_of_a_policy_is_not_of_the_operators_capacity(bench: Bench) -> None:
    bench.policy("ceiling", True, capacity_messages=4)
    bench.policy("ring", overflow="drop-head", max_length=MANY)
    queue = bench.queue("q")
    assert ways(queue.settings) == ("block", "drop-head")
    bench.policy("ring", overflow="drop-head", capacity_messages=MANY)
    assert ways(queue.settings) == ("block", None)


def test_limits_of_both_units_that_an_overflow_does_not_speak_of_hold(bench: Bench) -> None:
    queue = bench.queue("q", capacity_messages=4)
    bench.policy("p", capacity_bytes=1000, overflow="drop-head")
    assert ways(queue.settings) == ("block", None)
    assert queue.thresholds.capacity.as_dict() == {"messages": 4, "bytes": 1000}


def test_length_with_a_holding_overflow_lowers_the_capacity(bench: Bench) -> None:
    queue = bench.queue("q", capacity_messages=4000, overflow="block")
    bench.policy("ceiling", True, max_length=50)
    assert (ways(queue.settings), queue.thresholds.capacity.messages) == (("block", None), 50)


@pytest.mark.parametrize(("arguments", "part"), [
    ({"x-max-length": 9, "capacity-messages": 4, "overflow": "block"}, "contradicts"),
    ({"x-max-length": 9, "stop-messages": 4}, "leave one of them out, or give a capacity as well"),
    ({"x-max-length": 9, "resume-bytes": 4}, "has no effect with x-max-length=9"),
    ({"capacity-messages": 9, "stop-messages": 4, "overflow": "drop-head"}, "has no effect with the overflow policy"),
    ({"qpid.policy_type": "ring", "x-overflow": "reject-publish"}, "both set overflow"),
    ({"max-size-messages": 4, "qpid.max_count": 5}, "both set capacity-messages"),
    ({"x-max-length": 9, "page-limit-bytes": 4}, "needs the overflow policy page"),
])  # fmt: skip
def test_limits_of_a_declaration_that_contradict_each_other_are_refused(
    bench: Bench, arguments: Given, part: str
) -> None:
    assert part in refused(lambda: bench.vhost.declare_queue("q", arguments, False, False, None, None))
    assert "q" not in bench.vhost.queues


def test_thresholds_of_a_declared_capacity_stay_with_a_length(bench: Bench) -> None:
    declared = {"capacity-messages": 40, "stop-messages": 20, "resume-messages": 10, "x-max-length": 30}
    queue = bench.queue("q", **declared)
    assert (queue.thresholds.stop.messages, queue.thresholds.resume.messages) == (20, 10)
    assert ways(queue.settings) == ("block", "drop-head")


def test_thresholds_of_a_pattern_do_not_block_a_ring_by_length(bench: Bench) -> None:
    bench.set("queue", "#", stop_messages=5)
    ring, other = bench.queue("ring", x_max_length=10), bench.queue("other")
    assert [each.thresholds.stop.as_dict()["messages"] for each in (ring, other)] == [None, 5]


def test_thresholds_of_a_declaration_are_stronger_than_a_length_of_a_policy(bench: Bench) -> None:
    queue = bench.queue("q", stop_messages=5)
    bench.policy("p", max_length=10)
    assert queue.thresholds.stop.as_dict()["messages"] == 5


def test_reply_queue_refuses_at_the_capacity_with_any_patterns(bench: Bench) -> None:
    bench.set("queue", "#", max_length=5)
    queue = bench.vhost.create_reply_queue("amq.rabbitmq.reply-to.1")
    assert ways(queue.settings) == ("reject", None)


# Names, sources and orders: the lost messages of each

SENT = 12
CHARGE = 1000
RABBITMQS = ("drop-head", "reject-publish", "reject-publish-dlx")
DECLARED: list[Given] = [
    {},
    {"capacity-messages": 5},
    {"qpid.max_count": 5},
    {"max-size-messages": 5},
    {"maximumQueueDepthMessages": 5},
    {"x-max-length": 5},
    {"x-max-length": 5, "x-overflow": "reject-publish"},
    {"x-max-length": 5, "capacity-messages": 7},
    {"x-max-length": 7, "capacity-messages": 5},
    {"capacity-messages": 5, "stop-messages": 3, "resume-messages": 2},
    {"capacity-messages": 5, "overflow": "block"},
    {"capacity-messages": 5, "overflow": "drop-head"},
    {"qpid.max_count": 5, "qpid.policy_type": "reject"},
]
NUMBERS = (2, 6, 5_000_000)
NAMES = ("max-length", "capacity-messages", "qpid.max_count")
OVERFLOWS = (None, "block", *RABBITMQS)
CHANGES: list[Given] = [
    *({name: number} | ({} if how is None else {"overflow": how})
      for name, number, how in product(NAMES, NUMBERS, OVERFLOWS)),
    *({"max-length": number, "capacity-messages": 6} for number in NUMBERS),
    *({"overflow": how} for how in OVERFLOWS if how),
]  # fmt: skip
SOURCES = ("policy", "operator policy", "pattern", "override")


def is_length(name: str) -> bool:
    return name.endswith("max-length")


def is_overflow(name: str) -> bool:
    return name in ("overflow", "x-overflow", "qpid.policy_type")


class Limit:
    """A limit of a source, in words of the source."""

    def __init__(self, source: str, given: Given) -> None:
        self.source = source
        self.length = next((int(str(n)) for name, n in given.items() if is_length(name)), None)
        numbers = [n for name, n in given.items() if not is_length(name) and not is_overflow(name)]
        self.capacity = int(str(numbers[0])) if numbers else None
        self.overflow = next((str(how) for name, how in given.items() if is_overflow(name)), None)


class Met:
    """The limits of a queue of one source of settings beside its arguments."""

    def __init__(self, declared: Given, change: Given, source: str) -> None:
        mine, its = Limit("argument", declared), Limit(source, change)
        self.order = [its, mine] if source == "override" else [mine, its]
        self.smallest = source in ("policy", "operator policy")
        self.length, _ = self._chosen("length")
        self.capacity, self.of = self._chosen("capacity")
        self.owner = next((each for each in self.order if each.overflow), None)

    def _chosen(self, word: str) -> tuple[int | None, Limit | None]:
        found = [(getattr(each, word), each) for each in self.order if getattr(each, word) is not None]
        if self.smallest:
            found.sort(key=lambda each: int(each[0]))
        return found[0] if found else (None, None)

    def first(self) -> tuple[int | None, str]:
        """The number of the limit that is met first, and what happens there: hold, drop or refuse."""
        owner, of = self.owner, self.of
        how = "drop-head" if owner is None else str(owner.overflow)
        does = {"block": "hold", "drop-head": "drop", "ring": "drop"}.get(how, "refuse")
        numbers = [number for number in (self.length, self.capacity) if number is not None]
        if how == "block":
            return min(numbers, default=None), "hold"
        at_capacity = "hold"
        if owner is not None and of is not None:
            alone = owner.capacity is None and owner.length is None and self.length is None
            stronger = self.order.index(owner) < self.order.index(of) and owner.capacity is not None
            at_capacity = does if owner is of or alone or stronger else "hold"
        if self.capacity is not None and self.capacity == min(numbers):
            return self.capacity, at_capacity
        return self.length, does

    def drops_to(self) -> int:
        """The most messages that nothing drops."""
        number, does = self.first()
        most = number if number is not None and does == "drop" else SENT
        drops = self.owner is None or self.owner.overflow in ("drop-head", "ring")
        return min(self.length, most) if self.length is not None and drops else most


def make(bench: Bench, source: str, change: Given) -> None:
    if source in ("policy", "operator policy"):
        bench.set_policy("p", change, source != "policy")
    else:
        words = read_settings("queue", "q", change, source == "override")
        at_once.set_settings(bench.broker, "queue", "q", words)


def unmake(bench: Bench, source: str) -> None:
    if source in ("policy", "operator policy"):
        bench.clear_policy("p", source != "policy")
    else:
        at_once.remove(bench.broker, "queue", "q", [])


def contradicts(act: Callable[[], object]) -> bool:
    """Whether an act is refused, because the declared stop is above the new capacity."""
    try:
        act()
    except PreconditionFailed as refusal:
        if "is above the capacity" in str(refusal):
            return True
        raise
    return False


class Sent:
    """A queue that got `SENT` messages with confirms."""

    def __init__(self, kind: str, declared: Given) -> None:
        self.bench = Bench()
        self.kind = kind
        self.declared = declared
        self.writer = self.bench.producer()

    def declare(self) -> None:
        arguments: dict[str, object] = {"x-queue-type": self.kind, "hold-deadline": 0, **self.declared}
        self.bench.vhost.declare_queue("q", arguments, True, False, None, None)

    @property
    def queue(self) -> Queue:
        return self.bench.vhost.queues["q"]

    def send(self) -> None:
        self.bench.publish(self.writer, "q", *[CHARGE] * SENT)
        self.bench.run()

    def ready(self) -> list[int]:
        return [int(message.sequence) for message in self.queue.ready_queue.messages()]

    def counts(self) -> tuple[int, int, int, int]:
        """Ready, held, dropped and refused."""
        counters = self.queue.counters
        return len(self.ready()), len(self.writer.outbox), int(counters.dropped), int(counters.refused)


def expected_counts(number: int | None, does: str) -> tuple[int, int, int, int]:
    if number is None or number >= SENT:
        return SENT, 0, 0, 0
    rest = SENT - number
    return number, rest if does == "hold" else 0, rest if does == "drop" else 0, rest if does == "refuse" else 0


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("declared", DECLARED, ids=str)
def test_limit_met_first_decides_by_the_own_policy(declared: Given, source: str) -> None:
    for change, kind in product(CHANGES, ("classic", "quorum")):
        sent = Sent(kind, declared)
        make(sent.bench, source, change)
        if contradicts(sent.declare):
            continue
        sent.send()
        assert sent.counts() == expected_counts(*Met(declared, change, source).first()), (change, kind)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("declared", DECLARED, ids=str)
def test_change_under_held_publishes_drops_no_message_within_the_new_limit(declared: Given, source: str) -> None:
    for change in CHANGES:
        sent = Sent("classic", declared)
        sent.declare()
        sent.send()
        was, before = sent.counts(), sent.ready()
        most = Met(declared, change, source).drops_to()
        if contradicts(partial(make, sent.bench, source, change)):
            continue
        sent.bench.run()
        ready, held, dropped, refused = sent.counts()
        assert ready + held + dropped + refused == SENT, change
        assert dropped == was[2] or ready >= min(most, was[0] + was[1]), (change, "dropped below its number")
        if dropped == was[2]:
            assert sent.ready()[: len(before)] == before, (change, "what was confirmed is gone")
        unmake(sent.bench, source)
        sent.bench.run()
        most = Met(declared, {}, source).drops_to()
        assert sent.counts()[2] == dropped or sent.counts()[0] >= most, (change, "dropped by going")


# Sentences


@pytest.mark.parametrize(("arguments", "says"), [
    ({}, "holds publishers at 104,857,600 bytes"),
    ({"capacity-messages": 1}, "holds publishers at 1 message"),
    ({"x-max-length": 10, "capacity-messages": 9},
     "drops its oldest messages above 10 ready messages and holds publishers at 9 messages"),
    ({"x-max-length": 1, "x-max-length-bytes": 2000, "x-overflow": "reject-publish", "capacity-bytes": "none"},
     "refuses publishes above 1 ready message or 2,000 bytes of ready bodies"),
    ({"capacity-bytes": "none"}, "has no limit"),
    ({"qpid.max_count": 4, "qpid.policy_type": "ring"}, "drops its oldest messages at 4 messages"),
])  # fmt: skip
def test_overflow_of_settings_is_described_with_the_numbers(arguments: Given, says: str) -> None:
    assert describe_overflow(settings_of(arguments)) == says


def test_overflow_change_names_queues_and_numbers(bench: Bench) -> None:
    for name in ("a", "b", "c", "d"):
        bench.queue(name, capacity_messages=4)
    bench.queue("e", capacity_messages=4, x_max_length=2)
    plan = bench.policy("p", max_length=5_000_000)
    assert plan.overflow.sentences() == [
        "overflow changes for queues a, b, c and 1 more: drops its oldest messages above 5,000,000 ready messages and "
        "holds publishers at 4 messages; before: holds publishers at 4 messages"
    ]
    assert bench.policy("p", max_length=5_000_000).overflow.sentences() == []
    assert bench.clear_policy("p").overflow.sentences() == [
        "overflow changes for queues a, b, c and 1 more: holds publishers at 4 messages; before: drops its oldest "
        "messages above 5,000,000 ready messages and holds publishers at 4 messages"
    ]
    assert bench.policy("p", message_ttl=5000).overflow.sentences() == []


def test_overflow_changes_are_bounded_by_sentences() -> None:
    changes = OverflowChanges()
    for number in range(1, 8):
        changes.add(f"q{number}", settings_of({}), settings_of({"capacity-messages": number}))
    assert changes.sentences()[0].endswith("before: holds publishers at 104,857,600 bytes; 4 more queues")
