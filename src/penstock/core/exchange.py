"""Exchanges: a routing key and headers in, queues out. One type a class; bindings may lead to other exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from penstock.errors import CommandInvalid, PreconditionFailed

if TYPE_CHECKING:
    from penstock.core.queue import Queue
    from penstock.flow.gate import Gate

ALL: Final = "all"
ANY: Final = "any"
ALL_WITH_X: Final = "all-with-x"
ANY_WITH_X: Final = "any-with-x"
"""What x-match may be; those with x look at arguments whose names begin with x- as well (RabbitMQ 3.10)."""


class Binding:
    """A road from an exchange to a queue or to another exchange."""

    def __init__(self, source: Exchange, queue: Queue | None, exchange: Exchange | None, key: str) -> None:
        self.source = source
        self.queue = queue
        self.exchange = exchange
        self.key = key
        self.arguments: dict[str, object] = {}
        self.words: list[str] = key.split(".")

    def matches_headers(self, headers: dict[str, object]) -> bool:
        """Tell whether a message's headers match: all of the arguments (x-match=all, the default), or any of them."""
        mode = self.arguments.get("x-match", ALL)
        with_x = mode == ALL_WITH_X or mode == ANY_WITH_X
        wanted = [name for name in self.arguments if name != "x-match" and (with_x or not name.startswith("x-"))]
        hits = [name for name in wanted if name in headers and _same(self.arguments[name], headers[name])]
        return bool(hits) if mode == ANY or mode == ANY_WITH_X else len(hits) == len(wanted)


def _same(wanted: object, found: object) -> bool:
    return wanted is None or wanted == found


@mypyc_attr(allow_interpreted_subclasses=True)
class Exchange:
    """Where publishes arrive; subclasses choose which bindings match."""

    kind: str = ""
    by_headers: bool = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.durable: bool = False
        self.auto_delete: bool = False
        self.internal: bool = False
        self.arguments: dict[str, object] = {}
        self.bindings: list[Binding] = []
        self.was_bound: bool = False
        self.gates: list[Gate] = []
        """The gates of the address: its depth, its rate, the operator's; whoever changes them begins a new epoch."""

    def matching(self, key: str, headers: dict[str, object]) -> list[Binding]:
        """Return the bindings that a message with this key and these headers takes."""
        raise NotImplementedError

    def check_binding(self, arguments: dict[str, object]) -> None:
        """Look at the arguments of a new binding. Raises PreconditionFailed (406) for what cannot be meant."""

    def find(
        self, queue: Queue | None, exchange: Exchange | None, key: str, arguments: dict[str, object]
    ) -> Binding | None:
        """Return the binding that is exactly this one, or None."""
        for binding in self.bindings:
            if binding.queue is queue and binding.exchange is exchange and binding.key == key:
                if binding.arguments == arguments:
                    return binding
        return None


class Direct(Exchange):
    """The binding key is the routing key (AMQP 0-9-1 section 3.1.3.1)."""

    kind = "direct"

    def matching(self, key: str, headers: dict[str, object]) -> list[Binding]:
        """See `Exchange.matching`."""
        return [binding for binding in self.bindings if binding.key == key]


class Fanout(Exchange):
    """Every binding (section 3.1.3.2)."""

    kind = "fanout"

    def matching(self, key: str, headers: dict[str, object]) -> list[Binding]:
        """See `Exchange.matching`."""
        return list(self.bindings)


class Topic(Exchange):
    """`*` matches one word, `#` any number of words (AMQP 0-9-1 section 3.1.3.3)."""

    kind = "topic"

    def matching(self, key: str, headers: dict[str, object]) -> list[Binding]:
        """See `Exchange.matching`."""
        words = key.split(".")
        return [binding for binding in self.bindings if topic_matches(binding.words, words)]


class Headers(Exchange):
    """Bindings whose arguments match the headers (section 3.1.3.4)."""

    kind = "headers"
    by_headers = True

    def check_binding(self, arguments: dict[str, object]) -> None:
        """See `Exchange.check_binding`."""
        mode = arguments.get("x-match", ALL)
        if mode not in (ALL, ANY, ALL_WITH_X, ANY_WITH_X):
            text = mode.decode(errors="replace") if isinstance(mode, bytes) else str(mode)
            raise PreconditionFailed(
                f"exchange '{self.name}': x-match={text} is none of all, any, all-with-x and any-with-x"
            )

    def matching(self, key: str, headers: dict[str, object]) -> list[Binding]:
        """See `Exchange.matching`."""
        return [binding for binding in self.bindings if binding.matches_headers(headers)]


def topic_matches(pattern: list[str], words: list[str]) -> bool:
    """Tell whether a topic pattern matches, in time proportional to the product of the lengths at most.

    The greedy matching of wildcards: on a mismatch go back to the last `#` and let it take one word more.
    """
    at, word, last_hash, taken = 0, 0, -1, 0
    while word < len(words):
        if at < len(pattern) and pattern[at] == "#":
            last_hash, taken = at, word
            at += 1
        elif at < len(pattern) and (pattern[at] == "*" or pattern[at] == words[word]):
            at += 1
            word += 1
        elif last_hash >= 0:
            taken += 1
            at, word = last_hash + 1, taken
        else:
            return False
    return all(left == "#" for left in pattern[at:])


def make_exchange(kind: str, name: str) -> Exchange:
    """Make an exchange of a type by its AMQP name.

    Raises CommandInvalid (503) for an unknown type, as RabbitMQ does.
    """
    if kind == "direct":
        return Direct(name)
    if kind == "fanout":
        return Fanout(name)
    if kind == "topic":
        return Topic(name)
    if kind == "headers":
        return Headers(name)
    raise CommandInvalid(f"unknown exchange type '{kind}'; known are direct, fanout, topic and headers")
