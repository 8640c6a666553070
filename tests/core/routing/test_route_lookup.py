"""Exchanges, bindings and alternates that come and go, against a set of tuples and a walk that knows no index."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.broker import Broker
from penstock.core.routing.route import Route
from penstock.core.settings.limits import Defaults
from penstock.core.vhost import VirtualHost
from penstock.errors import NotFound
from tests.profiles import examples
from tests.support.topology import rule, topic_rule

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
def test_whatever_comes_and_goes_messages_go_where_the_bindings_say(
    steps: list[tuple[str, str, str, str, Headers]],
) -> None:
    both = Both()
    both.compare()
    for step in steps:
        both.step(*step)
        both.compare()


def test_a_route_stands_while_nothing_changes_on_its_way() -> None:
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
