"""Deaths of a message as the annotation `x-opt-deaths`, as RabbitMQ 4 has them."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.content.death_entries import Entry, deaths_in
from penstock.wire.amqp10.neutral_deaths import annotation_of, entries_in, last_times
from penstock.wire.amqp10.value_reader import decode_value
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Array, Symbol, timestamp, uint, ulong

ENTRY: Entry = {
    "queue": "q",
    "reason": "expired",
    "count": 2,
    "time": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC),
    "exchange": "e",
    "routing-keys": ["k", "l"],
    "original-expiration": "50",
}


def test_deaths_are_an_array_of_maps_in_rabbitmqs_order() -> None:
    (item,) = annotation_of([ENTRY], {}, 9.5).values
    assert list(item.items()) == [
        (Symbol("ttl"), uint(50)),
        (Symbol("queue"), "q"),
        (Symbol("reason"), Symbol("expired")),
        (Symbol("count"), ulong(2)),
        (Symbol("first-time"), timestamp(5000)),
        (Symbol("last-time"), timestamp(9500)),
        (Symbol("exchange"), "e"),
        (Symbol("routing-keys"), Array("string", ["k", "l"])),
    ]


def test_deaths_are_read_as_they_were_written() -> None:
    other: Entry = {**ENTRY, "queue": "r", "count": 1}
    del other["original-expiration"]
    annotation = annotation_of([ENTRY, other], {("r", "expired"): timestamp(7000)}, 9.0)
    found = decode_value(encode_value(annotation))[0]
    assert deaths_in(entries_in(found)) == [ENTRY, other]
    assert last_times(found) == {("q", "expired"): timestamp(9000), ("r", "expired"): timestamp(7000)}


def test_death_of_an_unknown_last_time_has_that_of_the_first() -> None:
    (item,) = annotation_of([ENTRY], {}).values
    assert item[Symbol("last-time")] == timestamp(5000)


def test_annotation_of_another_form_has_no_deaths() -> None:
    for value in (None, "a", [], Array("uint", [1]), Array("map", [{}]), Array("map", [{Symbol("queue"): 5}])):
        assert deaths_in(entries_in(value)) == []
        last_times(value)
