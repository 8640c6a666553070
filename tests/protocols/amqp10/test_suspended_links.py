"""Suspended links: stored state with its bounds, timeouts, and stolen links."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.driver.driver import BrokerDriver
from penstock.protocols.amqp10 import suspended_links
from penstock.settings.pools import OUTCOMES
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import as_described, composite
from penstock.wire.amqp10.frames import frame
from penstock.wire.amqp10.values import Symbol
from tests.profiles import examples
from tests.support.amqp10_dialogue import (
    Amqp10Dialogue,
    accepted,
    condition,
    data_section,
    names,
    performative,
    transfers,
)
from tests.support.suspended_receivers import detach, owner, receiver, source


@pytest.mark.parametrize(
    "terminus",
    [{"expiry_policy": "link-detach"}, {"capabilities": ["shared"]}, {"timeout": 60, "capabilities": ["shared"]}],
)
def test_link_without_a_timeout_is_not_suspended(terminus: dict[str, object]) -> None:
    client = receiver(**terminus)
    detach(client)
    assert (client.available(), owner(client).count()) == (3, 0)


@pytest.mark.parametrize("terminus", [{}, {"expiry_policy": "session-end"}])
def test_deliveries_of_a_detached_link_can_be_settled_until_the_session_ends(
    terminus: dict[str, object],
) -> None:
    client = receiver(4, **terminus)
    detach(client)
    assert (client.available(), client.depth("q"), owner(client).count()) == (0, 4, 1)
    client.settle(0, 1, accepted())
    client.settle(2, 2, composite(spec.RELEASED))
    assert (client.available(), client.depth("q")) == (1, 2)
    client.say(performative(spec.END))
    assert (client.available(), client.depth("q"), owner(client).count()) == (2, 2, 0)


@pytest.mark.parametrize("other_session", [False, True])
def test_link_that_was_detached_in_a_session_is_resumed(other_session: bool) -> None:
    client = receiver()
    detach(client)
    channel = 1 if other_session else 0
    if other_session:
        client.begin(1)
    tags = [(0).to_bytes(8, "big"), (1).to_bytes(8, "big"), (2).to_bytes(8, "big")]
    first = int.from_bytes(tags[0], "big") + 1
    unsettled = {(first + at).to_bytes(8, "big"): as_described(accepted()) if at == 0 else None for at in range(2)}
    heard = client.attach_receiver(
        None, 10, channel=channel, credit=9, name="r10", source=source(), unsettled=unsettled
    )
    resumed = [each.performative.flag("resume") for each in transfers(heard)]
    assert (resumed, client.depth("q")) == ([True, True, False], 2)
    client.say(performative(spec.END, channel))
    assert (client.available(), owner(client).count()) == (2, 0)


def test_deliveries_not_sent_on_a_detached_link_return_to_the_queue() -> None:
    client = Amqp10Dialogue(session=False)
    client.begin(0, incoming_window=2)
    client.declare("q")
    client.attach_sender("/queues/q")
    client.put(*(b"%d" % n for n in range(5)), settled=True)
    client.say(
        performative(spec.ATTACH, name="r10", handle=10, role=True, source=source(), target=composite(spec.TARGET))
    )
    windows = {"next_incoming_id": 0, "incoming_window": 2, "next_outgoing_id": 5, "outgoing_window": 9}
    heard = client.say(performative(spec.FLOW, **windows, handle=10, delivery_count=0, link_credit=5))
    assert len(transfers(heard)) == 2
    detach(client)
    assert (client.available(), client.depth("q")) == (3, 5)
    client.settle(0, 1, accepted())
    assert client.depth("q") == 3


def test_detached_link_returns_the_deliveries_before_the_ack_timeout() -> None:
    client = receiver()
    client.driver.begin(100.0)
    detach(client)
    back = 0.0
    for now in range(100, 2_100, 30):
        heard = client.listen(float(now))
        assert names(heard + client.say(frame(0, b""))) == []
        if not back and client.available():
            back = now
    assert 1_000 <= back <= 1_030
    assert (client.available(), owner(client).count()) == (3, 0)


def test_closed_link_is_not_suspended() -> None:
    client = receiver(expiry_policy="never")
    detach(client, True)
    assert (client.available(), owner(client).count()) == (3, 0)


def test_unsettled_messages_stay_with_the_link_until_the_timeout() -> None:
    client = receiver(expiry_policy="link-detach", timeout=60)
    client.driver.begin(100.0)
    detach(client)
    client.attach_receiver("q", 11, credit=10)
    assert client.available() == 0
    client.listen(159.0)
    assert (client.depth("q"), owner(client).count()) == (3, 1)
    assert len(transfers(client.listen(161.0))) == 3
    assert owner(client).count() == 0


def test_timeout_begins_with_the_end_of_the_session() -> None:
    client = receiver(expiry_policy="session-end", timeout=60)
    client.driver.begin(100.0)
    detach(client)
    client.listen(500.0)
    assert owner(client).count() == 1
    client.say(performative(spec.END))
    client.listen(559.0)
    assert owner(client).count() == 1
    client.listen(561.0)
    assert (owner(client).count(), client.available()) == (0, 3)


@pytest.mark.parametrize("how", ["end", "close", "loss"])
def test_attached_link_is_suspended_by_the_end_of_session_or_connection(how: str) -> None:
    client = receiver(expiry_policy="connection-close", timeout=10)
    client.driver.begin(100.0)
    suspended = owner(client)
    if how == "loss":
        client.driver.disconnect(client.connection)
        client.driver.begin(100.0)
    else:
        client.say(performative(spec.END if how == "end" else spec.CLOSE))
    assert (suspended.count(), client.available(), client.depth("q")) == (1, 0, 3)
    other = Amqp10Dialogue(client.driver)
    other.listen(111.0)
    assert suspended.count() == (1 if how == "end" else 0)


def test_link_that_never_expires_is_released_after_the_acknowledgement_timeout() -> None:
    client = receiver(expiry_policy="never")
    client.driver.begin(100.0)
    detach(client)
    client.driver.disconnect(client.connection)
    other = Amqp10Dialogue(client.driver)
    other.listen(1_899.0)
    assert owner(other).count() == 1
    other.listen(1_901.0)
    assert (owner(other).count(), other.available()) == (0, 3)


@pytest.mark.parametrize(
    ("own_s", "queue_s", "longest_s"),
    [(None, 600, 600), (60, 600, 60), (600, 60, 60), (None, None, 1800), (60, None, 60)],
)
@pytest.mark.parametrize("session_ends", [True, False], ids=["session ended", "session goes on"])
def test_suspended_deliveries_return_after_the_shorter_timeout_of_link_and_queue(
    own_s: int | None, queue_s: int | None, longest_s: int, session_ends: bool
) -> None:
    client = Amqp10Dialogue(idle_time_out=None)
    client.declare("q", **({} if queue_s is None else {"consumer_timeout": queue_s * 1000})).attach_sender("/queues/q")
    client.put(b"1", settled=True)
    own: dict[object, object] = {} if own_s is None else {Symbol("consumer-timeout"): own_s * 1000}
    terminus = source(expiry_policy="never" if session_ends else "session-end")
    client.driver.begin(100.0)
    assert len(transfers(client.attach_receiver(None, 10, credit=1, source=terminus, properties=own or None))) == 1
    detach(client)
    if session_ends:
        client.say(performative(spec.END))
    else:
        longest_s //= 2  # The deliveries return before the timeout of their session would return them.
    for now in [*range(100, 100 + longest_s - 1, 20), 100 + longest_s - 1]:
        client.listen(float(now))
        client.say(frame(0, b""))
    assert client.available() == 0
    client.listen(100.0 + longest_s + 1)
    assert client.available() == 1


def test_link_that_was_suspended_first_gives_way_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    client = receiver(expiry_policy="never")
    detach(client)
    for number in range(suspended_links.PER_CONTAINER):
        suspended = owner(client)
        key = ("/", "guest", "test", True, f"other{number}")
        expiry = suspended_links.Expiry(composite(spec.SOURCE, expiry_policy="never"))
        kept = suspended_links.SuspendedSender(suspended, key, expiry, {b"t": b""})
        suspended.suspend(kept, None, 0)
    assert owner(client).count() == suspended_links.PER_CONTAINER
    assert client.available() == 3


def test_outcomes_of_suspended_senders_are_bounded() -> None:
    client = receiver()
    suspended = owner(client)
    expiry = suspended_links.Expiry(composite(spec.SOURCE, expiry_policy="never"))
    for number in range(60):
        key = ("/", "guest", f"c{number}", False, "s")
        outcomes = {b"%d" % n: b"" for n in range(2048)}
        suspended.suspend(suspended_links.SuspendedSender(suspended, key, expiry, outcomes), None, 0)
    assert suspended.outcomes.taken <= OUTCOMES.limit
    assert suspended.count() == OUTCOMES.limit // 2048


def test_suspended_link_of_the_user_with_most_expires_first() -> None:
    client = receiver()
    suspended = owner(client)
    suspended.links.set_limit(20)
    expiry = suspended_links.Expiry(composite(spec.SOURCE, expiry_policy="never"))
    for user, count in (("bob", 2), ("eve", 50), ("bob", 1)):
        for number in range(count):
            key = ("/", user, f"c{number} {count}", False, "s")
            suspended.suspend(suspended_links.SuspendedSender(suspended, key, expiry, {}), None, 0)
    assert suspended.links.holders() == [("eve", "/", 17), ("bob", "/", 3)]
    assert suspended.count() == 20


def test_link_of_the_same_container_and_name_steals() -> None:
    client = receiver()
    heard = client.attach_receiver("q", 20, name="r10", credit=5)
    assert names(heard)[:2] == ["detach", "attach"]
    assert condition(heard[0]) == "amqp:link:stolen"
    assert len(transfers(heard)) == 3
    assert client.detach(10) == []


def test_link_is_stolen_by_another_connection_of_the_same_container_only() -> None:
    client = receiver()
    stranger = Amqp10Dialogue(client.driver, container_id="another")
    stranger.attach_receiver("q", 1, name="r10")
    assert client.listen() == []
    thief = Amqp10Dialogue(client.driver)
    thief.attach_receiver("q", 1, name="r10")
    (stolen,) = client.listen()
    assert condition(stolen) == "amqp:link:stolen"
    assert thief.attach_sender("q", 2, name="r10")[0].name == "attach", "a sender may have the name of a receiver"
    assert thief.listen() == []


def test_links_to_management_are_not_stolen_and_end_apart() -> None:
    client = Amqp10Dialogue()
    vhost = client.vhost
    for handle in (1, 2):
        assert names(client.attach_receiver("/management", handle, name="pair")) == ["attach"]
    assert len(vhost.replies) == 2
    client.detach(1)
    assert len(vhost.replies) == 1
    client.say(performative(spec.END))
    assert vhost.replies == {}


def test_browser_of_management_leaves_no_queue_behind() -> None:
    client = Amqp10Dialogue()
    source = composite(spec.SOURCE, address="/management", distribution_mode="copy")
    assert names(client.attach_receiver(None, 1, source=source)) == ["attach"]
    client.say(performative(spec.END))
    assert client.vhost.replies == {}


def test_stolen_link_is_resumed_if_the_terminus_outlives_the_detach() -> None:
    client = receiver(expiry_policy="never")
    thief = Amqp10Dialogue(client.driver)
    tags = {(n).to_bytes(8, "big"): None for n in range(1, 3)}
    heard = thief.attach_receiver(None, 1, name="r10", source=source(expiry_policy="never"), unsettled=tags)
    assert set(heard[0].performative.mapping("unsettled")) == set(tags)
    resumed = transfers(thief.flow(1, 10))
    assert [each.field("resume") for each in resumed] == [True, True, False]
    thief.settle(0, 2, accepted())
    assert client.depth("q") == 0


class Receiver:
    """A receiver that suspends and resumes its link, and what it knows of its deliveries."""

    def __init__(self, driver: BrokerDriver) -> None:
        self.client = Amqp10Dialogue(driver, session=False)
        self.unsettled: dict[bytes, object] = {}
        """Encoded outcome by tag; None for those without one."""
        self.ids: dict[bytes, int] = {}
        self.count = 0
        self.accepted = 0
        self.attached = False
        self.client.begin(0)

    def again(self, how: str) -> None:
        """Lose the link in one of several ways."""
        if how == "disconnect":
            self.client.driver.disconnect(self.client.connection)
            self.client = Amqp10Dialogue(self.client.driver, session=False)
            self.client.begin(0)
        elif how == "end":
            self.client.say(performative(spec.END))
            self.client.begin(0)
        elif self.attached:
            self.client.detach(1, closed=False)
        self.attached = False
        self.ids = {}

    def attach(self, remembers: bool) -> None:
        if self.attached:
            return
        if not remembers:
            self.unsettled = {}
        given = {tag: None if code is None else as_described(composite(code)) for tag, code in self.unsettled.items()}
        (attached,) = self.client.attach_receiver(None, 1, source=source(timeout=60), unsettled=given or None)
        known = attached.performative.mapping("unsettled")
        self.unsettled = {tag: code for tag, code in self.unsettled.items() if tag in known}
        self.accepted += list(self.unsettled.values()).count(spec.ACCEPTED)
        self.count, self.attached = 0, True

    def take(self, credit: int) -> None:
        if not self.attached:
            return
        for each in transfers(self.client.flow(1, credit, delivery_count=self.count)):
            tag = each.field("delivery_tag")
            assert isinstance(tag, bytes)
            assert each.field("resume") is (tag in self.unsettled)
            assert tag not in self.ids
            self.count += 1
            if each.field("settled"):
                del self.unsettled[tag]
            else:
                self.unsettled.setdefault(tag, None)
                self.ids[tag] = each.performative.number("delivery_id")

    def settle(self, code: int, told: bool) -> None:
        """Decide the oldest delivery, and tell the broker."""
        for tag, before in self.unsettled.items():
            if before is None:
                if not told:
                    self.unsettled[tag] = code
                elif tag in self.ids:
                    self.client.settle(self.ids[tag], self.ids[tag], composite(code))
                    del self.unsettled[tag]
                    self.accepted += int(code == spec.ACCEPTED)
                return


STEPS = st.one_of(
    st.tuples(st.just("take"), st.integers(1, 4)),
    st.tuples(st.just("settle"), st.sampled_from([spec.ACCEPTED, spec.RELEASED]), st.booleans()),
    st.tuples(st.just("lose"), st.sampled_from(["detach", "end", "disconnect"])),
    st.tuples(st.just("attach"), st.booleans()),
    st.tuples(st.just("publish")),
)


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_messages_are_neither_lost_nor_duplicated_by_suspended_links(steps: list[tuple[Any, ...]]) -> None:
    publisher = Amqp10Dialogue(container_id="publisher").declare("q")
    publisher.attach_sender("q")
    receiver = Receiver(publisher.driver)
    queue = publisher.vhost.queues["q"]
    published = 0
    for what, *how in [("publish",), ("publish",), ("attach", True), *steps]:
        if what == "publish":
            publisher.say(publisher.transfer(data_section(b"x"), settled=True))
            published += 1
        elif what == "take":
            receiver.take(how[0])
        elif what == "settle":
            receiver.settle(how[0], how[1])
        elif what == "lose":
            receiver.again(how[0])
        else:
            receiver.attach(how[0])
        publisher.listen()
        assert int(queue.messages) == int(queue.available()) + int(queue.unacked_messages)
        assert int(queue.messages) == published - receiver.accepted
        sequences = [message.sequence for message in queue.ready_queue.messages()]
        assert len(set(sequences)) == len(sequences)
    receiver.again("disconnect")
    publisher.listen(publisher.driver.broker.now + 4000.0)
    assert (int(queue.unacked_messages), owner(publisher).count()) == (0, 0)
    assert int(queue.messages) == int(queue.available())
