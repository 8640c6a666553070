"""Cached routes: the target of a lookup, variants, copies by CC and BCC, and changes of the topology."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.properties import Properties
from penstock.core.broker import Broker
from penstock.core.message import BccEnvelope, Envelope
from penstock.core.message_format import keys_in
from penstock.core.routing.route import (
    CONTROL_EXCHANGE,
    COPIES_MAX,
    NOWHERE,
    Route,
    expiration_s,
    route_for,
    route_with_copies,
)
from penstock.core.settings.limits import Defaults
from penstock.core.vhost import VirtualHost
from penstock.errors import NotFound, PreconditionFailed
from penstock.flow.timers import NEVER
from penstock.settings.table import MILLISECONDS_MAX
from tests.profiles import examples
from tests.support.durable_broker import Kept
from tests.support.topology import checked_route, resolve, rule, topic_rule


def test_route_to_a_single_queue_appends_directly_and_has_a_fast_queue() -> None:
    kept = Kept()
    stored, passing = resolve(kept.vhost, "", "a").persistent(), resolve(kept.vhost, "", "passing").persistent()
    assert (stored.single_queue, stored.stored_queue) == (None, kept.vhost.queues["a"])
    assert (passing.single_queue, passing.stored_queue) == (kept.vhost.queues["passing"], None)
    assert stored.append == kept.vhost.queues["a"].ready_queue.ready_for(0).append
    assert stored.single_queue_for() is kept.vhost.queues["a"]


def test_variants_of_a_route_share_the_target_until_resolved_again() -> None:
    kept = Kept()
    route = resolve(kept.vhost, "", "a")
    variants = [route.persistent(), route.with_priority(4), route.variant(2, 1.5), route.persistent().with_priority(4)]
    assert all(each.target is route.target and each.epoch == route.epoch for each in variants)
    assert route.persistent() is variants[0]
    assert [each.envelope.priority for each in variants] == [0, 4, 2, 4]
    kept.vhost.resolve(route, {})
    assert route.persistent() is not variants[0]


def test_route_with_a_time_to_live_has_no_fast_queue() -> None:
    route = resolve(Kept().vhost, "", "passing").variant(0, 1.5)
    assert (route.single_queue, route.stored_queue, len(route.queues)) == (None, None, 1)
    assert route.append == NOWHERE.append


@pytest.mark.parametrize(
    ("exchange", "control", "by_headers"),
    [("amq.direct", False, False), ("amq.headers", False, True), (CONTROL_EXCHANGE, True, False)],
)
def test_target_of_a_route_selects_the_handling_of_a_publish(exchange: str, control: bool, by_headers: bool) -> None:
    kept = Kept()
    if exchange != CONTROL_EXCHANGE:
        kept.vhost.bind(exchange, kept.vhost.queues["passing"], None, "k", {})
    elif exchange not in kept.vhost.exchanges:
        kept.vhost.declare_exchange(exchange, "topic", {}, False, False, False)
    route = resolve(kept.vhost, exchange, "k")
    assert (route.control, route.by_headers) == (control, by_headers)
    assert route.target.is_current(), "nothing changed since the lookup"


def test_route_is_current_until_an_exchange_on_the_way_changes() -> None:
    kept = Kept()
    kept.vhost.bind("amq.direct", kept.vhost.queues["passing"], None, "k", {})
    route = resolve(kept.vhost, "amq.direct", "k")
    kept.vhost.bind("amq.topic", kept.vhost.queues["a"], None, "k", {})
    assert route.is_current(kept.vhost.epoch, kept.vhost.era), "another exchange has changed"
    kept.vhost.bind("amq.direct", kept.vhost.queues["a"], None, "k", {})
    assert not route.is_current(kept.vhost.epoch, kept.vhost.era)
    assert not Route(route.envelope, False).is_current(kept.vhost.epoch, kept.vhost.era), "it was never resolved"


def test_route_without_attributes_is_the_same() -> None:
    plain = checked_route()
    assert route_for(plain, Properties()) is plain
    assert route_for(plain, Properties(delivery_mode=1, priority=0)) is plain


def test_route_for_attributes_has_the_attributes_and_is_cached() -> None:
    plain = checked_route()
    properties = Properties(delivery_mode=2, priority=7, expiration="1500")
    envelope = route_for(plain, properties).envelope
    assert (envelope.persistent, envelope.priority, envelope.ttl_s) == (True, 7, 1.5)
    assert route_for(plain, properties) is route_for(plain, properties)
    assert route_for(plain, Properties(priority=7)).envelope.ttl_s == NEVER


def test_route_without_a_store_ignores_the_delivery_mode() -> None:
    plain = checked_route(False)
    assert route_for(plain, Properties(delivery_mode=2)) is plain


@pytest.mark.parametrize("text", ["", "-1", "1.5", "soon", "٣", str(MILLISECONDS_MAX + 1), "9" * 5000])
def test_expiration_without_a_number_of_milliseconds_is_refused(text: str) -> None:
    with pytest.raises(PreconditionFailed, match="invalid expiration"):
        route_for(checked_route(), Properties(expiration=text))


def test_longest_expiration_is_accepted() -> None:
    assert expiration_s(b"%d" % MILLISECONDS_MAX) == MILLISECONDS_MAX / 1000
    assert expiration_s(b"0") == 0.0


def route() -> Route:
    return Route(Envelope("x", "k", 5, 1.5, True), True)


def test_message_without_cc_and_bcc_keeps_the_route() -> None:
    assert route_with_copies(route(), {}) is None
    assert route_with_copies(route(), {"CC": [], "BCC": [7]}) is None


def test_cc_and_bcc_add_routing_keys_and_bcc_stays_in_the_envelope() -> None:
    found = route_with_copies(route(), {"CC": ["a", 5], "BCC": ["b"]})
    assert (found.copies, found.mandatory) == (["a", "b"], True)
    envelope = found.envelope
    assert isinstance(envelope, BccEnvelope)
    assert (envelope.bcc, envelope.priority, envelope.ttl_s, envelope.persistent) == (["b"], 5, 1.5, True)


@pytest.mark.parametrize("headers", [{"CC": "a"}, {"BCC": {}}, {"CC": ["k" * 256]}, {"BCC": ["k"] * (COPIES_MAX + 1)}])
def test_headers_of_another_type_and_keys_beyond_a_limit_are_refused(headers: dict[str, object]) -> None:
    with pytest.raises(PreconditionFailed):
        route_with_copies(route(), headers)


def test_keys_are_the_texts_of_an_array() -> None:
    assert keys_in(["a", 1, None, "b"]) == ["a", "b"]
    assert keys_in("a") == keys_in(None) == []


Headers = dict[str, object]


Bound = tuple[str, str, str, str, tuple[tuple[str, object], ...]]
"""Source, kind and name of the destination, key, arguments."""


KINDS = {"d": "direct", "f": "fanout", "t": "topic", "h": "headers"}


ALTERNATES = {"d": "t", "t": "h", "h": "d", "f": "none"}


QUEUES = ["p", "q", "r"]


PATTERNS = ["", "a", "a.b", "a.*", "#", "*.b", "a.#"]


KEYS = ["", "a", "a.b", "b", "c.b"]


ARGUMENTS: list[Headers] = [
    {},
    {"n": 1},
    {"n": 1, "m": "x"},
    {"x-match": "any", "n": 1, "m": "x"},
    {"x-match": "any"},
    {"n": None},
    {"x-n": 1},
    {"x-match": "all-with-x", "x-n": 1},
]


SENT: list[Headers] = [{}, {"n": 1}, {"m": "x"}, {"n": 1, "m": "x"}, {"n": True}, {"x-n": 1}]


@dataclass
class Model:
    """Which exchanges and queues there are, and what is bound."""

    exchanges: set[str] = field(default_factory=lambda: set(KINDS))
    queues: set[str] = field(default_factory=lambda: set(QUEUES))
    bound: set[Bound] = field(default_factory=set)

    def drop(self, gone: set[Bound]) -> None:
        """Bindings end; `d` and `t` go with their last one, and those that led to them may go too."""
        self.bound -= gone
        for source in {each[0] for each in gone} & {"d", "t"} & self.exchanges:
            if not any(each[0] == source for each in self.bound):
                self.delete(source)

    def delete(self, exchange: str) -> None:
        self.exchanges.discard(exchange)
        self.bound -= {each for each in self.bound if each[0] == exchange}
        self.drop({each for each in self.bound if each[1:3] == ("exchange", exchange)})

    def reached(self, exchange: str, keys: list[str], headers: Headers) -> set[str]:
        found: set[str] = set()
        seen = {exchange}
        waiting = [exchange]
        while waiting:
            at = waiting.pop()
            taken = [each for each in self.bound if each[0] == at and self._takes(each, keys, headers)]
            following = [each[2] for each in taken if each[1] == "exchange"]
            found |= {each[2] for each in taken if each[1] == "queue"}
            if not taken and ALTERNATES[at] in self.exchanges:
                following.append(ALTERNATES[at])
            for each in following:
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
        return found

    def _takes(self, bound: Bound, keys: list[str], headers: Headers) -> bool:
        source, _, _, pattern, arguments = bound
        if source == "h":
            return rule(dict(arguments), headers)
        words = pattern.split(".") if pattern else []
        matches = {
            "f": lambda key: True,
            "d": lambda key: key == pattern,
            "t": lambda key: topic_rule(words, key.split(".") if key else []),
        }[source]
        return any(matches(key) for key in keys)


class Both:
    """The real one beside the model, and a route for each exchange and key that is kept all the time."""

    def __init__(self) -> None:
        self.real: VirtualHost = Broker(Defaults()).add_vhost("/")
        self.model = Model()
        for exchange in KINDS:
            self.declare(exchange)
        for queue in QUEUES:
            self.real.declare_queue(queue, {}, False, False, None, None)
        self.kept: list[Route] = [self.real.route(exchange, key, False) for exchange in KINDS for key in KEYS]

    def declare(self, exchange: str) -> None:
        arguments: Headers = {"alternate-exchange": ALTERNATES[exchange]}
        self.real.declare_exchange(exchange, KINDS[exchange], arguments, False, exchange in "dt", False)
        self.model.exchanges.add(exchange)

    def step(self, what: str, source: str, target: str, key: str, arguments: Headers) -> None:
        if what == "declare":
            self.declare(source)
            self.real.declare_queue(QUEUES[ord(key[-1:] or "a") % 3], {}, False, False, None, None)
            self.model.queues.add(QUEUES[ord(key[-1:] or "a") % 3])
        elif what == "delete":
            if target in QUEUES and target in self.model.queues:
                self.real.delete_queue(self.real.queues[target], 0.0)
                self.model.queues.discard(target)
                self.model.drop({each for each in self.model.bound if each[1:3] == ("queue", target)})
            elif target in self.model.exchanges:
                self.real.delete_exchange(target, False)
                self.model.delete(target)
        elif source in self.model.exchanges and target in self.model.queues | self.model.exchanges:
            queue, exchange = self.real.queues.get(target), self.real.exchanges.get(target)
            kind = "exchange" if queue is None else "queue"
            bound: Bound = (source, kind, target, key, tuple(sorted(arguments.items())))
            if what == "bind":
                self.real.bind(source, queue, exchange, key, arguments)
                self.model.bound.add(bound)
            else:
                self.real.unbind(source, queue, exchange, key, arguments)
                self.model.drop({bound} & self.model.bound)

    def compare(self) -> None:
        assert {name for name in self.real.exchanges if name in KINDS} == self.model.exchanges
        assert self.real.bindings.count == len(self.model.bound)
        for route in self.kept:
            name, key = route.envelope.exchange, route.envelope.routing_key
            if name not in self.model.exchanges:
                with pytest.raises(NotFound):
                    self.real.refresh_route(route)
                continue
            self.real.refresh_route(route)
            assert {queue.name for queue in route.queues} == self.model.reached(name, [key], {})
            for headers in SENT if route.by_headers else []:
                own = Route(route.envelope, False)
                self.real.resolve(own, headers)
                assert {queue.name for queue in own.queues} == self.model.reached(name, [key], headers)
            copied = Route(route.envelope, False, ["a", "c.b"])
            self.real.resolve(copied, {})
            assert {queue.name for queue in copied.queues} == self.model.reached(name, [key, "a", "c.b"], {})
            assert len(copied.queues) == len({id(queue) for queue in copied.queues})


STEPS = st.tuples(
    st.sampled_from(["bind", "bind", "bind", "unbind", "delete", "declare"]),
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(QUEUES + sorted(KINDS)),
    st.sampled_from(PATTERNS),
    st.sampled_from(ARGUMENTS),
)


@settings(max_examples=examples(250), derandomize=True, database=None, deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_messages_follow_the_bindings_through_any_changes_of_topology(
    steps: list[tuple[str, str, str, str, Headers]],
) -> None:
    both = Both()
    both.compare()
    for step in steps:
        both.step(*step)
        both.compare()


def test_route_stays_valid_while_the_exchanges_are_unchanged() -> None:
    real = Both().real
    queue = real.queues["q"]
    real.bind("f", None, real.exchanges["d"], "", {})
    real.bind("d", queue, None, "a", {})
    route = real.route("f", "a", False)
    real.refresh_route(route)
    found = route.queues
    real.bind("t", queue, None, "a", {})
    real.declare_queue("another", {}, False, False, None, None)
    real.delete_queue(real.queues["p"], 0.0)
    real.refresh_route(route)
    assert route.queues is found, "it was not found anew"
    assert route.epoch == real.epoch
    real.bind("d", real.queues["r"], None, "a", {})
    real.refresh_route(route)
    assert route.queues == [queue, real.queues["r"]]
    real.delete_queue(real.queues["r"], 0.0)
    real.refresh_route(route)
    assert (route.queues, route.single_queue) == ([queue], queue)
