"""Lanes of producers: coverage of their marks, their owners, and their bounds."""

from __future__ import annotations

import pytest

from penstock.core.message import StoredMessage
from penstock.core.publish import producer_lanes
from penstock.core.publish.held import withdraw
from penstock.core.publish.producer import Producer
from penstock.core.publish.producer_lanes import (
    NAMED_IDLE_S,
    UNNAMED_IDLE_S,
    WINDOW_MAX,
    BegunLane,
    LaneRecord,
    LaneRequest,
)
from penstock.core.publish.waiting_publisher import ProducerState
from penstock.errors import Fenced, PreconditionFailed, ResourceError, ResourceLocked
from tests.support.broker_fixture import House
from tests.support.durable_broker import Kept
from tests.support.sender_links import CHARGE


class Lanes:
    """A house, and the sessions of lanes in it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.lanes = house.broker.producer_lanes

    def begin(
        self,
        epoch: int,
        lane: str = "l",
        user: str = "alice",
        window: int = 100,
        producer: str = "p",
        named: bool = False,
    ) -> tuple[Producer, BegunLane]:
        session = self.house.producer(f"{producer}/{lane}/{epoch}")
        session.prompt = True
        return session, self.lanes.begin(session, "/", user, LaneRequest(producer, lane, epoch, window, named))

    def answer(self, epoch: int, lane: str = "l") -> tuple[bool, int, list[int]]:
        found = self.begin(epoch, lane)[1]
        return found.known, int(found.taken), found.refused


@pytest.fixture
def lanes(house: House) -> Lanes:
    return Lanes(house)


def test_next_session_continues_after_the_last_session(house: House, lanes: Lanes) -> None:
    house.queue("a")
    session, begun = lanes.begin(1)
    assert (begun.known, begun.taken, begun.refused) == (False, 0, [])
    house.publish(session, "a", CHARGE, count=3)
    session.abort()
    session, begun = lanes.begin(2)
    assert (begun.known, begun.taken) == (True, 3)
    house.publish(session, "a", CHARGE)
    session.abort()
    assert lanes.answer(3) == (True, 4, [])


def test_held_publishes_are_not_covered_and_refused_publishes_are_named(house: House, lanes: Lanes) -> None:
    house.queue("a", capacity_messages=2, stop_messages=1)
    session, _ = lanes.begin(1)
    house.publish(session, "a", CHARGE, count=5)
    assert withdraw(session, 3)
    assert withdraw(session, 5)
    house.take("a", count=2)
    house.later(0)
    assert not session.outbox
    house.publish(session, "a", CHARGE)
    house.publish(session, "a", CHARGE)  # It is held.
    assert house.depth("a") == 2
    session.abort()
    assert lanes.answer(2) == (True, 6, [3, 5])
    assert lanes.answer(3) == (True, 6, [3, 5]), "the client has not heard it perhaps"


def test_refused_publish_behind_a_held_publish_is_named_once_and_renumbered(house: House, lanes: Lanes) -> None:
    house.queue("a", capacity_messages=2, stop_messages=1)
    session, _ = lanes.begin(1)
    house.publish(session, "a", CHARGE, count=4)
    assert withdraw(session, 4)
    session.abort()
    assert lanes.answer(2) == (True, 2, [4])
    assert lanes.answer(3) == (True, 2, [])


def test_higher_epoch_ends_the_former_session_and_drops_the_held_publishes(house: House, lanes: Lanes) -> None:
    house.queue("a", capacity_messages=2, stop_messages=1)
    session, _ = lanes.begin(1)
    house.publish(session, "a", CHARGE, count=4)
    _, begun = lanes.begin(2)
    assert begun.taken == 2
    assert not session.outbox
    assert session.state is ProducerState.CLOSING
    assert isinstance(session.closing, ResourceLocked)
    house.take("a", count=2)
    house.publish(session, "a", CHARGE)
    assert house.depth("a") == 0, "a half-open connection can bring no more"
    session.abort()
    assert lanes.answer(3) == (True, 2, [])


def test_epoch_without_an_increase_is_fenced(lanes: Lanes) -> None:
    session, _ = lanes.begin(2)
    for epoch in (1, 2):
        with pytest.raises(Fenced, match=f"epoch 2, and {epoch} is not higher"):
            lanes.begin(epoch)
    assert session.state is ProducerState.OPEN


def test_lanes_of_a_producer_are_numbered_apart(house: House, lanes: Lanes) -> None:
    house.queue("a")
    one, _ = lanes.begin(1, "one")
    two, _ = lanes.begin(1, "two")
    for session in (one, two, one):
        house.publish(session, "a", CHARGE)
    assert lanes.answer(2, "one") == (True, 2, [])
    assert lanes.answer(2, "two") == (True, 1, [])


def test_publish_to_a_deleted_queue_and_a_returned_publish_have_numbers(house: House, lanes: Lanes) -> None:
    house.queue("a", capacity_messages=1, stop_messages=1, resume_messages=0)
    session, _ = lanes.begin(1)
    house.publish(session, "a", CHARGE)
    house.publish(session, "a", CHARGE)  # It is held until its queue is deleted, and refused then.
    house.broker.delete_queue(house.vhost.queues["a"])
    house.later(0)
    assert not session.outbox
    mandatory = house.vhost.route("", "nowhere", True)
    house.vhost.resolve(mandatory, {})
    session.publish(mandatory, b"x", CHARGE)
    house.publish(session, "nowhere", CHARGE)
    session.abort()
    assert lanes.answer(2) == (True, 4, [2, 3])


def test_outcome_reported_by_other_means_has_a_number(house: House, lanes: Lanes) -> None:
    house.queue("a", capacity_messages=2, stop_messages=1)
    session, _ = lanes.begin(1)
    house.publish(session, "a", CHARGE)
    session.confirms.number_decided(True)
    session.confirms.number_decided(False)
    house.publish(session, "a", CHARGE)
    assert [(int(each.first), int(each.last)) for each in session.confirms.take()] == [(1, 1), (4, 4)]
    assert session.confirms.confirmed() == 2
    house.publish(session, "a", CHARGE)  # It is held.
    session.confirms.number_decided(True)
    session.abort()
    assert lanes.answer(2) == (True, 4, [2, 6])


def test_lanes_of_two_users_with_the_same_names_are_apart(house: House, lanes: Lanes) -> None:
    house.queue("a")
    _, begun = lanes.begin(9, user="mallory", named=True)
    assert not begun.known
    session, begun = lanes.begin(1, named=True)
    assert not begun.known, "whoever comes first has no right to the name"
    house.publish(session, "a", CHARGE)
    lanes.begin(10, user="mallory")
    assert session.state is ProducerState.OPEN, "nobody else fences it"
    house.publish(session, "a", CHARGE)
    session.abort()
    assert lanes.answer(2) == (True, 2, [])
    lanes.lanes.drop_vhost("/")
    assert lanes.lanes.count() == 0


def test_later_mark_of_a_lane_counts_when_the_store_has_two(lanes: Lanes) -> None:
    def mark(epoch: int, taken: int) -> LaneRecord:
        record = LaneRecord("/", "p", "l", "alice")
        record.epoch, record.taken = epoch, taken
        return record

    for epoch, taken in ((2, 5), (1, 9), (2, 7), (2, 6)):
        lanes.lanes.restore(mark(epoch, taken))
    assert (lanes.lanes.count(), lanes.lanes._users["alice"].count) == (1, 1)
    assert lanes.answer(3) == (True, 7, [])


def test_session_that_has_published_or_has_a_lane_begins_none(house: House, lanes: Lanes) -> None:
    session, _ = lanes.begin(1)
    with pytest.raises(PreconditionFailed, match="before the first publish"):
        lanes.lanes.begin(session, "/", "alice", LaneRequest("p", "m", 1, 10, False))
    house.queue("a")
    late = house.published("late", "a", CHARGE)
    with pytest.raises(PreconditionFailed, match="before the first publish"):
        lanes.lanes.begin(late, "/", "alice", LaneRequest("p", "m", 1, 10, False))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (("", "l", 1, 1), "'producer' must have 1 to 255"),
        (("p", "l" * 256, 1, 1), "'lane' must have 1 to 255 characters, not 256"),
        (("p", "l", 0, 1), "'epoch' must be a number from 1 on, not 0"),
        (("p", "l", 1, 0), "'window' must be a number from 1 to 4096, not 0"),
        (("p", "l", 1, WINDOW_MAX + 1), "'window' must be a number from 1 to 4096, not 4097"),
    ],
)
def test_request_out_of_range_is_refused(values: tuple[str, str, int, int], text: str) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        LaneRequest(*values, named=False)


@pytest.mark.parametrize(("named", "limit"), [(False, UNNAMED_IDLE_S), (True, NAMED_IDLE_S)])
def test_lane_without_a_session_is_dropped_in_time(house: House, lanes: Lanes, named: bool, limit: float) -> None:
    session, _ = lanes.begin(1, named=named)
    house.later(2 * NAMED_IDLE_S)
    assert lanes.lanes.count() == 1, "it has a session"
    session.abort()
    house.later(limit - 1)
    assert lanes.lanes.count() == 1
    house.later(2)
    assert lanes.lanes.count() == 0
    assert lanes.answer(2) == (False, 0, [])


def test_lane_of_longest_idleness_makes_room_for_another_lane_of_the_user(house: House, lanes: Lanes) -> None:
    most = producer_lanes.USER_LANES_MAX
    for number in range(most):
        record = LaneRecord("/", "p", str(number), "alice")
        record.named = number == 0
        house.broker.producer_lanes.restore(record)
    lanes.begin(1, "new")
    assert lanes.lanes.count() == most
    assert lanes.lanes.of("/", "alice", "p", "1") is None, "unnamed ones first"
    assert lanes.lanes.of("/", "alice", "p", "0") is not None
    lanes.begin(1, "his", user="bob")
    assert lanes.lanes.count() == most + 1


def test_user_whose_lanes_all_have_sessions_gets_no_more(house: House, lanes: Lanes) -> None:
    session, _ = lanes.begin(1)
    user = lanes.lanes._users["alice"]
    user.count = producer_lanes.USER_LANES_MAX
    with pytest.raises(ResourceError, match="user 'alice' has 20,000 lanes"):
        lanes.begin(1, "more")
    user.count = 1
    session.abort()


def test_mark_of_a_group_covers_the_messages_in_their_state_at_the_closing() -> None:
    house = Kept()
    lanes = Lanes(house)
    session, _ = lanes.begin(1)
    for _ in range(3):
        house.store(session, "a")
    [first] = house.journal.take()
    for _ in range(2):
        house.store(session, "a")  # The first group is encoded later.
    marks = [change.subject for change in first.changes if isinstance(change.subject, LaneRecord)]
    assert [int(mark.taken) for mark in marks] == [0, 3], "that of the beginning, and that of the messages"
    assert sum(isinstance(each, StoredMessage) for each in first.messages) == 3
    house.journal.written()
    [second] = house.journal.take()
    assert [int(c.subject.taken) for c in second.changes if isinstance(c.subject, LaneRecord)] == [5]


def test_group_has_a_single_mark_of_a_lane_that_two_sessions_publish_in() -> None:
    house = Kept()
    lanes = Lanes(house)
    session, _ = lanes.begin(1)
    house.write()
    house.store(session, "a")
    session.abort()
    session, begun = lanes.begin(2)
    assert begun.taken == 1
    house.store(session, "a")
    [group] = house.journal.take()
    marks = [change.subject for change in group.changes if isinstance(change.subject, LaneRecord)]
    assert [(int(mark.epoch), int(mark.taken)) for mark in marks] == [(2, 1), (2, 2)]


def test_transient_publishes_write_no_mark() -> None:
    house = Kept()
    lanes = Lanes(house)
    session, _ = lanes.begin(1)
    house.write()
    house.publish(session, "passing", CHARGE)
    assert house.journal.is_idle()
    session.abort()
    assert lanes.answer(2) == (True, 1, []), "the broker remembers until it is restarted"


def test_lanes_end_with_the_virtual_host(house: House, lanes: Lanes) -> None:
    session, _ = lanes.begin(1)
    lanes.lanes.drop_vhost("/")
    assert lanes.lanes.count() == 0
    assert session.lane is None
    session.abort()
