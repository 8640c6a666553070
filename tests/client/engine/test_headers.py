"""Headers and properties: each kind of value is carried over both protocols, or refused by its name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from uuid import UUID

import pytest

import penstock
from penstock.client.engine.headers import check_arguments, check_headers, check_properties
from penstock.client.errors import InvalidValue
from penstock.content.properties import PROPERTY_NAMES
from tests.client.conversations import PROTOCOLS, both_protocols, fresh, url_of


class Order:
    pass


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SCALARS: dict[str, tuple[object, object]] = {
    "None": (None, None),
    "True": (True, True),
    "False": (False, False),
    "0": (0, 0),
    "-1": (-1, -1),
    "2**31": (2**31, 2**31),
    "2**63 - 1": (2**63 - 1, 2**63 - 1),
    "-2**63": (-(2**63), -(2**63)),
    "IntEnum": (Size.LARGE, 3),
    "float": (1.5, 1.5),
    "infinity": (float("inf"), float("inf")),
    "text": ("käse", "käse"),
    "empty text": ("", ""),
    "long text": ("x" * 1000, "x" * 1000),
    "StrEnum": (Colour.RED, "red"),
    "bytes": (b"\x00\xff", b"\x00\xff"),
    "bytearray": (bytearray(b"ab"), b"ab"),
    "memoryview": (memoryview(b"ab"), b"ab"),
    "datetime": (NOON, NOON),
    "datetime without a zone": (NOON.replace(tzinfo=None), NOON),
    "datetime of another zone": (NOON.astimezone(timezone(timedelta(hours=2))), NOON),
    "datetime with a fraction": (NOON.replace(microsecond=900_000), NOON),
    "epoch": (datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)),
}
"""Values under any name, and what comes."""
NESTED: dict[str, tuple[object, object]] = {
    "list": (["a", 1, None], ["a", 1, None]),
    "empty list": ([], []),
    "tuple": (("a", 1), ["a", 1]),
    "dict": ({"a": 1}, {"a": 1}),
    "empty dict": ({}, {}),
    "tuple in a list in a dict": ({"a": [(1, 2)]}, {"a": [[1, 2]]}),
    "list of datetimes": ([NOON], [NOON]),
}
"""Values that AMQP 1.0 has under a name that begins with x-."""
ONLY_091: dict[str, tuple[object, object]] = {"Decimal": (Decimal("1.25"), Decimal("1.25"))}
DEEP: object = 1
for _ in range(40):
    DEEP = [DEEP]
REFUSED: dict[str, tuple[object, str]] = {
    "set": ({1}, "of no type of AMQP (set)"),
    "frozenset": (frozenset(), "of no type of AMQP (frozenset)"),
    "object": (Order(), "of no type of AMQP (Order)"),
    "class": (Order, "of no type of AMQP (type)"),
    "UUID": (UUID(int=1), "of no type of AMQP (UUID)"),
    "date": (date(2026, 1, 1), "of no type of AMQP (date)"),
    "timedelta": (timedelta(1), "of no type of AMQP (timedelta)"),
    "complex": (1j, "of no type of AMQP (complex)"),
    "range": (range(3), "of no type of AMQP (range)"),
    "2**63": (2**63, "at most 64 bits"),
    "-2**63 - 1": (-(2**63) - 1, "at most 64 bits"),
    "2**70": (2**70, "at most 64 bits"),
    "half a pair": ("\ud800", "half of a surrogate pair"),
    "before 1970": (datetime(1969, 12, 31, tzinfo=UTC), "from 1970 on"),
    "infinite Decimal": (Decimal("inf"), "Decimal"),
    "long Decimal": (Decimal("12345678901.5"), "Decimal"),
    "set in a list": ([{1}], "of no type of AMQP (set)"),
    "object in a dict": ({"a": {"b": Order()}}, "at 'a': at 'b': <"),
    "number as a key": ({1: "a"}, "at 1: a name is a text"),
    "long key": ({"k" * 256: 1}, "at most 255 bytes"),
    "deep": (DEEP, "more than 32 deep"),
}
"""Values that neither protocol has, under any name, and the reason."""


async def travelled(broker_url: str, ways: tuple[str, str], headers: Mapping[str, object]) -> dict[str, object]:
    """Send a message with headers by one protocol, and return the headers that come by another."""
    by, to = (url_of(broker_url, protocol) for protocol in ways)
    async with penstock.connect(by) as sender, penstock.connect(to) as reader:
        queue = await sender.declare_queue(fresh("headers"))
        await sender.publisher(queue).send(penstock.Message(b"x", headers=dict(headers)))
        async with reader.receiver(queue) as receiver:
            message = await receiver.receive(10)
            message.accept()
            return dict(message.headers)


@pytest.mark.parametrize("to", PROTOCOLS)
@both_protocols
async def test_scalars_of_headers_arrive_unchanged(broker_url: str, protocol: str, to: str) -> None:
    found = await travelled(broker_url, (protocol, to), {name: value for name, (value, _) in SCALARS.items()})
    assert found == {name: value for name, (_, value) in SCALARS.items()}
    assert {name: type(value) for name, value in found.items()} == {name: type(v) for name, (_, v) in SCALARS.items()}


@pytest.mark.parametrize("to", PROTOCOLS)
@both_protocols
async def test_lists_and_tables_of_headers_arrive_unchanged(broker_url: str, protocol: str, to: str) -> None:
    sent = {f"x-opt-{name.replace(' ', '-')}": value for name, (value, _) in NESTED.items()}
    found = await travelled(broker_url, (protocol, to), sent)
    assert found == {f"x-opt-{name.replace(' ', '-')}": value for name, (_, value) in NESTED.items()}


async def test_amqp_091_carries_lists_tables_and_decimals_under_any_name(broker_url: str) -> None:
    carried = NESTED | ONLY_091
    sent = {name: value for name, (value, _) in carried.items()}
    found = await travelled(broker_url, ("amqp091", "amqp091"), sent)
    assert found == {name: value for name, (_, value) in carried.items()}


@pytest.mark.parametrize("name", NESTED | ONLY_091)
def test_header_that_amqp10_would_lose_is_refused_by_name(name: str) -> None:
    value, _ = (NESTED | ONLY_091)[name]
    with pytest.raises(InvalidValue, match="the header 'h' cannot be sent: "):
        check_headers({"h": value}, True)
    check_headers({"h": value}, False)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("by_links", [False, True])
@pytest.mark.parametrize("header", ["h", "x-h"])
def test_value_of_no_type_is_refused_by_the_name_of_the_header(header: str, by_links: bool, name: str) -> None:
    value, reason = REFUSED[name]
    with pytest.raises(InvalidValue, match=f"the header '{header}' cannot be sent: ") as failure:
        check_headers({"also": 1, header: value}, by_links)
    assert reason in str(failure.value)
    with pytest.raises(InvalidValue, match="the argument 'h' cannot be sent"):
        check_arguments("the argument", {"h": value}, by_links)


NAMES = {
    1: "a name is a text",
    "n" * 256: "at most 255 bytes",
    "\ud800": "UTF-8",
}
NAMES_10 = {
    "BCC": "blind copies",
    "x-käse": "in ASCII",
    "x-exchange": "the broker's",
    "x-routing-key": "the broker's",
    "x-basic-type": "the broker's",
    "x-death": "no list of deaths",
}


@pytest.mark.parametrize("name", [*NAMES, *NAMES_10])
@both_protocols
def test_name_that_a_protocol_does_not_have_is_refused(protocol: str, name: str) -> None:
    by_links = protocol == "amqp10"
    if by_links or name in NAMES:
        with pytest.raises(InvalidValue, match=(NAMES | NAMES_10)[name]):
            check_headers({name: "a"}, by_links)
    else:
        check_headers({name: "a"}, by_links)


LONG = "n" * 256
PROPERTIES: dict[str, tuple[list[object], list[object]]] = {
    "content_type": ([LONG, 5], ["käse"]),
    "content_encoding": ([LONG, b"gzip"], ["käse"]),
    "headers": ([], []),
    "delivery_mode": ([-1, 256], []),
    "priority": ([-1, 256, "high"], []),
    "correlation_id": ([LONG, 5, UUID(int=1)], []),
    "reply_to": ([LONG], []),
    "expiration": ([LONG, 5], ["soon", "4294967296", "1.5"]),
    "message_id": ([LONG, 5], []),
    "timestamp": ([-1, "now", 1 << 63], []),
    "type": ([LONG, 5], []),
    "user_id": ([LONG, 5, "\ud800"], []),
    "app_id": ([LONG, 5], []),
    "cluster_id": ([LONG, 5], ["c"]),
}
"""Values of each property that neither protocol has, and those that AMQP 1.0 does not have."""


@pytest.mark.parametrize("name", PROPERTY_NAMES)
def test_property_that_cannot_be_sent_is_refused_by_name(name: str) -> None:
    neither, only_091 = PROPERTIES[name]
    for value in [*neither, *only_091]:
        properties = penstock.Message(b"").properties
        try:
            setattr(properties, name, value)
        except TypeError:
            assert penstock.compiled(), "a compiled class refuses other types where they are set"
            continue
        for by_links in (False, True):
            if by_links or value in neither:
                with pytest.raises(InvalidValue, match=f"the property {name} cannot be sent"):
                    check_properties(properties, by_links)
            else:
                check_properties(properties, by_links)


async def test_message_with_a_refused_header_is_not_sent_by_any_call(
    connection: penstock.Connection, queue: str
) -> None:
    publisher = connection.publisher(queue)
    bad = penstock.Message(b"bad", headers={"h": {1}})
    for call in (publisher.send, publisher.publish, lambda message: publisher.send_many([message])):
        with pytest.raises(InvalidValue, match="the header 'h'"):
            await call(bad)
    with pytest.raises(InvalidValue, match="the header 'h'"):
        publisher.try_publish(bad)
    with pytest.raises(InvalidValue, match="the header 'h'"):
        await connection.call(queue, bad)
    with pytest.raises(InvalidValue, match="the argument 'kind'"):
        await connection.bind(queue, "amq.headers", kind=Order())
    await publisher.send(b"good")
    assert publisher.counters.confirmed == 1
