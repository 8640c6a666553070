"""Message formats: contents of several protocols in one broker."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.core.consume.outcome import Outcome
from penstock.core.deaths import DeathRecord
from penstock.core.message import Envelope, Message
from penstock.core.message_format import MessageFormat, MessageFormats, UnreadableContent
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.protocols.amqp10.message_format import Amqp10Format
from tests.support.broker_fixture import House
from tests.support.toy_format import ToyFormat

EVERY_PROPERTY = Properties(
    "text/plain",
    "gzip",
    {"a": 1, "b": [True, None, {"c": "x"}]},
    2,
    9,
    "c1",
    "replies",
    "5000",
    "m1",
    17,
    "t",
    "u",
    "app",
)


@pytest.fixture
def formats() -> MessageFormats:
    both = MessageFormats()
    both.add(Amqp091Format())
    both.add(ToyFormat())
    return both


def toy(body: bytes, **properties: object) -> bytes:
    return ToyFormat().encode(Properties(**properties), body)  # type: ignore[arg-type]


def test_format_is_found_by_the_first_byte(formats: MessageFormats) -> None:
    assert formats.of(toy(b"body")).name == "toy"
    assert formats.of(Amqp091Format().encode(Properties(), b"body")).name == "AMQP 0-9-1"
    assert formats.default.name == "AMQP 0-9-1", "the first one is the broker's own"


def test_content_without_a_known_format_is_a_clear_error(formats: MessageFormats) -> None:
    with pytest.raises(UnreadableContent, match="content of an unknown format: its first byte is 255"):
        formats.of(b"\xffbody")
    with pytest.raises(UnreadableContent, match="content without a byte"):
        formats.of(b"")


def test_message_formats_with_the_same_first_byte_are_refused(formats: MessageFormats) -> None:
    class Other(ToyFormat):
        def __init__(self) -> None:
            super().__init__()
            self.name = "other"
            self.first_octets = b"UT"

    with pytest.raises(ValueError, match="message formats toy and other have the same first byte 84"):
        formats.add(Other())
    with pytest.raises(UnreadableContent):
        formats.of(b"U")
    with pytest.raises(ValueError, match="message format none has no first byte"):
        formats.add(MessageFormat("none", b""))


@pytest.mark.parametrize("body", [b"", b"body", b"\x00\n" * 100_000])
def test_conversion_keeps_properties_and_body_each_way(formats: MessageFormats, body: bytes) -> None:
    frames, letters = formats.by_octet(2), formats.by_octet(ord("T"))
    there = formats.convert(frames.encode(EVERY_PROPERTY, body), letters)
    assert (letters.properties(there), letters.body(there)) == (EVERY_PROPERTY, body)
    back = formats.convert(there, frames)
    assert (frames.properties(back), frames.body(back)) == (EVERY_PROPERTY, body)
    assert formats.convert(there, letters) is there


def test_conversion_leaves_out_properties_that_the_target_cannot_carry(formats: MessageFormats) -> None:
    frames, letters = formats.by_octet(2), formats.by_octet(ord("T"))
    there = formats.convert(frames.encode(Properties(message_id="m", cluster_id="c"), b"body"), letters)
    assert there == b"T{}\nbody"
    back = formats.convert(toy(b"body", message_id="x" * 256), frames)
    assert (frames.properties(back), frames.body(back)) == (Properties(), b"body")


def test_conversion_of_unreadable_content_delivers_the_body_or_the_whole_content(formats: MessageFormats) -> None:
    frames = formats.by_octet(2)
    for content, body in ((b"T{\nbody", b"body"), (b"T{", b"T{"), (b"\xffabc", b"\xffabc"), (b"", b"")):
        converted = formats.convert(content, frames)
        assert (frames.properties(converted), frames.body(converted)) == (Properties(), body)


def test_message_format_has_defaults_for_methods_that_are_not_overridden(formats: MessageFormats) -> None:
    content = toy(b"body", headers={"a": 1, "CC": ["k", 5]})
    letters = formats.of(content)
    assert letters.headers(content) == {"a": 1, "CC": ["k", 5]}
    assert letters.copies(content) == ["k"]
    assert letters.body_bytes(content) == 4
    assert letters.charge(content) == len(content)
    counted = letters.with_headers(content, {"x-delivery-count": 2})
    assert counted is not None
    assert letters.headers(counted) == {"a": 1, "CC": ["k", 5], "x-delivery-count": 2}
    assert letters.with_headers(b"T{", {"a": 1}) is None
    assert letters.headers(b"T{") == {}
    assert letters.without_deaths(b"T{") is None


@pytest.mark.parametrize("octet", [ord("T"), 2, 0])
def test_headers_of_deaths_are_removed_and_all_else_stays(octet: int) -> None:
    known = MessageFormats()
    for each in (ToyFormat(), Amqp091Format(), Amqp10Format()):
        known.add(each)
    one = known.by_octet(octet)
    made = Properties(message_id="7", delivery_mode=2, headers={"x-a": 1, "b": "two"})
    content = one.encode(made, b"body")
    died = one.with_death(content, DeathRecord("q", "rejected", "in", "key", 5.0))
    assert died is not None
    assert len(one.headers(died)) == 9
    fresh = one.without_deaths(died)
    assert fresh is not None
    assert (one.headers(fresh), one.body(fresh)) == ({"x-a": 1, "b": "two"}, b"body")
    assert one.properties(fresh).message_id == "7"
    assert one.deaths(fresh) == []
    again = one.with_death(fresh, DeathRecord("q", "rejected", "in", "key", 6.0))
    assert again is not None
    assert one.death_entries(again)[0]["count"] == 1


def test_delivery_count_is_added_to_any_format_and_the_message_stays(formats: MessageFormats) -> None:
    message = Message(Envelope("", "q"), toy(b"body"), 300, 1, 0.0)
    assert formats.with_delivery_count(message) is message
    message.past = 3
    counted = formats.with_delivery_count(message)
    assert formats.of(counted.content).headers(counted.content) == {"x-delivery-count": 3}
    assert (counted.charge, counted.failures, message.content) == (300, 3, toy(b"body"))


def test_deaths_of_any_format_equal_the_deaths_of_frames(formats: MessageFormats) -> None:
    made = Properties(expiration="50", headers={"CC": ["copy"], "a": 1})
    records = [
        DeathRecord("q", "expired", "in", "key", 5.0),
        DeathRecord("r", "rejected", "in", "key", 6.0, True, True),
    ]
    found = []
    for one in (formats.by_octet(2), formats.by_octet(ord("T"))):
        content = one.encode(made, b"body")
        for record in records:
            died = one.with_death(content, record)
            assert died is not None
            content = died
        assert one.deaths(content)[0] == ("r", "rejected")
        properties = one.properties(content)
        assert properties.expiration is None
        assert properties.headers is not None
        assert "CC" not in properties.headers
        deaths = properties.headers.pop("x-death")
        assert isinstance(deaths, list)
        for entry in deaths:
            entry.pop("time", None)
        found.append((deaths, properties.headers, one.body(content)))
    assert found[0][0][1]["original-expiration"] == "50"
    assert found[0] == found[1]


class Toys(House):
    """A broker with both formats."""

    def __init__(self) -> None:
        super().__init__()
        self.broker.formats.add(Amqp091Format())
        self.broker.formats.add(ToyFormat())

    def put(self, queue: str, content: bytes) -> None:
        self.vhost.queues[queue].enqueue(Envelope("", queue), content, 300, self.broker.now)

    def ready(self, queue: str) -> list[bytes]:
        return [message.content for message in self.vhost.queues[queue].ready_queue.ready]


def test_dead_letter_of_a_foreign_message_is_routed_by_headers() -> None:
    house = Toys()
    house.queue("work", dead_letter_exchange="amq.headers")
    house.queue("dead")
    house.vhost.bind("amq.headers", house.vhost.queues["dead"], None, "", {"x-match": "all", "kind": "a"})
    for kind in ("a", "b"):
        house.put("work", toy(b"body", headers={"kind": kind}))
        assert house.session.get(house.vhost.queues["work"], False, house.broker.now) is not None
    house.session.unsettled.settle_tag(2, True, Outcome.REJECTED, house.broker.now)
    house.broker.run(1000)
    (letter,) = house.ready("dead")
    toys = house.broker.formats.of(letter)
    assert toys.name == "toy"
    assert toys.deaths(letter) == [("work", "rejected")]
    assert toys.body(letter) == b"body"


def test_length_in_bytes_counts_the_bodies_of_each_format() -> None:
    house = Toys()
    house.queue("short", max_length_bytes=10)
    house.put("short", toy(b"12345", message_id="long" * 100))
    house.put("short", Amqp091Format().encode(Properties(message_id="long"), b"12345"))
    assert len(house.ready("short")) == 2
    house.put("short", toy(b"1"))
    assert len(house.ready("short")) == 2
