"""Headers exchanges: matching bindings, and the number of bindings examined.

Values of field tables: equality, and RabbitMQ's names of their types.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.routing.header_match import HeaderMatch, HeaderMatchIndex, alike, comparable, type_name
from penstock.core.routing.route import VISITS_A_UNIT
from penstock.core.vhost import ROUTE_WORK, VirtualHost
from tests.profiles import examples
from tests.support.topology import declare, exchange, resolve, rule


def test_headers_exchange_looks_at_matching_bindings_only(vhost: VirtualHost) -> None:
    exchange(vhost, "h", "headers")
    declare(vhost, "q")
    declare(vhost, "other")
    for number in range(10_000):
        vhost.bind("h", vhost.queue("other"), None, "", {"x-match": "all", "kind": number, "colour": "red"})
    vhost.bind("h", vhost.queue("q"), None, "", {"x-match": "any", "kind": 10_001, "size": 2})
    work = vhost.gates.broker.work
    before = work.done
    assert [each.name for each in resolve(vhost, "h", "", {"size": 2, "colour": "red"}).queues] == ["q"]
    assert work.done - before <= ROUTE_WORK + 10 // VISITS_A_UNIT


def test_demands_are_found_as_if_each_were_asked() -> None:
    arguments: list[dict[str, object]] = [
        {},
        {"x-match": "any"},
        {"a": 1},
        {"a": None},
        {"a": True},
        {"a": "1"},
        {"a": b"1"},
        {"a": 1, "b": 2},
        {"x-match": "any", "a": 1, "b": 2},
        {"x-match": "any", "a": None, "b": 2},
        {"x-match": "all-with-x", "x-a": 1, "a": 1},
        {"x-match": "any-with-x", "x-a": 1},
        {"a": [1, "2"], "b": {"c": 1.5}},
    ]
    messages: list[dict[str, object]] = [
        {},
        {"a": 1},
        {"a": "1"},
        {"a": True},
        {"a": None},
        {"b": 2},
        {"a": 1, "b": 2},
        {"x-a": 1},
        {"x-a": 1, "a": 1},
        {"a": [1, "2"], "b": {"c": 1.5}},
    ]
    demands: HeaderMatchIndex[int] = HeaderMatchIndex()
    for number, each in enumerate(arguments):
        demands.add(number, HeaderMatch(each))
    for headers in messages:
        found: list[int] = []
        demands.match(headers, found, 1000)
        assert sorted(found) == [n for n, each in enumerate(arguments) if HeaderMatch(each).matches(headers)]
    for number in range(len(arguments)):
        demands.discard(number)
    left: list[int] = []
    assert demands.match({"a": 1, "b": 2}, left, 1000) == 3
    assert left == []


Headers = dict[str, object]


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(0, 2), st.sampled_from([0.0, 1.0]), st.sampled_from(["", "1", "x"])
)


TABLES = st.dictionaries(st.sampled_from(["a", "b", "x-a", "x-"]), VALUES, max_size=4)


@settings(max_examples=examples(1500), derandomize=True, database=None)
@given(TABLES, st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"]), TABLES)
def test_headers_match_by_the_rule(arguments: Headers, mode: str | None, headers: Headers) -> None:
    if mode is not None:
        arguments = arguments | {"x-match": mode}
    assert HeaderMatch(arguments).matches(headers) is rule(arguments, headers)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1 << 40, False),
        (1, True, False),
        (1, 1.0, False),
        (1, "1", False),
        ("a", b"a", True),
        (b"\xff", "\xff", False),
        (float("nan"), float("nan"), True),
        (datetime(2026, 1, 1, tzinfo=UTC), int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()), True),
        ([1, "a"], [1, "a"], True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (Decimal("1.0"), 1, False),
    ],
)
def test_field_values_are_alike_by_class_and_content(one: object, other: object, same: bool) -> None:
    assert (alike(one) == alike(other)) is same


def test_field_values_are_comparable_only_within_the_type() -> None:
    assert comparable("a") != comparable(b"a")
    assert comparable(1) == comparable(1)
    assert hash(comparable({"a": [1, {"b": None}]})) == hash(comparable({"a": [1, {"b": None}]}))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "void"), ("a", "longstr"), (b"a", "binary"), (True, "bool"), (1, "signedint"), (1 << 31, "long"),
        (1.0, "double"), (Decimal(1), "decimal"), ([], "array"), ({}, "table"),
        (datetime(2026, 1, 1, tzinfo=UTC), "timestamp"),
    ],
)  # fmt: skip
def test_field_values_have_rabbitmqs_names_for_the_types(value: object, name: str) -> None:
    assert type_name(value) == name
