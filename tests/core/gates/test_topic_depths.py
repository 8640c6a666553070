"""Bounds of routing keys of a topic exchange: a depth for each key that a pattern matches.

Bounds of addresses that are set late: what came through the exchange before, and is in queues, counts too.
"""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.gates.address_depth import AddressDepth
from penstock.core.gates.topic_depths import AddressCount, TopicDepths
from penstock.core.message import Message
from penstock.core.queue.expiry import expire
from penstock.core.queue.queue import Queue
from penstock.core.settings import changes
from penstock.core.settings.table import SettingsChange
from penstock.flow.level import Level, Thresholds
from penstock.flow.pool import Pools
from penstock.flow.work import UNLIMITED_WORK, Steps, finish
from penstock.settings.pools import TOPICS
from penstock.settings.read import read_settings
from tests.profiles import examples
from tests.support import at_once
from tests.support.broker_fixture import House, told
from tests.support.sender_links import Link, run_until_quiet
from tests.support.topology import resolve


def listening(*queues: str) -> House:
    """A house whose queues get all prices."""
    house = House()
    for name in queues:
        house.queue(name)
        house.vhost.bind("amq.topic", house.vhost.queues[name], None, "#", {})
    return house


def test_topic_has_a_single_bound_for_all_subscriptions() -> None:
    house = listening("a", "b")
    house.set("address", "amq.topic/prices.#", capacity_messages=2, stop_messages=1)
    house.published("p", "prices.eur", 100, "amq.topic", count=4)
    assert house.depth("a") == 2
    other = house.producer("q")
    for key in ("prices.usd", "news", "news", "news"):
        house.publish(other, key, 100, "amq.topic")
    assert house.depth("a") == 6
    assert told(other) == [(1, 4, True)]
    assert len(house.broker.gates.topics) == 2
    depth = house.broker.gates.topics.depth(house.vhost, house.vhost.exchanges["amq.topic"], "prices.eur")
    assert depth.gate.name == "amq.topic/prices.eur"
    assert (int(depth.messages), int(depth.bytes)) == (2, 200)
    for _ in range(2):
        house.take("a")
        house.take("b")
    assert house.depth("a") == 6
    assert (int(depth.messages), int(depth.bytes)) == (2, 200)


def test_topic_bound_is_set_late_changed_and_removed() -> None:
    house = listening("a")
    producer = house.producer("p")
    route = resolve(house.vhost, "amq.topic", "prices.eur")
    for number in range(3):
        producer.publish(route, b"price %d" % number, 100)
    house.set("address", "amq.topic/#", capacity_messages=2)
    depth = house.broker.gates.topics.depth(house.vhost, house.vhost.exchanges["amq.topic"], "prices.eur")
    assert not depth.gate.open
    house.publish(producer, "prices.eur", 100, "amq.topic")
    assert house.depth("a") == 3
    house.set("address", "amq.topic/prices.eur", capacity_messages=10)
    house.later(1.0)
    assert house.depth("a") == 4
    assert int(depth.thresholds.capacity.messages) == 10
    at_once.remove(house.broker, "address", "amq.topic/prices.eur", [])
    at_once.remove(house.broker, "address", "amq.topic/#", [])
    assert depth.gate.open
    assert len(house.broker.gates.topics) == 0
    assert house.vhost.exchanges["amq.topic"].gates == []


def test_bound_of_a_topic_replaces_the_bound_of_the_exchange() -> None:
    house = listening("a")
    house.set("address", "amq.topic", capacity_messages=3, stop_messages=2)
    house.set("address", "amq.topic/prices.*", capacity_messages=1, stop_messages=0)
    producer, other = house.producer("p"), house.producer("q")
    house.publish(producer, "prices.eur", 100, "amq.topic", count=3)
    house.publish(other, "news", 100, "amq.topic", count=5)
    assert house.depth("a") == 1 + 3


