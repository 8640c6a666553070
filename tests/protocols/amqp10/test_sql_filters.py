"""SQL filters of RabbitMQ's streams: what they select, what is left out, and offsets of the messages that match."""

from __future__ import annotations

import pytest

from penstock.content.selector.selector import LENGTH_MAX, parse_selector
from penstock.flow.work import WorkMeter
from penstock.protocols.amqp10.sql_filters import condition_of_sql
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode_composite
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, ulong
from tests.protocols.amqp10.test_source_filters_streams import Streams, described, found
from tests.support.amqp10_dialogue import data_section

SAID = {
    "properties.message_id = 12345": "amqp.message_id = 12345",
    "p.user_id = 0x426F62": "amqp.user_id = 'Bob'",
    "p.user_id != 0x426F62": "amqp.user_id <> 'Bob'",
    "p.subject LIKE 'Order%'": "amqp.subject LIKE 'Order%'",
    "p.correlation_id IS NOT NULL": "amqp.correlation_id IS NOT NULL",
    "p.content_encoding IN ('gzip', 'zstd')": "amqp.content_encoding IN ( 'gzip' , 'zstd' )",
    "p.creation_time < 1753365622460": "amqp.creation_time < 1753365622460",
    "header.priority > 4 AND h.priority<9": "amqp.priority > 4 AND amqp.priority < 9",
    "application_properties.color = 'blue'": "\"color\" = 'blue'",
    "a.color = \"New \"\"York\"\"\"": "\"color\" = 'New \"York\"'",
    "quote = 'It''s great'": "\"quote\" = 'It''s great'",
    "[order-status] = 'pending'": "\"order-status\" = 'pending'",
    "a.[a \"b\"] = TRUE": '"a ""b""" = TRUE',
    "NOT cancelled": 'NOT "cancelled"',
    "price - discount > -10.5 * .5": '"price" - "discount" > - 10.5 * 0.5',
    "n = 010": '"n" = 10',
    "n = 0": '"n" = 0',
    "n = 1.23E6": '"n" = 1.23E6',
    "underscored LIKE '\\_%' ESCAPE '\\'": "\"underscored\" LIKE '\\_%' ESCAPE '\\'",
    "  (a = 1 OR b=2)\n": '( "a" = 1 OR "b" = 2 )',
}  # fmt: skip


@pytest.mark.parametrize("text", SAID)
def test_filter_is_a_condition_of_a_selector(text: str) -> None:
    condition = condition_of_sql(text, WorkMeter())
    assert condition == f"({SAID[text]})"
    assert parse_selector(condition) is not None


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "=", "p.subject =", "p.subject == 'x'", "p.colour = 'x'", "h.durable = TRUE", "m.x = 1", "d.x = 1",
        "footer.x = 1", "b.c = 1", "a.b.c = 1", "n % 2 = 0", "p.absolute_expiry_time > UTC()", "n = INF + 1 +",
        "data = 0x00FF", "p.user_id = 0xFF", "p.user_id = 0x4", "JMSPriority = 4", "[amqp.subject] = 'x'",
        "JMSReplyTo = 'x'", "n = 'open", "n = [open", "n = 12abc", "n = 1 and m = 2", "EXISTS(n)", "LOWER(n) = 'x'",
        "first + last = 'JohnDoe'", "n = 1;", "n = 1) OR (1 = 1", "p.priority = 4", "x" * (LENGTH_MAX + 1), 5, None,
        b"n = 1",
    ],
)  # fmt: skip
def test_filter_that_is_invalid_or_unknown_is_left_out(text: object) -> None:
    assert condition_of_sql(text, WorkMeter()) is None


def test_long_filter_is_charged() -> None:
    work = WorkMeter()
    condition_of_sql(f"n = '{'x' * 4000}'", work)
    assert work.done >= 2000


def message(subject: str, priority: int, **properties: object) -> bytes:
    head = encode_composite(composite(spec.HEADER, priority=priority))
    head += encode_composite(composite(spec.PROPERTIES, subject=subject))
    return head + encode_value(Described(ulong(spec.APPLICATION_PROPERTIES), properties)) + data_section(b"x")


FILTERS: dict[str, tuple[object, list[int]]] = {
    "sql": (Described(Symbol("amqp:sql-filter"), "p.subject LIKE 'order%' AND region = 'eu'"), [0, 4, 8]),
    "sql by number": (Described(ulong(0x120), "h.priority > 7 OR region <> 'eu'"), [1, 3, 5, 7, 8, 9]),
    "properties": (Described(Symbol("amqp:properties-filter"), {Symbol("subject"): "&s:voice"}), [2, 3, 6, 7]),
    "selector": (Described(Symbol("apache.org:selector-filter:string"), "region = 'us'"), [1, 3, 5, 7, 9]),
    "none": (Described(Symbol("amqp:sql-filter"), "region = 'none'"), []),
}


@pytest.mark.parametrize("kind", FILTERS)
def test_consumer_of_a_stream_gets_messages_that_match_with_their_offsets(kind: str) -> None:
    value, expected = FILTERS[kind]
    streams = Streams()
    for number in range(10):
        subject = "order" if number % 4 < 2 else "invoice"
        payload = message(subject, number, region="us" if number % 2 else "eu")
        streams.client.say(streams.client.transfer(payload))
        streams.stored.settle()
    streams.listen()
    chosen = {Symbol("f"): value, Symbol("rabbitmq:stream-offset-spec"): described("first")}
    source = composite(spec.SOURCE, address="/queues/s", filter=chosen)
    heard = streams.client.attach_receiver(None, 1, credit=100, source=source) + streams.listen()
    assert set(heard[0].performative.inner("source").mapping("filter")) == set(chosen)
    assert [offset for offset, _ in found(heard)] == expected
    heard = streams.client.flow(1, 100, drain=True, delivery_count=len(expected)) + streams.listen()
    flows = [each.field("link_credit") for each in heard if each.name == "flow"]
    assert flows == [0], "a filter that matches nothing still comes to the end"
