"""Message format of large messages: that of the head, with a shared body."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.core.deaths import DeathRecord
from penstock.core.large_bodies import LargeBodies
from penstock.core.large_content import LARGE_OCTET, body_of, large_content
from penstock.core.message_format import LargeFormat, MessageFormats, UnreadableContent
from penstock.errors import PreconditionFailed
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.protocols.amqp10.message_format import Amqp10Format
from tests.support.arrived_bodies import arrived

OCTETS = b"0123456789" * 100_000


@pytest.fixture
def formats() -> MessageFormats:
    found = MessageFormats()
    found.add_large(LargeFormat(found))
    found.add(Amqp091Format())
    found.add(Amqp10Format())
    return found


def large(formats: MessageFormats, properties: Properties, stored: bool = False, octet: int = 2) -> bytes:
    """Return a large message whose head is in a protocol's format."""
    bodies = LargeBodies()
    bodies.stores, bodies.in_memory_max = stored, 0
    content = large_content(formats.by_octet(octet).encode(properties, b""), arrived(bodies, OCTETS))
    bodies.written(bodies.take_writes())
    return content


def test_default_message_format_is_that_of_a_protocol(formats: MessageFormats) -> None:
    assert formats.default.name == "AMQP 0-9-1"
    assert formats.by_octet(LARGE_OCTET).name == "large message"


@pytest.mark.parametrize("octet", [2, 0])
def test_properties_and_headers_equal_the_heads(formats: MessageFormats, octet: int) -> None:
    content = large(formats, Properties(message_id="7", headers={"color": "red"}), octet=octet)
    found = formats.find(content)
    assert found.present(content)
    assert found.properties(content).message_id == "7"
    assert found.headers(content) == {"color": "red"}
    assert found.copies(content) == []


def test_large_body_counts_whole_in_the_charge(formats: MessageFormats) -> None:
    content = large(formats, Properties(message_id="7"))
    small = formats.encode(Properties(message_id="7"), b"")
    found = formats.find(content)
    assert found.body_bytes(content) == len(OCTETS)
    assert found.charge(content) == formats.find(small).charge(small) + len(OCTETS)


def test_large_body_in_memory_is_readable(formats: MessageFormats) -> None:
    content = large(formats, Properties())
    assert formats.find(content).body(content) == OCTETS
    assert formats.find(content).payload(content) == OCTETS


def test_large_body_in_the_store_is_not_read_at_once(formats: MessageFormats) -> None:
    content = large(formats, Properties(), stored=True)
    with pytest.raises(UnreadableContent):
        formats.find(content).body(content)


@pytest.mark.parametrize("stored", [True, False])
def test_conversion_of_a_large_message_has_the_body_if_in_memory(formats: MessageFormats, stored: bool) -> None:
    content = large(formats, Properties(message_id="7"), stored)
    converted = formats.convert(content, formats.by_octet(0))
    found = formats.find(converted)
    assert found.properties(converted).message_id == "7"
    assert found.body(converted) == (b"" if stored else OCTETS)


def test_added_headers_and_deaths_share_the_body(formats: MessageFormats) -> None:
    content = large(formats, Properties(message_id="7", expiration="5"))
    found = formats.find(content)
    counted = found.with_headers(content, {"x-delivery-count": 3})
    assert counted is not None
    assert body_of(counted) is body_of(content)
    assert found.headers(counted) == {"x-delivery-count": 3}
    dead = found.with_death(content, DeathRecord("jobs", "expired", "", "jobs", 1000.0))
    assert dead is not None
    fresh = found.without_deaths(dead)
    assert fresh is not None
    assert body_of(fresh) is body_of(content)
    assert found.headers(fresh) == {}
    assert body_of(dead) is body_of(content)
    assert found.deaths(dead) == [("jobs", "expired")]
    assert found.properties(dead).expiration is None


def test_large_message_is_not_encoded_at_once(formats: MessageFormats) -> None:
    with pytest.raises(PreconditionFailed):
        formats.by_octet(LARGE_OCTET).encode(Properties(), b"")
