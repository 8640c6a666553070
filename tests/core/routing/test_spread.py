"""Exchanges by hash or by chance: distribution, stability, weights and invalid arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from penstock.content.properties import Properties
from penstock.content.selector.fields import NeutralMessage
from penstock.core.routing.exchange import Binding
from penstock.core.routing.spread import WEIGHT_MAX, mixed, text_of
from penstock.core.vhost import VirtualHost
from penstock.errors import PreconditionFailed
from tests.support.topology import Headers, a_vhost, declare, exchange, reached, resolve

KEYS = [f"customer-{number}" for number in range(20_000)]
CHI_SQUARE_MOST = 40.0
"""Above the 0.9999 quantile of chi-square with 9 degrees of freedom (33.7); the keys are fixed, so nothing varies."""


@pytest.fixture
def where() -> VirtualHost:
    return a_vhost()


def spread(vhost: VirtualHost, kind: str, weights: dict[str, int], arguments: Headers | None = None) -> None:
    """Declare exchange `x` and bind a new queue by each weight."""
    vhost.declare_exchange("x", kind, arguments or {}, False, False, False)
    for name, weight in weights.items():
        vhost.bind("x", declare(vhost, name), None, str(weight), {})


def choices(vhost: VirtualHost, keys: list[str]) -> dict[str, str]:
    found = {}
    for key in keys:
        (found[key],) = reached(vhost, "x", key)
    return found


def chi_square(counts: Counter[str], expected: dict[str, float]) -> float:
    return sum((counts[name] - wanted) ** 2 / wanted for name, wanted in expected.items())


def equal(names: list[str], count: int) -> dict[str, float]:
    return dict.fromkeys(names, count / len(names))


NAMES = [f"q{number}" for number in range(10)]


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash", "x-random"])
def test_spread_exchange_leads_each_message_to_one_queue_in_equal_shares(where: VirtualHost, kind: str) -> None:
    spread(where, kind, dict.fromkeys(NAMES, 1))
    counts = Counter(choices(where, KEYS).values())
    assert chi_square(counts, equal(NAMES, len(KEYS))) < CHI_SQUARE_MOST


def test_random_exchange_has_no_period_for_one_key(where: VirtualHost) -> None:
    spread(where, "x-random", dict.fromkeys(NAMES, 1))
    chosen = [reached(where, "x", "k")[0] for _ in range(20_000)]
    pairs = Counter(f"{first}-{second}" for first, second in pairwise(chosen))
    expected = equal([f"{first}-{second}" for first in NAMES for second in NAMES], len(chosen) - 1)
    assert chi_square(pairs, expected) < 175, "99 degrees of freedom: the 0.99999 quantile is 168"


def test_weights_set_the_shares_of_queues(where: VirtualHost) -> None:
    weights = {"a": 1, "b": 2, "c": 7}
    spread(where, "x-consistent-hash", weights)
    counts = Counter(choices(where, KEYS).values())
    assert chi_square(counts, {name: len(KEYS) * weight / 10 for name, weight in weights.items()}) < 25


def test_weights_of_two_bindings_to_one_queue_add_up(where: VirtualHost) -> None:
    spread(where, "x-consistent-hash", {"a": 3, "b": 4})
    where.bind("x", where.queues["a"], None, "1", {})
    equal_shares = choices(where, KEYS)
    assert chi_square(Counter(equal_shares.values()), equal(["a", "b"], len(KEYS))) < 20
    where.unbind("x", where.queues["a"], None, "3", {})
    less = choices(where, KEYS)
    assert chi_square(Counter(less.values()), {"a": len(KEYS) / 5, "b": len(KEYS) * 4 / 5}) < 20


@pytest.mark.parametrize("weights", [dict.fromkeys(NAMES, 1), {name: 1 + at for at, name in enumerate(NAMES)}])
def test_queue_added_or_removed_moves_only_its_own_share(where: VirtualHost, weights: dict[str, int]) -> None:
    spread(where, "x-consistent-hash", weights)
    before = choices(where, KEYS)
    where.bind("x", declare(where, "new"), None, "1", {})
    with_new = choices(where, KEYS)
    moved = [key for key in KEYS if before[key] != with_new[key]]
    assert {with_new[key] for key in moved} == {"new"}
    share = len(KEYS) / (sum(weights.values()) + 1)
    assert abs(len(moved) - share) < 5 * share**0.5
    where.delete_queue(where.queues["q3"], 0.0)
    without = choices(where, KEYS)
    assert all(without[key] == with_new[key] for key in KEYS if with_new[key] != "q3")
    assert "q3" not in without.values()


def test_hash_does_not_depend_on_the_order_of_bindings_or_the_process(where: VirtualHost) -> None:
    spread(where, "x-consistent-hash", dict.fromkeys(NAMES, 1))
    other = a_vhost()
    spread(other, "x-consistent-hash", dict.fromkeys(reversed(NAMES), 1))
    assert choices(where, KEYS[:500]) == choices(other, KEYS[:500])
    # The values of a release are those of the next one: messages of a key stay in their queue.
    assert [reached(where, "x", key)[0] for key in ("", "a", "b", "ä", "customer-1")] == PINNED
    modulus = a_vhost()
    spread(modulus, "x-modulus-hash", dict.fromkeys(NAMES, 1))
    assert [reached(modulus, "x", key)[0] for key in ("", "a", "b", "ä", "customer-1")] == PINNED_MODULUS


PINNED = ["q1", "q2", "q5", "q0", "q6"]
PINNED_MODULUS = ["q0", "q0", "q1", "q1", "q0"]


@pytest.mark.parametrize("name", ["hash-header", "x-hash-on"])
def test_hash_by_header_reads_the_header_and_not_the_key(where: VirtualHost, name: str) -> None:
    spread(where, "x-consistent-hash", dict.fromkeys(NAMES, 1), {name: "customer"})
    by_header = [reached(where, "x", "same key", {"customer": key})[0] for key in KEYS[:2000]]
    assert chi_square(Counter(by_header), equal(NAMES, 2000)) < CHI_SQUARE_MOST
    assert {reached(where, "x", key, {"customer": "one"})[0] for key in KEYS[:50]} == {by_header_of(where, "one")}
    missing = {reached(where, "x", key)[0] for key in KEYS[:50]}
    assert len(missing) == 1, "messages without the header stay together"
    assert resolve(where, "x").by_headers, "a route by key must not be cached"


def by_header_of(vhost: VirtualHost, value: object) -> str:
    return reached(vhost, "x", "", {"customer": value})[0]


@pytest.mark.parametrize("value", ["7", 7, 7.0, True, b"7", None, ["a", 1], {"b": {"c": 1}, "a": 2}, "\ud800"])
def test_header_of_any_type_has_one_queue(where: VirtualHost, value: object) -> None:
    spread(where, "x-consistent-hash", dict.fromkeys(NAMES, 1), {"hash-header": "customer"})
    assert by_header_of(where, value) == by_header_of(where, value)


def test_text_and_number_are_hashed_as_different_values() -> None:
    assert len({text_of(value) for value in ("7", 7, 7.5, True, b"7", None)}) == 6
    assert text_of({"a": 1, "b": 2}) == text_of({"b": 2, "a": 1})


@pytest.mark.parametrize("name", ["message_id", "correlation_id", "timestamp"])
def test_hash_by_property_reads_the_message(where: VirtualHost, name: str) -> None:
    spread(where, "x-consistent-hash", dict.fromkeys(NAMES, 1), {"hash-property": name})
    assert resolve(where, "x").selects, "the lookup asks for the message"

    def chosen(properties: Properties) -> str:
        route = where.route("x", "same key", False)
        where.resolve(route, {}, message=NeutralMessage(properties))
        (queue,) = route.queues
        return queue.name

    values: list[object] = list(range(2000)) if name == "timestamp" else [f"id-{number}" for number in range(2000)]
    found = Counter(chosen(with_property(name, value)) for value in values)
    assert chi_square(found, equal(NAMES, len(values))) < CHI_SQUARE_MOST
    assert chosen(Properties()) == chosen(Properties()) == reached(where, "x", "any")[0]


def with_property(name: str, value: object) -> Properties:
    properties = Properties()
    setattr(properties, name, value)
    return properties


@pytest.mark.parametrize("key", ["0", "-1", "", "one", "1.5", " 1", "+1", "٣", str(2**40), "9" * 200])
def test_binding_key_that_is_no_weight_is_refused(where: VirtualHost, key: str) -> None:
    spread(where, "x-consistent-hash", {"a": 1})
    with pytest.raises(PreconditionFailed, match=f"it is the weight, a whole number from 1 to {WEIGHT_MAX:,}"):
        where.bind("x", where.queues["a"], None, key, {})
    assert where.bindings.count == 1


@pytest.mark.parametrize("kind", ["x-random", "x-modulus-hash"])
def test_binding_key_of_other_types_is_any_text(where: VirtualHost, kind: str) -> None:
    where.declare_exchange("x", kind, {}, False, False, False)
    where.bind("x", declare(where, "a"), None, "no number", {})
    assert reached(where, "x", "k") == ["a"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"hash-header": "h", "hash-property": "message_id"}, "hash-header and hash-property exclude each other"),
        ({"x-hash-on": "h", "hash-property": "message_id"}, "x-hash-on and hash-property exclude each other"),
        ({"hash-property": "app_id"}, "hash-property is 'app_id'; it is one of message_id, correlation_id, timestamp"),
        ({"hash-property": 5}, "hash-property is of type signedint; it must be a string"),
        ({"hash-header": {"a": 1}}, "hash-header is of type table; it must be a string"),
    ],
)
def test_invalid_argument_of_a_hash_is_refused(where: VirtualHost, arguments: Headers, words: str) -> None:
    with pytest.raises(PreconditionFailed, match="exchange 'x': ") as caught:
        where.declare_exchange("x", "x-consistent-hash", arguments, False, False, False)
    assert words in str(caught.value)
    assert "x" not in where.exchanges


def test_declaration_with_another_hash_is_inequivalent(where: VirtualHost) -> None:
    where.declare_exchange("x", "x-consistent-hash", {"hash-header": "h"}, False, False, False)
    where.declare_exchange("x", "x-consistent-hash", {"hash-header": "h"}, False, False, False)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'hash-header'"):
        where.declare_exchange("x", "x-consistent-hash", {"hash-header": "g"}, False, False, False)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'hash-header'"):
        where.declare_exchange("x", "x-consistent-hash", {}, False, False, False)


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash", "x-random"])
def test_exchange_without_bindings_leads_to_its_alternate(where: VirtualHost, kind: str) -> None:
    where.bind("amq.fanout", declare(where, "rest"), None, "", {})
    where.declare_exchange("x", kind, {"alternate-exchange": "amq.fanout"}, False, False, False)
    assert reached(where, "x", "k") == ["rest"]
    where.bind("x", declare(where, "a"), None, "1", {})
    assert reached(where, "x", "k") == ["a"]
    where.unbind("x", where.queues["a"], None, "1", {})
    assert reached(where, "x", "k") == ["rest"]


def test_exchange_is_one_destination_of_a_hash(where: VirtualHost) -> None:
    exchange(where, "both", "fanout")
    spread(where, "x-consistent-hash", {"a": 1})
    where.bind("both", declare(where, "b"), None, "", {})
    where.bind("both", declare(where, "c"), None, "", {})
    where.bind("x", None, where.exchanges["both"], "1", {})
    found = Counter(tuple(reached(where, "x", key)) for key in KEYS[:1000])
    assert set(found) == {("a",), ("b", "c")}


def test_exchange_and_queue_of_one_name_are_two_destinations(where: VirtualHost) -> None:
    exchange(where, "same", "fanout")
    where.bind("same", declare(where, "behind"), None, "", {})
    spread(where, "x-consistent-hash", {"same": 1})
    where.bind("x", None, where.exchanges["same"], "1", {})
    assert {tuple(reached(where, "x", key)) for key in KEYS[:200]} == {("same",), ("behind",)}


def test_cached_route_by_key_is_found_again_after_a_binding(where: VirtualHost) -> None:
    spread(where, "x-consistent-hash", {"a": 1})
    routes = [resolve(where, "x", key) for key in KEYS[:200]]
    assert all(route.single_queue is where.queues["a"] for route in routes), "the fast path, as for a direct exchange"
    where.bind("x", declare(where, "b"), None, "1", {})
    for route in routes:
        where.refresh_route(route)
    found = Counter(route.queues[0].name for route in routes)
    assert set(found) == {"a", "b"}


def test_random_route_is_never_cached(where: VirtualHost) -> None:
    spread(where, "x-random", {"a": 1, "b": 1})
    route = resolve(where, "x", "k")
    assert route.by_headers
    assert route.single_queue is None
    assert not route.target.reads_headers


def test_random_route_that_leads_to_a_headers_exchange_reads_headers(where: VirtualHost) -> None:
    spread(where, "x-random", {})
    exchange(where, "h", "headers")
    where.bind("x", None, where.exchanges["h"], "", {})
    assert resolve(where, "x", "k").target.reads_headers


def test_lookup_costs_a_visit_for_four_destinations_and_stops_at_the_most(where: VirtualHost) -> None:
    spread(where, "x-consistent-hash", dict.fromkeys(NAMES, 1))
    matched: list[Binding] = []
    assert where.exchanges["x"].match("k", {}, matched, 2) == 3
    assert matched == []
    assert where.exchanges["x"].match("k", {}, matched, 3) == 3
    assert len(matched) == 1


@pytest.mark.parametrize("make", [lambda n: n, lambda n: n << 16, lambda n: 0xFFFFFFFF - n])
def test_mix_keeps_32_bits_and_maps_no_two_numbers_to_one(make: Callable[[int], int]) -> None:
    found = {int(mixed(make(number))) for number in range(50_000)}
    assert len(found) == 50_000
    assert 0 <= min(found) < 1 << 18
    assert max(found) < 1 << 32
