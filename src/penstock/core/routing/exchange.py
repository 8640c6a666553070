"""Exchanges: routing keys and headers in, bindings out. One type a class, each with the index that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.routing.binding import Binding, BindingKey, binding_key
from penstock.core.routing.field_values import type_name
from penstock.core.routing.header_match import HeaderMatch, HeaderMatchIndex, check_header_match
from penstock.core.routing.topic_trie import TopicTrie, split_words
from penstock.errors import PreconditionFailed

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue
    from penstock.flow.gate import Gate

ALTERNATE: Final = "alternate-exchange"
"""The argument that names where messages go that no binding of an exchange takes (an extension of RabbitMQ)."""


class Exchange:
    """Where publishes arrive; subclasses choose which bindings match."""

    kind: str = ""
    by_headers: bool = False

    def __init__(self, vhost: str, name: str) -> None:
        self.vhost = vhost
        self.name = name
        self.predeclared: bool = False
        """Whether it is always there, so that nobody has to declare it."""
        self.durable: bool = False
        self.auto_delete: bool = False
        self.deleted: bool = False
        self.internal: bool = False
        self.arguments: dict[str, object] = {}
        self.arguments_charge: int = 0
        """What its arguments count with in `Metadata`."""
        self.alternate: str | None = None
        """The exchange that gets what no binding takes; there need not be one of that name."""
        self.bindings: dict[BindingKey, Binding] = {}
        self.version: i64 = 0
        """Counts changes of its bindings and gates: a route through it stands until then."""
        self.gates: list[Gate] = []
        """The gates of the address: its depth, its rate, the operator's; see `stand_by`."""

    def set_gates(self, gates: list[Gate]) -> None:
        """Let these gates stand on the road of what is published to it from now on."""
        self.gates = gates
        self.version += 1

    def match(self, key: str, headers: dict[str, object], found: list[Binding], most: i64) -> i64:
        """Add to `found` the bindings that a message with this key and these headers takes.

        Returns how many bindings, or parts of their index, were visited; when that is more than `most`, not all were
        found.
        """
        raise NotImplementedError

    def find(
        self, queue: Queue | None, exchange: Exchange | None, key: str, arguments: dict[str, object]
    ) -> Binding | None:
        """Return the binding that is exactly this one, or None."""
        return self.bindings.get(binding_key(queue, exchange, key, arguments))

    def check_binding(self, arguments: dict[str, object]) -> None:
        """Look at the arguments of a new binding. Raises PreconditionFailed (406) for what cannot be meant."""

    def add(self, binding: Binding) -> None:
        """Lead to one more place; `Bindings` calls it."""
        self.bindings[binding.binding_key] = binding
        self.version += 1
        self._index(binding)

    def remove(self, binding: Binding) -> None:
        """Undo `add`."""
        del self.bindings[binding.binding_key]
        self.version += 1
        self._unindex(binding)

    def _index(self, binding: Binding) -> None:
        """Put a binding into the index of the type."""

    def _unindex(self, binding: Binding) -> None:
        """Undo `_enter`."""


class Direct(Exchange):
    """The binding key is the routing key (AMQP 0-9-1 section 3.1.3.1)."""

    kind = "direct"

    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name)
        self._by_key: dict[str, dict[Binding, None]] = {}

    def match(self, key: str, headers: dict[str, object], found: list[Binding], most: i64) -> i64:
        """See `Exchange.match`."""
        bindings = self._by_key.get(key)
        if bindings is None:
            return 1
        if len(bindings) <= most:
            for binding in bindings:
                found.append(binding)
        return len(bindings)

    def _index(self, binding: Binding) -> None:
        bindings = self._by_key.get(binding.key)
        if bindings is None:
            bindings = {}
            self._by_key[binding.key] = bindings
        bindings[binding] = None

    def _unindex(self, binding: Binding) -> None:
        bindings = self._by_key[binding.key]
        del bindings[binding]
        if not bindings:
            del self._by_key[binding.key]


class Fanout(Exchange):
    """Every binding (section 3.1.3.2)."""

    kind = "fanout"

    def match(self, key: str, headers: dict[str, object], found: list[Binding], most: i64) -> i64:
        """See `Exchange.match`."""
        if len(self.bindings) <= most:
            found.extend(self.bindings.values())
        return len(self.bindings) + 1


class Topic(Exchange):
    """`*` matches one word, `#` any number of words (section 3.1.3.3)."""

    kind = "topic"

    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name)
        self._topics: TopicTrie[Binding] = TopicTrie()

    def match(self, key: str, headers: dict[str, object], found: list[Binding], most: i64) -> i64:
        """See `Exchange.match`."""
        return self._topics.match(split_words(key), found, most)

    def _index(self, binding: Binding) -> None:
        self._topics.add(split_words(binding.key), binding)

    def _unindex(self, binding: Binding) -> None:
        self._topics.discard(split_words(binding.key), binding)


class Headers(Exchange):
    """Bindings whose arguments match the headers (section 3.1.3.4)."""

    kind = "headers"
    by_headers = True

    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name)
        self._matches: HeaderMatchIndex[Binding] = HeaderMatchIndex()

    def check_binding(self, arguments: dict[str, object]) -> None:
        """See `Exchange.check_binding`."""
        check_header_match(arguments)

    def match(self, key: str, headers: dict[str, object], found: list[Binding], most: i64) -> i64:
        """See `Exchange.match`."""
        return self._matches.match(headers, found, most)

    def _index(self, binding: Binding) -> None:
        self._matches.add(binding, HeaderMatch(binding.arguments))

    def _unindex(self, binding: Binding) -> None:
        self._matches.discard(binding)


def make_exchange(kind: str, vhost: str, name: str) -> Exchange:
    """Make an exchange of a type by its AMQP name.

    Raises PreconditionFailed (406) for an unknown type, as RabbitMQ 4 does; before, it closed the connection (503).
    """
    if kind == "direct":
        return Direct(vhost, name)
    if kind == "fanout":
        return Fanout(vhost, name)
    if kind == "topic":
        return Topic(vhost, name)
    if kind == "headers":
        return Headers(vhost, name)
    raise PreconditionFailed(f"unknown exchange type '{kind}'; known are direct, fanout, topic and headers")


def alternate_of(name: str, vhost: str, arguments: dict[str, object]) -> str | None:
    """Return the alternate exchange that the arguments of an exchange name, or None.

    Raises PreconditionFailed (406) where it is no text.
    """
    if ALTERNATE not in arguments:
        return None
    alternate = arguments[ALTERNATE]
    if not isinstance(alternate, str):
        raise PreconditionFailed(
            f"invalid type '{type_name(alternate)}' for arg '{ALTERNATE}' in exchange '{name}' in vhost '{vhost}'"
        )
    return alternate
