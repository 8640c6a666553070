"""Rotation of the consumers of a queue and of a session: turns, waits, and the work of each."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.broker import CONSUMERS_OF_A_CHANNEL, CONSUMERS_OF_A_QUEUE, Broker
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.rotation import single_active, waits_behind
from penstock.core.consume.session import Outlet, Session
from penstock.core.effects import Cancelled
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.core.settings.limits import Defaults
from penstock.core.teardown import CONSUMER_COST, NOTIFY_WORK
from penstock.errors import ResourceError
from penstock.flow.work import ENDS_A_TURN, SHARE, UNITS_A_TURN
from tests.profiles import examples

WINDOW_FOR_ONE = 10


class Peer(Session):
    """A session whose peer may stop it, and that counts how often any of its consumers is looked at."""

    def __init__(self, outlet: Outlet | None = None) -> None:
        super().__init__(outlet)
        self.looks = 0
        self.stops = False
        self.full = False

    def receiving(self) -> bool:
        self.looks += 1
        return not (self.stops or self.full)

    def stopped(self) -> bool:
        return self.stops


class Bench:
    """A broker, and queues by name."""

    def __init__(self, *names: str, **arguments: object) -> None:
        self.broker = Broker(Defaults())
        self.longest = 0
        """The most work of a turn."""
        vhost = self.broker.add_vhost("/")
        self.queues = {name: vhost.declare_queue(name, dict(arguments), False, False, None, None) for name in names}

    def going_on(self) -> bool:
        """Tell whether an end is under way; if so a turn is made."""
        chores = self.broker.turns.chores
        before = self.broker.work.done
        if not chores.pending():
            return False
        self.broker.run(0)
        self.longest = max(self.longest, int(self.broker.work.done - before))
        return True

    def put(self, name: str, count: int = 1, charge: int = 10) -> None:
        queue = self.queues[name]
        for _ in range(count):
            queue.enqueue(Envelope("", name), b"", charge, 0.0)
        self.broker.schedule_delivery(queue)

    def consume(self, session: Session, name: str, window: int = 0, tag: str = "", **how: int) -> Consumer:
        tag = tag or f"{name}{len(session.consumers)}"
        consumer = Consumer(tag, session, self.queues[name], bool(how.get("no_ack")), False, window)
        consumer.priority = how.get("priority", 0)
        consumer.credit.window_bytes = how.get("window_bytes", -1)
        self.broker.consume(session, consumer)
        return consumer

    def delivered(self) -> list[str]:
        """The tags of all batches that are to be had."""
        tags: list[str] = []
        while (batch := self.broker.next_batch()) is not None:
            tags.append(batch.consumer.tag)
        return tags


# Cost


def test_consumers_without_room_are_looked_at_once_however_many_messages_come() -> None:
    bench, peer = Bench("q"), Peer()
    for _ in range(1000):
        bench.consume(peer, "q", 1)
    bench.put("q", 1000)
    assert len(bench.delivered()) == 1000
    looks = peer.looks
    for _ in range(100):
        bench.put("q")
        assert bench.delivered() == []
    assert peer.looks - looks <= 2 * 1000, "each found out once that it has no room"


def test_acknowledgement_examines_only_the_own_consumer() -> None:
    bench, peer = Bench("q"), Peer()
    for _ in range(1000):
        bench.consume(peer, "q", 1)
    bench.put("q", 2100)
    assert len(bench.delivered()) == 1000
    looks = peer.looks
    for tag in range(1, 1001):
        peer.unsettled.acknowledge(tag, False, 0.0)
        assert len(bench.delivered()) == 1
    assert peer.looks - looks <= 3 * 1000


def test_acknowledgement_with_a_shared_prefetch_wakes_a_single_consumer_of_many() -> None:
    names = [f"q{number}" for number in range(200)]
    bench, peer = Bench(*names), Peer()
    peer.credit.window = 1
    for name in names:
        bench.put(name, 5)
        bench.consume(peer, name)
    bench.delivered()
    looks = peer.looks
    for tag in range(1, 401):
        peer.unsettled.acknowledge(tag, False, 0.0)
        assert len(bench.delivered()) == 1
    assert peer.looks - looks <= 5 * 400


@pytest.mark.parametrize("single", [False, True])
def test_consumers_leave_in_any_order_and_the_rest_keep_their_turns(single: bool) -> None:
    bench = Bench("q", **({"x-single-active-consumer": True} if single else {}))
    peers = [Peer() for _ in range(300)]
    for number, peer in enumerate(peers):
        bench.consume(peer, "q", tag=f"{number}")
    for number in [*range(0, 300, 2), *range(299, 1, -2)]:
        bench.broker.cancel(peers[number], f"{number}")
    bench.put("q")
    assert bench.delivered() == ["1"]
    bench.broker.cancel(peers[1], "1")
    assert bench.queues["q"].rotation is None


# Turns


def test_consumer_that_settles_comes_back_as_the_last_in_turn() -> None:
    bench, peer = Bench("q"), Peer()
    for tag in "abc":
        bench.consume(peer, "q", 1, tag)
    bench.put("q", 4)
    assert bench.delivered() == ["a", "b", "c"]
    for tag in (2, 3, 1):
        peer.unsettled.acknowledge(tag, False, 0.0)
    bench.put("q", 2)
    assert bench.delivered() == ["b", "c", "a"]


def test_consumers_of_higher_priority_with_room_come_first() -> None:
    bench, peer = Bench("q"), Peer()
    for tag, priority in (("low", -1), ("usual", 0), ("high", 7), ("high2", 7)):
        bench.consume(peer, "q", 1, tag, priority=priority)
    bench.put("q", 4)
    assert bench.delivered() == ["high", "high2", "usual", "low"]
    bench.put("q", 2)
    for tag in (4, 1):
        peer.unsettled.acknowledge(tag, False, 0.0)
    assert bench.delivered() == ["high", "low"]
    low = peer.consumers["low"]
    assert waits_behind(low) == "consumers with a higher priority than -1 come first"


def test_single_active_consumer_is_followed_by_the_next_to_arrive() -> None:
    bench = Bench("q", **{"x-single-active-consumer": True})
    peers = {tag: Peer() for tag in "abc"}
    for tag, peer in peers.items():
        bench.consume(peer, "q", 1, tag, priority=9 if tag == "c" else 0)
    bench.put("q", 3)
    assert bench.delivered() == ["a"]
    assert waits_behind(peers["b"].consumers["b"]) == "consumer 'a' is the single active one"
    bench.broker.end_session(peers["a"])
    assert bench.delivered() == ["b"]
    active = single_active(bench.queues["q"])
    assert active.tag == "b"


# Waits for shared credit and output


def one_at_a_time(messages: int = 2) -> tuple[Bench, Peer]:
    """Return three queues with messages, and who consumes from them with a shared prefetch of one."""
    bench, peer = Bench("a", "b", "c"), Peer()
    peer.credit.window = 1
    for name in "abc":
        bench.put(name, messages)
        bench.consume(peer, name, tag=name)
    return bench, peer


def test_queues_have_equal_shares_of_a_shared_prefetch() -> None:
    bench, peer = one_at_a_time(20)
    seen = bench.delivered()
    for tag in range(1, 30):
        peer.unsettled.acknowledge(tag, False, 0.0)
        seen += bench.delivered()
    assert seen == list("abc") * 10


def test_busy_queue_does_not_starve_queues_that_wait() -> None:
    bench, peer = Bench("busy", "b", "c"), Peer()
    peer.credit.window = 1
    for name in ("busy", "b", "c"):
        bench.consume(peer, name, tag=name)
    for name in "bc":
        bench.put(name, 20)
    bench.put("busy")
    seen = bench.delivered()
    for tag in range(1, 30):
        bench.put("busy")
        peer.unsettled.acknowledge(tag, False, 0.0)
        seen += bench.delivered()
    assert {tag: seen.count(tag) for tag in ("busy", "b", "c")} == {"busy": 10, "b": 10, "c": 10}


def test_room_in_an_output_goes_to_the_longest_waiting_consumer() -> None:
    bench, outlet = Bench(*"abcdefghi"), Outlet()
    peers = [Peer(outlet) for _ in range(3)]
    for number, name in enumerate("abcdefghi"):
        bench.put(name, 100)
        bench.consume(peers[number % 3], name, tag=name)
    seen: list[str] = []
    for peer in peers:
        peer.full = True
    assert bench.delivered() == []
    for _ in range(27):
        for peer in peers:
            peer.full = False
        outlet.schedule_wake()
        batch = bench.broker.next_batch()
        seen.append(batch.consumer.tag)
        bench.put(seen[-1], 100)
        for peer in peers:
            peer.full = True  # One batch fills it.
        assert bench.delivered() == []
    assert seen == list("abcdefghi") * 3


def test_consumer_that_finds_the_queue_empty_passes_the_turn_on() -> None:
    bench, peer = one_at_a_time()
    assert bench.delivered() == ["a"]
    bench.consume(Peer(), "b", tag="rival")
    assert bench.delivered() == ["rival"]
    peer.unsettled.acknowledge(1, False, 0.0)
    assert bench.delivered() == ["c"], "b was next, and has nothing any more"


def test_consumer_cancelled_while_waiting_delays_no_other_consumer() -> None:
    bench, peer = one_at_a_time()
    assert bench.delivered() == ["a"]
    bench.broker.cancel(peer, "b")
    peer.unsettled.acknowledge(1, False, 0.0)
    assert bench.delivered() == ["c"]
    bench.broker.delete_queue(bench.queues["a"])
    peer.unsettled.acknowledge(2, False, 0.0)
    assert bench.delivered() == ["c"]
    assert peer.held == 0


def test_next_single_active_consumer_gets_messages_after_a_cancel() -> None:
    bench, first = Bench("q", **{"x-single-active-consumer": True}), Peer()
    bench.put("q", 3)
    bench.consume(first, "q", tag="a", window=1)
    bench.consume(Peer(), "q", tag="b", window=1)
    assert bench.delivered() == ["a"]
    bench.broker.cancel(first, "a")
    assert bench.delivered() == ["b"], "without any other event"


def test_shared_prefetch_holds_consumers_without_acknowledgements_uncounted() -> None:
    bench, peer = Bench("a", "b"), Peer()
    peer.credit.window = 1
    bench.put("a", 2)
    bench.put("b", 5)
    bench.consume(peer, "a", tag="a")
    assert bench.delivered() == ["a"]
    held = bench.consume(peer, "b", tag="b", no_ack=1)
    assert bench.delivered() == []
    assert held.obstacles(0.0) == ["its channel is out of credit: 1 unacknowledged of a prefetch of 1"]
    bench.broker.cancel(peer, "a")
    peer.unsettled.acknowledge(1, False, 0.0)
    assert bench.delivered() == ["b"]
    assert bench.queues["b"].messages == 0


def test_byte_window_passes_a_smaller_message_at_the_front() -> None:
    bench, peer, other = Bench("q"), Peer(), Peer()
    bench.consume(peer, "q", tag="narrow", window_bytes=25)
    bench.put("q", 2, 10)
    assert bench.delivered() == ["narrow"]
    bench.put("q", 1, 20)
    bench.put("q", 1, 5)
    assert bench.delivered() == []
    other.get(bench.queues["q"], True, 0.0)
    bench.put("q", 1, 30)
    assert bench.delivered() == ["narrow"]
    assert peer.unsettled.count() == 3


# Bounds


@pytest.mark.once
def test_queue_has_a_named_bound_of_consumers() -> None:
    bench = Bench("q")
    for number in range(CONSUMERS_OF_A_QUEUE):
        if number % CONSUMERS_OF_A_CHANNEL == 0:
            session = Session()
        bench.consume(session, "q")
    with pytest.raises(ResourceError) as refusal:
        bench.consume(Session(), "q", tag="late")
    assert refusal.value.reply_text == (
        "RESOURCE_ERROR - queue 'q' in vhost '/' has 50000 consumers, the most it may have; 'late' was not added"
    )


def test_channel_has_a_named_bound_of_consumers() -> None:
    bench, session = Bench("q"), Session()
    for _ in range(CONSUMERS_OF_A_CHANNEL):
        bench.consume(session, "q")
    with pytest.raises(ResourceError) as refusal:
        bench.consume(session, "q", tag="late")
    assert refusal.value.code == 506
    assert "the channel has 10000 consumers, the most it may have; 'late' was not added" in refusal.value.reply_text
    bench.broker.cancel(session, "q0")
    bench.consume(session, "q", tag="late")


# Ends


def test_session_end_with_very_many_messages_is_spread_over_turns() -> None:
    bench, gone = Bench("q", "other"), Session()
    bench.put("q", 5 * SHARE)
    bench.consume(gone, "q")
    while bench.broker.next_batch() is not None:
        pass
    queue = bench.queues["q"]
    bench.broker.end_session(gone)
    left = [int(queue.unacked_messages)]
    while bench.going_on():
        left.append(int(queue.unacked_messages))
    parts = [before - after for before, after in pairwise(left)]
    assert max(parts) <= UNITS_A_TURN + 256
    assert (queue.unacked_messages, queue.available(), len(gone.consumers)) == (0, 5 * SHARE, 0)
    assert bench.longest <= UNITS_A_TURN + 1000
    found = [int(queue.ready_queue.pull().sequence) for _ in range(5 * SHARE)]
    assert found == sorted(found)


def test_next_single_active_consumer_gets_the_messages_in_order() -> None:
    bench, gone, successor = Bench("q", **{"x-single-active-consumer": True}), Session(), Session()
    bench.put("q", 3 * SHARE)
    bench.consume(gone, "q")
    while bench.broker.next_batch() is not None:
        pass
    bench.consume(successor, "q")
    bench.broker.end_session(gone)
    seen: list[int] = []
    while bench.going_on() or not seen:
        while (batch := bench.broker.next_batch()) is not None:
            assert batch.consumer.session is successor, "who is gone gets nothing any more"
            seen += [int(message.sequence) for message in batch.messages if message is not None]
    assert seen == list(range(1, 3 * SHARE + 1))


def test_session_end_with_very_many_consumers_is_spread_over_turns() -> None:
    bench, gone = Bench("q"), Session()
    for _ in range(CONSUMERS_OF_A_CHANNEL):
        bench.consume(gone, "q")
    bench.broker.end_session(gone)
    counts = [len(gone.consumers)]
    while bench.going_on():
        counts.append(len(gone.consumers))
    parts = [before - after for before, after in pairwise(counts)]
    assert counts[-1] == 0
    assert max(parts) <= UNITS_A_TURN / CONSUMER_COST + 1
    assert len(parts) >= 4


def test_session_ends_at_once_share_a_bounded_turn() -> None:
    bench, gone = Bench("q"), [Session() for _ in range(10)]
    for session in gone:
        bench.put("q", SHARE)
        consumer = bench.consume(session, "q", SHARE)
        while consumer.credit.left():
            assert bench.broker.next_batch() is not None
    for session in gone:
        bench.broker.end_session(session)
    assert sum(session.returning is None for session in gone) <= ENDS_A_TURN // SHARE + 1
    while bench.going_on():
        pass
    assert bench.queues["q"].available() == 10 * SHARE
    assert bench.longest <= UNITS_A_TURN + 1000


def test_consumers_of_a_deleted_queue_are_cancelled_once_a_part_in_each_turn() -> None:
    bench = Bench("q")
    sessions = [Session(), Session()]
    for session in sessions:
        for number in range(CONSUMERS_OF_A_CHANNEL):
            bench.consume(session, "q", tag=f"{number}")
    bench.broker.delete_queue(bench.queues["q"])
    told: list[tuple[Session, str]] = []
    while True:
        found = [effect.consumer for effect in bench.broker.effects() if isinstance(effect, Cancelled)]
        assert len(found) <= UNITS_A_TURN // NOTIFY_WORK + 1
        told += [(consumer.session, consumer.tag) for consumer in found]
        if not bench.going_on():
            break
    assert len(told) == len(set(told)) == 2 * CONSUMERS_OF_A_CHANNEL
    assert not sessions[0].consumers
    assert not sessions[1].consumers


def test_consumer_that_left_a_deleted_queue_gets_no_cancellation() -> None:
    bench, session = Bench("q"), Session()
    for number in range(CONSUMERS_OF_A_CHANNEL):
        bench.consume(session, "q", 1, tag=f"{number}")
    bench.broker.delete_queue(bench.queues["q"])
    last = f"{CONSUMERS_OF_A_CHANNEL - 1}"
    bench.broker.cancel(session, last)
    told: list[str] = []
    while bench.going_on():
        told += [effect.consumer.tag for effect in bench.broker.effects() if isinstance(effect, Cancelled)]
    assert last not in told
    assert not session.consumers


# Random steps


def room_left(queue: Queue) -> list[str]:
    """Consumers that could have a message of a queue now, and have not had it."""
    if not queue.available() or queue.rotation is None:
        return []
    active = single_active(queue)
    those = list(queue.consumers) if active is None else [active]
    return [consumer.tag for consumer in those if consumer.credit_left(0.0) > 0]


STEP = st.tuples(
    st.sampled_from(["put", "consume", "cancel", "ack", "requeue", "get", "stop", "full", "qos", "purge", "deliver"]),
    st.integers(0, 2),
    st.integers(0, 2),
    st.integers(0, 5),
)


@settings(max_examples=examples(400), derandomize=True, database=None, deadline=None)
@given(st.booleans(), st.lists(STEP, min_size=5, max_size=60))
def test_delivery_leaves_no_ready_message_to_a_consumer_with_room(
    single: bool, steps: list[tuple[str, int, int, int]]
) -> None:
    bench = Bench("0", "1", "2", **({"x-single-active-consumer": True} if single else {}))
    outlet = Outlet()
    peers = [Peer(outlet), Peer(outlet), Peer()]
    for number, (what, which, whose, much) in enumerate(steps):
        peer, name = peers[whose], f"{which}"
        queue = bench.queues[name]
        if what == "put":
            bench.put(name, much + 1, 5 * much + 1)
        elif what == "consume":
            how = {"no_ack": int(much == 5), "priority": much % 2, "window_bytes": 12 if much == 4 else -1}
            bench.consume(peer, name, much % 3, f"{number}", **how)
        elif what == "cancel" and peer.consumers:
            bench.broker.cancel(peer, sorted(peer.consumers)[much % len(peer.consumers)])
        elif what in ("ack", "requeue"):
            out = [tag for tag, _, _ in peer.unsettled.deliveries(1, peer.unsettled.next_number)][much:][:1]
            for tag in out:
                if what == "ack":
                    peer.unsettled.acknowledge(tag, much == 5, 0.0)
                else:
                    for back in peer.unsettled.settle_tag(tag, much == 5, Outcome.FAILED, 0.0):
                        bench.broker.schedule_delivery(back)
        elif what == "get":
            peer.get(queue, True, 0.0)
            bench.broker.schedule_delivery(queue)
        elif what == "stop":
            peer.stops = not peer.stops
            peer.wake_waiting()
        elif what == "full":
            full = not peer.full
            for each in peers:
                if each.outlet is peer.outlet:
                    each.full = full
            peer.outlet.schedule_wake()
        elif what == "qos":
            peer.credit.window = much % 3
            peer.wake_waiting()
        elif what == "purge":
            queue.purge(0.0)
        if what == "deliver" or number % 3 == 0:
            bench.delivered()
            left = {name: room_left(queue) for name, queue in bench.queues.items()}
            assert not any(left.values()), f"{left} could have had more after step {number}"
    for peer in peers:
        bench.broker.end_session(peer)
    assert all(queue.unacked_messages == 0 and not queue.consumers for queue in bench.queues.values())
    assert [int(peer.held) for peer in peers] == [0, 0, 0]
    assert outlet.size == 0
