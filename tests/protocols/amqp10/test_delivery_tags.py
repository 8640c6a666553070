"""Delivery-tags of unsettled deliveries of a link: each is used once at a time (section 2.6.12)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.flow.pool import Pools
from penstock.protocols.amqp10.delivery_tags import (
    OF_CONNECTION_MAX,
    TAGS_MAX,
    DeliveryTags,
    StoredTags,
    TagCount,
)
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from tests.profiles import examples
from tests.support.amqp10_dialogue import Amqp10Dialogue, accepted, condition, data_section, names, performative, sender
from tests.support.broker_fixture import House

BODY = data_section(b"x")


@pytest.mark.parametrize("tag", [b"", b"t", b"\0\0\0\1", bytes(8), b"\xff" * 8, b"0123456789abcdef"])
def test_tag_of_an_unsettled_delivery_cannot_be_used_again(tag: bytes) -> None:
    client = sender()
    twice = [client.transfer(BODY, delivery_tag=tag) for _ in range(2)]
    accepted_first, detached = client.say(*twice)
    assert (accepted_first.name, accepted_first.field("first"), accepted_first.field("last")) == (
        "disposition",
        0,
        None,
    )
    assert condition(detached) == "amqp:invalid-field"
    assert client.depth("q") == 1


@pytest.mark.parametrize("between", [0, 1, 5])
def test_tag_can_be_used_again_only_after_the_outcome_was_sent(between: int) -> None:
    client = sender(capacity_messages=10, stop_messages=1, resume_messages=1)
    again = {"delivery_tag": b"again"}
    assert names(client.say(client.transfer(BODY, **again))) == ["disposition"]
    client.say(client.transfer(BODY, **again))  # Its outcome is withheld: the gate is closed.
    client.say(*(client.transfer(BODY) for _ in range(between)))
    assert condition(client.say(client.transfer(BODY, **again))[-1]) == "amqp:invalid-field"


@pytest.fixture
def total() -> TagCount:
    return TagCount(StoredTags(House().broker.gates, Pools()))


@pytest.mark.parametrize("octets", range(1, 9))
def test_tags_that_count_are_not_stored(octets: int, total: TagCount) -> None:
    tags = DeliveryTags(total)
    for number in range(1, 100):
        tag = number.to_bytes(octets, "big")
        assert tags.take(tag + bytes(8), 0, octets, number, 0)
        assert total.count == 0
    assert tags.tag_of(50) == (50).to_bytes(octets, "big")
    assert not tags.take((50).to_bytes(octets, "big") + bytes(8), 0, octets, 100, 0)


@pytest.mark.parametrize("told", [0, 40])
def test_tags_that_grow_with_gaps_are_recognised_without_being_stored(told: int, total: TagCount) -> None:
    tags = DeliveryTags(total)
    given = [number + 7 * (number // 3) for number in range(100)]
    for number, tag in enumerate(given, 1):
        assert tags.take(tag.to_bytes(8, "big"), 0, 8, number, 0)
    assert total.count == 0
    tags.forget(told)
    assert [tags.tag_of(number) for number in range(told + 1, 101)] == [tag.to_bytes(8, "big") for tag in given[told:]]
    for number in range(told + 1, 101):
        assert not tags.take(given[number - 1].to_bytes(8, "big"), 0, 8, 101, told)
    assert total.count == 100 - told
    assert tags.take((2 << 40).to_bytes(8, "big"), 0, 8, 101, told)


def test_runs_of_tags_are_bounded_by_the_bound_of_stored_tags(total: TagCount) -> None:
    tags = DeliveryTags(total)
    for number in range(1, TAGS_MAX + 3):
        assert tags.take((2 * number).to_bytes(4, "big") + bytes(4), 0, 4, number, 0)
    assert 0 < total.count <= TAGS_MAX
    tags.forget(TAGS_MAX + 2)
    assert total.count == 0


@pytest.mark.parametrize("tags", [(b"a", b"a"), (b"a", b"b", b"a")])
def test_tag_of_a_settled_delivery_can_be_used_again(tags: tuple[bytes, ...]) -> None:
    client = sender()
    said = [client.transfer(BODY, delivery_tag=tag, settled=True) for tag in tags]
    assert names(client.say(*said)) == []
    assert client.depth("q") == len(tags)


def test_tag_of_a_refused_delivery_can_be_used_again_and_so_can_that_of_another_link() -> None:
    client = sender()
    client.attach_sender("/queues/q", 1)
    malformed = [client.transfer(b"\x00", delivery_tag=b"a") for _ in range(3)]
    good = [client.transfer(BODY, handle, delivery_tag=b"a") for handle in (0, 1)]
    assert names(client.say(*malformed, *good)) == ["disposition"] * 4
    assert client.depth("q") == 2


@pytest.fixture
def client() -> Amqp10Dialogue:
    return Amqp10Dialogue().declare("q")


def test_tag_that_the_sender_must_settle_is_used_until_then(client: Amqp10Dialogue) -> None:
    client.attach_sender("q", rcv_settle_mode=1)
    again = {"delivery_tag": b"again"}
    assert client.say(client.transfer(BODY, **again))[0].field("settled") is not True
    client.say(performative(spec.DISPOSITION, role=False, first=0, settled=True, state=accepted()))
    assert names(client.say(client.transfer(BODY, **again))) == ["disposition"]
    assert condition(client.say(client.transfer(BODY, **again))[0]) == "amqp:invalid-field"


def test_delivery_tag_of_a_refused_delivery_can_be_used_again() -> None:
    client = Amqp10Dialogue().declare("held", capacity_messages=10, stop_messages=0, resume_messages=0)
    client.declare("full", capacity_messages=1, x_overflow="reject-publish")
    client.attach_sender(None)
    held, full = (encode(spec.PROPERTIES, to=f"/queues/{queue}") + BODY for queue in ("held", "full"))
    assert names(client.say(client.transfer(full, delivery_tag=b"a"))) == ["disposition"]
    client.say(client.transfer(held, delivery_tag=b"b"))
    for _ in range(3):
        (refused,) = client.say(client.transfer(full, delivery_tag=b"c"))
        assert condition(refused) == "amqp:resource-limit-exceeded"
    assert condition(client.say(client.transfer(full, delivery_tag=b"b"))[0]) == "amqp:invalid-field"


def test_first_frame_of_a_delivery_in_several_frames_has_an_own_tag() -> None:
    client = sender()
    whole = client.transfer(BODY, delivery_tag=b"a")
    assert condition(client.say(whole, client.transfer(BODY, delivery_tag=b"a", more=True))[-1]) == "amqp:invalid-field"


class Model:
    """All tags in use, one by one."""

    def __init__(self) -> None:
        self.used: dict[int, bytes] = {}

    def take(self, tag: bytes, number: int) -> bool:
        self.used.pop(number, None)
        new = tag not in self.used.values()
        if new:
            self.used[number] = tag
        return new


TAGS = st.one_of(
    st.integers(0, 12).map(lambda value: value.to_bytes(4, "big")),
    st.integers(0, 12).map(lambda value: b"%d" % value),
    st.sampled_from([b"", bytes(8), b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\x80" + bytes(7), b"0123456789abcdef"]),
)
STEPS = st.one_of(
    st.tuples(st.just("next"), st.just(b"")),
    st.tuples(st.just("take"), TAGS),
    st.tuples(st.just("refused"), TAGS),
    st.tuples(st.just("told"), st.integers(0, 4)),
    st.tuples(st.just("told early"), st.integers(0, 4)),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_tags_are_new_as_in_a_list_of_all_tags(steps: list[tuple[str, bytes | int]]) -> None:
    tags, model = DeliveryTags(TagCount(StoredTags(House().broker.gates, Pools()))), Model()
    published = told = counter = 0
    for what, how in steps:
        if what == "told":
            assert isinstance(how, int)
            told = min(told + how, published)
            tags.forget(told)
            model.used = {number: tag for number, tag in model.used.items() if number > told}
        elif what == "told early":
            assert isinstance(how, int)
            tags.drop(max(published - how, 1), told)
            model.used.pop(max(published - how, 1), None)
        else:
            counter += 1
            tag = counter.to_bytes(8, "big") if what == "next" else how
            assert isinstance(tag, bytes)
            frame = b"before" + tag + b"a payload, maybe"[: 16 * (counter % 2)]
            new = tags.take(frame, 6, 6 + len(tag), published + 1, told)
            assert new is model.take(tag, published + 1)
            published += new and what != "refused"
        known = {number: tag for number in range(told + 1, published + 1) if (tag := tags.tag_of(number)) is not None}
        assert known == {number: tag for number, tag in model.used.items() if number <= published}


def test_tags_that_count_are_not_stored_and_stored_tags_are_bounded(total: TagCount) -> None:
    counting, other = DeliveryTags(total), DeliveryTags(total)
    for number in range(1, 3 * TAGS_MAX):
        tag = number.to_bytes(8, "big")
        assert counting.take(tag, 0, 8, number, 0)
        assert other.take(tag[::-1] + b"-", 0, 9, number, 0)
    assert total.count == TAGS_MAX
    many = [DeliveryTags(total) for _ in range(OF_CONNECTION_MAX // TAGS_MAX + 1)]
    for each in many:
        for number in range(1, TAGS_MAX):
            each.take(b"%12d" % number, 0, 12, number, 0)
    assert total.count == OF_CONNECTION_MAX
    for each in [other, *many]:
        each.end()
    assert total.count == 0