def test_invented_keys_share_a_depth_beyond_the_limit_and_empty_depths_are_dropped() -> None:
    house = listening("a")
    house.set("address", "amq.topic/#", capacity_messages=2)
    exchange = house.vhost.exchanges["amq.topic"]
    topics = few_topics(house, 2)
    one = topics.depth(house.vhost, exchange, "one")
    two = topics.depth(house.vhost, exchange, "two")
    assert two is not None
    one.add(1, 100, 0.0)
    drops = topics.drops
    assert topics.depth(house.vhost, exchange, "three") is not two
    assert topics.drops > drops
    assert len(topics) == 2
    others = topics.depth(house.vhost, exchange, "four")
    assert others is topics.depth(house.vhost, exchange, "five")
    assert others.gate.name == "amq.topic/#"
    assert topics.depth(house.vhost, exchange, "one") is one
    topics.forget(house.vhost, "amq.topic", 0.0)
    assert len(topics) == 0


def few_topics(house: House, most: int) -> TopicDepths:
    """Let a broker have so few depths of routing keys."""
    pool = Pools().of(TOPICS)
    pool.set_limit(2 * most + most // 4)  # One virtual host may have half, and a small pool has a reserve of one.
    topics = house.broker.gates.topics = TopicDepths(house.broker.table, house.broker.turns, pool)
    return topics


def test_held_publish_counts_in_the_present_depth_of_the_key_after_a_drop() -> None:
    house = listening("a")
    topics = few_topics(house, 1)
    house.set("address", "amq.topic/#", capacity_messages=2)
    house.set("queue", "a", capacity_messages=1)
    house.publish_now("a", 100)
    held = house.published("held", "one", 100, "amq.topic", count=2)
    assert house.depth("a") == 1
    house.published("other", "two", 100, "amq.topic")  # The depth of key one counts nothing, and is dropped.
    exchange = house.vhost.exchanges["amq.topic"]
    house.set("queue", "a", capacity_messages=10)
    house.later(0.1)
    one = topics.depth(house.vhost, exchange, "one")
    assert one is not None
    assert int(one.messages) == 2
    house.publish(held, "one", 100, "amq.topic", count=3)
    house.later(0.1)
    assert int(one.messages) == 2
    assert house.depth("a") == 1 + 2 + 1


def test_key_that_shares_a_depth_gets_a_separate_depth_when_the_shared_depth_is_0() -> None:
    house = listening("a")
    topics = few_topics(house, 2)
    house.set("address", "amq.topic/#", capacity_messages=2)
    exchange = house.vhost.exchanges["amq.topic"]
    one, two = topics.depth(house.vhost, exchange, "one"), topics.depth(house.vhost, exchange, "two")
    assert one is not None
    assert two is not None
    one.add(1, 100, 0.0)
    two.add(1, 100, 0.0)
    shared = topics.depth(house.vhost, exchange, "three")
    assert shared is not None
    shared.add(1, 100, 0.0)
    one.add(-1, -100, 0.0)
    two.add(-1, -100, 0.0)
    for number in range(2_000):
        assert topics.depth(house.vhost, exchange, "three") is shared
        assert topics.depth(house.vhost, exchange, f"other {number}") is shared
    shared.add(-1, -100, 0.0)
    own = topics.depth(house.vhost, exchange, "three")
    assert own is not None
    assert own.gate.name == "amq.topic/three"


def test_keys_with_different_bounds_share_no_depth() -> None:
    house = listening("a")
    topics = few_topics(house, 1)
    house.set("address", "amq.topic/few.#", capacity_messages=2)
    house.set("address", "amq.topic/many.#", capacity_messages=2_000)
    exchange = house.vhost.exchanges["amq.topic"]
    first = topics.depth(house.vhost, exchange, "many.0")
    assert first is not None
    first.add(1, 100, 0.0)
    many, few = topics.depth(house.vhost, exchange, "many.1"), topics.depth(house.vhost, exchange, "few.1")
    assert many is not None
    assert few is not None
    assert int(many.thresholds.capacity.messages) == 2_000
    assert int(few.thresholds.capacity.messages) == 2
    assert few is topics.depth(house.vhost, exchange, "few.2")
    # A client may publish with the key "#"; it is a key as any other.
    assert topics.depth(house.vhost, exchange, "#") is None


def test_messages_count_again_when_the_bound_of_the_key_returns() -> None:
    house = listening("a")
    for most in (4, 1):  # With a depth of their own, and with a shared one.
        topics = few_topics(house, most)
        for key in ("few.0", "few.1", "few.2"):
            house.set("address", "amq.topic/#", capacity_messages=2)
            house.published(f"p {most} {key}", key, 100, "amq.topic")
            at_once.remove(house.broker, "address", "amq.topic/#", [])
        before = house.depth("a")
        house.set("address", "amq.topic/#", capacity_messages=1)
        exchange = house.vhost.exchanges["amq.topic"]
        for key in ("few.0", "few.1", "few.2"):
            depth = topics.depth(house.vhost, exchange, key)
            assert depth is not None
            assert int(depth.messages) >= 1, key
            house.published(f"q {most} {key}", key, 100, "amq.topic", count=2)
        assert house.depth("a") == before
        house.take("a", before)


def test_credit_of_a_link_follows_the_depth_of_the_key() -> None:
    house = listening("a")
    topics = few_topics(house, 1)
    house.set("address", "amq.topic/#", capacity_messages=4)
    link = Link(house, "one", "amq.topic")
    run_until_quiet(house)
    assert link.left > 0
    house.published("other", "two", 100, "amq.topic")
    filled = house.published("filling", "one", 100, "amq.topic", count=4)
    assert told(filled)
    assert link.send(link.left) > 0
    run_until_quiet(house)
    one = topics.depth(house.vhost, house.vhost.exchanges["amq.topic"], "one")
    assert one is not None
    assert int(one.messages) <= 4
    assert house.depth("a") <= 1 + 4


def test_exchange_with_a_slash_in_the_name_keeps_the_settings() -> None:
    house = House()
    house.vhost.declare_exchange("jms/prices", "topic", {}, False, False, False)
    house.set("address", "jms/prices", capacity_messages=3)
    assert house.broker.gates.depths["/\njms/prices"].thresholds.capacity.messages == 3
    at_once.remove(house.broker, "address", "jms/prices", [])
    assert house.vhost.exchanges["jms/prices"].gates == []


def test_topic_has_the_settings_of_the_most_specific_pattern_and_of_the_exchange() -> None:
    house = House()
    house.set("address", "amq.*", capacity_messages=9, capacity_bytes=9000)
    house.set("address", "amq.topic/#", capacity_messages=8)
    house.set("address", "amq.topic/prices.*", capacity_messages=7)
    house.set("address", "*.topic/prices.eur", capacity_messages=6)
    table = house.broker.table
    for key, most in (("news", 8), ("prices.usd", 7), ("prices.eur", 7), ("", 8)):
        thresholds = table.topic_limits("/", "amq.topic", key).thresholds
        assert (int(thresholds.capacity.messages), int(thresholds.capacity.bytes)) == (most, 9000)
    assert table.topic_limits("/", "amq.direct", "news").thresholds is None


KEY = "/\nnews"
CHARGE = 1000


class Newsroom(House):
    """A house with an exchange, its queues, and a session that gets messages from them."""

    def __init__(self, queues: str = "ab", **arguments: object) -> None:
        super().__init__()
        self.broker.sessions[self.session] = None
        self.vhost.declare_exchange("news", "fanout", {}, False, False, False)
        for name in queues:
            self.queue(name, **arguments)
            self.vhost.bind("news", self.vhost.queues[name], None, "", {})
        self.sender = self.producer("p", confirming=False)
        self._contents = count(1)

    def send(self, exchange: str = "news", key: str = "", ttl_s: float | None = None) -> None:
        route = resolve(self.vhost, exchange, key)
        if ttl_s is not None:
            route = route.variant(0, ttl_s)
        self.sender.publish(route, b"message %d" % next(self._contents), CHARGE)

    def bound(self, **amounts: object) -> None:
        self.set("address", "news", **(amounts or {"capacity_messages": 1000}))

    def bounding(self) -> Steps[SettingsChange]:
        words = read_settings("address", "news", {"capacity-messages": 1000})
        return changes.set_settings_steps(self.broker, "address", "news", words)

    def step(self, steps: Steps[SettingsChange], units: int) -> bool:
        """Do some units of a change; returns whether any are left."""
        self.broker.work.limit = self.broker.work.done + units
        try:
            next(steps)
        except StopIteration:
            return False
        finally:
            self.broker.work.limit = UNLIMITED_WORK
        return True

    @property
    def address(self) -> AddressDepth:
        return self.broker.gates.depths[KEY]

    def amounts(self) -> tuple[int, int]:
        return int(self.address.messages), int(self.address.bytes)

    def copies(self, *sessions: Session) -> list[bytes]:
        """The messages of the exchange that are in queues or that these sessions have, by their contents."""
        there: list[Message] = []
        for queue in self.vhost.queues.values():
            there += queue.ready_queue.messages()
        for session in sessions:
            there += [message for _, _, message in session.unsettled.deliveries(1, session.unsettled.last_number())]
        return [message.content for message in there if message.envelope.exchange == "news"]

    def present(self) -> int:
        """The number of messages in queues and of its session, copies once."""
        return len(set(self.copies(self.session)))

    def get(self, name: str) -> None:
        self.session.get(self.vhost.queues[name], False, self.broker.now)

    def settle(self, outcome: Outcome) -> None:
        self.session.unsettled.settle(1, self.session.unsettled.last_number(), outcome, self.broker.now)


def test_late_bound_counts_messages_with_copies_once() -> None:
    house = Newsroom("abc")
    for _ in range(30):
        house.send()
    house.send("", "a")
    house.get("a")
    house.bound(capacity_messages=20)
    assert house.amounts() == (30, 30 * CHARGE)
    assert not house.address.gate.open
    house.send()
    assert house.depth("a") == 31
    for name in "abc":
        house.vhost.queues[name].purge(house.broker.now)
    assert house.amounts() == (1, CHARGE)
    house.settle(Outcome.ACCEPTED)
    house.later(1)
    assert house.amounts() == (1, CHARGE)  # The one that was held has gone on.


def test_count_takes_each_copy_beyond_the_recognised_copies_as_a_message() -> None:
    house = Newsroom("ab")
    for _ in range(5):
        house.send()
    depth = AddressDepth("news", Thresholds(Level(1000), Level(1000), Level(1000)), house.broker.turns)
    finish(AddressCount(house.broker, {"news": depth}, recognizes=2).run(list(house.vhost.queues.values())))
    assert int(depth.messages) == 8
    house.vhost.queues["a"].purge(house.broker.now)
    house.vhost.queues["b"].purge(house.broker.now)
    assert (int(depth.messages), int(depth.bytes)) == (0, 0)


def test_count_of_a_late_bound_is_in_slices_and_omits_removed_messages() -> None:
    house = Newsroom("ab")
    for _ in range(200):
        house.send()
    steps = house.bounding()
    while house.step(steps, 2) and (KEY not in house.broker.gates.depths or house.amounts()[0] < 20):
        pass
    assert 20 <= house.amounts()[0] < 30
    house.take("a")
    house.vhost.queues["b"].purge(house.broker.now)
    house.send()
    turns = 0
    while house.step(steps, 5):
        turns += 1
    assert turns >= 5
    assert house.amounts()[0] == 200 == house.present()
    house.vhost.queues["a"].purge(house.broker.now)
    house.vhost.queues["b"].purge(house.broker.now)
    assert house.amounts() == (0, 0)


def test_delivery_in_no_session_counts_after_the_return() -> None:
    house = Newsroom("a")
    house.send()
    other = Session()
    other.get(house.vhost.queues["a"], False, house.broker.now)
    house.bound()
    assert house.amounts() == (0, 0)
    house.broker.end_session(other)
    assert house.amounts() == (1, CHARGE)
    house.vhost.queues["a"].purge(house.broker.now)
    assert house.amounts() == (0, 0)


def test_queue_that_the_count_does_not_concern_tracks_no_removals() -> None:
    house = Newsroom("a")
    house.queue("other")
    house.send("", "other")
    house.send()
    house.bound()
    assert house.vhost.queues["a"].tracks_removals
    assert not house.vhost.queues["other"].tracks_removals
    assert house.vhost.queues["other"].membership.late_count is None


def test_bound_raised_or_set_again_counts_no_message_twice() -> None:
    house = Newsroom("ab")
    house.send()
    house.bound(capacity_messages=10)
    house.send()
    house.bound(capacity_messages=20)
    assert house.amounts()[0] == 2
    at_once.remove(house.broker, "address", "news", [])
    house.send()
    assert house.amounts()[0] == 2
    house.bound(capacity_messages=5)
    assert house.amounts() == (3, 3 * CHARGE)


def test_message_that_waits_for_the_queue_counts_with_a_bound_set_meanwhile() -> None:
    house = Newsroom("a", capacity_messages=2, stop_messages=1)
    for _ in range(4):
        house.send()
    assert house.depth("a") == 2
    house.bound()
    house.take("a", count=2)
    assert house.depth("a") == 2
    assert house.amounts() == (2, 2 * CHARGE)


OUTCOMES = {"ack": Outcome.ACCEPTED, "requeue": Outcome.FAILED, "reject": Outcome.REJECTED}
ACTIONS = st.sampled_from(
    [
        "send",
        "send",
        "send elsewhere",
        "send short",
        "get",
        "get",
        "lend",
        "give back",
        *OUTCOMES,
        "purge",
        "expire",
        "delete",
        "unset",
        "set",
    ]
)
EVENTS = st.lists(st.tuples(ACTIONS, st.sampled_from("abc")), max_size=20)


class Story:
    """What happens to a newsroom, with its bound being set a slice at a time."""

    def __init__(self) -> None:
        self.house = Newsroom("abc", dead_letter_exchange="", dead_letter_routing_key="dead")
        self.house.queue("dead")
        self.other = Session()
        """A session that the count does not visit."""
        self.lent = False
        self.steps: Steps[SettingsChange] | None = None
        """The change under way."""
        self.bounded = False
        self.depth: AddressDepth | None = None

    def happen(self, action: str, name: str) -> None:
        house, queue = self.house, self.house.vhost.queues.get(name)
        if action.startswith("send"):
            elsewhere = action == "send elsewhere"
            house.send("" if elsewhere else "news", name, 0.5 if action == "send short" else None)
        elif action in OUTCOMES:
            house.settle(OUTCOMES[action])
        elif action == "give back":
            house.broker.end_session(self.other)
            self.other = Session()
        elif queue is not None:
            self._happen_to(queue, action)
        if self.steps is None:
            self._change(action)
        elif not house.step(self.steps, 1):
            self.steps, self.bounded = None, True
        house.broker.run(1000)
        self.depth = house.broker.gates.depths.get(KEY, self.depth)

    def _happen_to(self, queue: Queue, action: str) -> None:
        broker = self.house.broker
        if action == "get":
            self.house.get(queue.name)
        elif action == "lend":
            self.other.get(queue, False, broker.now)
            self.lent = True
        elif action == "purge":
            queue.purge(broker.now)
        elif action == "expire":
            broker.begin(broker.now + 1)
            expire(queue, broker.now, broker.now)
        elif action == "delete" and queue.name == "c":
            broker.delete_queue(queue)

    def _change(self, action: str) -> None:
        if action == "unset" and self.bounded:
            at_once.remove(self.house.broker, "address", "news", [])
            self.bounded = False
        elif action == "set":
            self.steps = self.house.bounding()

    def check(self) -> None:
        if self.depth is None:
            return
        # A copy that the other session returns later may count by itself.
        house, present = self.house, self.house.present()
        assert self.depth.messages <= (len(house.copies(house.session, self.other)) if self.lent else present)
        assert self.depth.bytes == self.depth.messages * CHARGE
        assert self.depth.messages >= present or not self.bounded or self.steps is not None

    def end(self) -> None:
        """Remove all messages."""
        for _ in self.steps or ():
            pass
        self.house.broker.end_session(self.other)
        for queue in self.house.vhost.queues.values():
            queue.purge(self.house.broker.now)
        self.house.settle(Outcome.ACCEPTED)
        self.house.broker.run(1000)


@settings(max_examples=examples(600))
@given(st.lists(st.sampled_from([None, 0.5]), min_size=5, max_size=20), EVENTS, EVENTS, EVENTS)
def test_depth_of_an_address_is_the_sum_over_the_queues(
    earlier: list[float | None],
    before: list[tuple[str, str]],
    meanwhile: list[tuple[str, str]],
    after: list[tuple[str, str]],
) -> None:
    story = Story()
    for ttl_s in earlier:
        story.house.send(ttl_s=ttl_s)
    for action, name in [*before, ("set", ""), *meanwhile, ("set", ""), *after]:
        story.happen(action, name)
        story.check()
    story.end()
    assert story.depth is None or (int(story.depth.messages), int(story.depth.bytes)) == (0, 0)
