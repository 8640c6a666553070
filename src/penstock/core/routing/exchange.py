"""Exchanges: they find the bindings for routing keys and headers. The types of AMQP, each with its own index.

Bindings lead from an exchange to a queue or another exchange; all bindings of a virtual host have an index by
destination.
"""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.content.selector.fields import Field
from penstock.content.selector.selector import LETTERS_A_UNIT, Selector, parse_selector
from penstock.core.queue.queue import Queue
from penstock.core.routing.header_match import HeaderMatch, HeaderMatchIndex, check_header_match, comparable, type_name
from penstock.core.routing.topic_trie import TopicTrie, split_words
from penstock.core.settings.policies import Policy
from penstock.errors import InvalidField, PreconditionFailed
from penstock.flow.gate import Gate
from penstock.flow.series import Series

QUEUE: Final = "queue"
EXCHANGE: Final = "exchange"
"""Kinds of destinations."""
SELECTOR: Final = "x-jms-selector"
"""Argument of a binding: the text of a selector that messages must match to enter the queue."""

NO_LOCAL: Final = "x-no-local"
"""Argument of a binding: publishers whose messages are excluded. A text is the container-id of AMQP 1.0 clients, an
integer the number of a connection.
"""

BindingKey = tuple[str, str, str, object]
"""Identity of a binding within its exchange: kind and name of the destination, key, and a digest of the arguments.

The arguments themselves, made comparable, would take twice the memory of the originals.
"""


class Binding:
    """A binding from an exchange to a queue or to another exchange: exactly one of the two is set."""

    __slots__ = (
        "source",
        "queue",
        "exchange",
        "key",
        "arguments",
        "arguments_charge",
        "selector",
        "excluded",
        "binding_key",
        "removed",
    )

    def __init__(
        self, source: Exchange, queue: Queue | None, exchange: Exchange | None, key: str, arguments: dict[str, object]
    ) -> None:
        self.source = source
        self.queue = queue
        self.exchange = exchange
        self.key = key
        self.arguments = arguments
        self.arguments_charge: int = 0
        """Charge of the arguments in the metadata memory."""
        self.selector = selector_in(arguments)
        """The selector that messages must match in addition to the key or headers; None without one."""
        self.excluded: object = no_local_in(arguments)
        """Container-id (text) or connection number of the excluded publishers; None for none."""
        self.binding_key: BindingKey = binding_key(queue, exchange, key, arguments)
        self.removed: bool = False
        """True once the binding was removed from its source."""


def selector_in(arguments: dict[str, object]) -> Selector | None:
    """Return the selector in the arguments of a binding. Raises InvalidField for a text that is no selector."""
    text = arguments.get(SELECTOR)
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidField(f"argument {SELECTOR} of a binding must be a string, the text of a message selector")
    return parse_selector(text)


def no_local_in(arguments: dict[str, object]) -> object:
    """Return the publishers that the arguments of a binding exclude: a container-id or a number; None for none.

    Raises InvalidField for other values.
    """
    own = arguments.get(NO_LOCAL)
    if own is None or isinstance(own, str) or (isinstance(own, int) and not isinstance(own, bool)):
        return own
    raise InvalidField(f"argument {NO_LOCAL} of a binding must be a string, the container-id of a publisher")


def selector_work(arguments: dict[str, object]) -> i64:
    """Return the units of work to parse the selector in a binding's arguments."""
    text = arguments.get(SELECTOR)
    return len(text) // LETTERS_A_UNIT if isinstance(text, str) else 0


def selector_memory(selector: Selector | None) -> int:
    """Return the memory of a parsed selector; 0 for none."""
    return 0 if selector is None else selector.memory


class Bindings:
    """All bindings of a virtual host by destination, so that deleting a queue finds its bindings."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self._leading: dict[tuple[str, str], dict[Binding, None]] = {}
        """Bindings by kind and name of the destination."""

    def take(self, kind: str, name: str) -> dict[Binding, None]:
        """Remove and return the bindings to a deleted queue or exchange; the caller removes them from their sources."""
        return self._leading.pop((kind, name), {})

    def to(self, kind: str, name: str) -> list[Binding]:
        """Return the bindings to a queue or an exchange."""
        return list(self._leading.get((kind, name), {}))

    def first_to(self, kind: str, name: str, most: int) -> tuple[list[Binding], int]:
        """Return the first bindings to a queue or an exchange, and the number of all."""
        leading = self._leading.get((kind, name), {})
        return list(islice(leading, most)), len(leading)

    def sources(self, queue: str, most: int) -> dict[Exchange, None]:
        """Return the exchanges that lead to a queue, the nearest first; at most so many bindings are looked at."""
        found: dict[Exchange, None] = {}
        left = self._add_sources(QUEUE, queue, found, most)
        begin = 0
        while left and begin < len(found):
            nearer = list(islice(found, begin, None))
            begin = len(found)
            for exchange in nearer:
                left = self._add_sources(EXCHANGE, exchange.name, found, left)
        return found

    def _add_sources(self, kind: str, name: str, found: dict[Exchange, None], most: int) -> int:
        """Add the sources of the first bindings to a queue or an exchange; return how many more may be looked at."""
        leading = self._leading.get((kind, name))
        if leading is None:
            return most
        for binding in islice(leading, most):
            found[binding.source] = None
        return max(most - len(leading), 0)

    def add(self, binding: Binding) -> None:
        """Add a new binding, also to its source exchange."""
        binding.source.add(binding)
        end = (binding.binding_key[0], binding.binding_key[1])
        leading = self._leading.get(end)
        if leading is None:
            leading = {}
            self._leading[end] = leading
        leading[binding] = None
        self.count += 1

    def remove(self, binding: Binding) -> None:
        """Undo `add`."""
        binding.source.remove(binding)
        end = (binding.binding_key[0], binding.binding_key[1])
        leading = self._leading.get(end)
        if leading is not None:
            leading.pop(binding, None)
            if not leading:
                del self._leading[end]
        self.count -= 1


def arguments_digest(binding: Binding) -> str:
    """Return the digest of a binding's arguments as hexadecimal text; empty without arguments."""
    digest = binding.binding_key[3]
    return digest.hex() if isinstance(digest, bytes) else ""


def binding_key(queue: Queue | None, exchange: Exchange | None, key: str, arguments: dict[str, object]) -> BindingKey:
    """Return the identity of a binding within its exchange."""
    # Most bindings have no arguments and need no digest.
    compared = _digest(arguments) if arguments else None
    if queue is not None:
        return (QUEUE, queue.name, key, compared)
    assert exchange is not None
    return (EXCHANGE, exchange.name, key, compared)


def _digest(arguments: dict[str, object]) -> bytes:
    """Return a digest of the arguments by type and value, independent of their order."""
    encoded = repr(comparable(arguments)).encode(errors="surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).digest()


class ExchangeCounters:
    """Counters of one exchange. Routes refer to them, so that a publish on the fast path costs one addition."""

    __slots__ = ("published", "more_routed", "returned", "dropped", "series")

    def __init__(self) -> None:
        self.published: i64 = 0
        """Messages published to the exchange, dead letters included."""
        self.more_routed: i64 = 0
        """Messages led into queues, minus published messages: most messages enter one queue, and need no addition
        here.
        """
        self.returned: i64 = 0
        self.dropped: i64 = 0
        """Messages that reached no queue: mandatory ones, and others."""
        self.series: Series | None = None
        """Samples of the counters; None before the first message."""

    def count_unroutable(self, mandatory: bool) -> None:
        """Count a message that reached no queue."""
        self.published += 1
        self.more_routed -= 1
        if mandatory:
            self.returned += 1
        else:
            self.dropped += 1

    def routed(self) -> i64:
        """Return the messages led into queues: a message in two queues counts twice."""
        return self.published + self.more_routed


NO_COUNTERS: Final = ExchangeCounters()
"""Counters of routes that are not resolved."""


ALTERNATE: Final = "alternate-exchange"
"""The argument that names the exchange for unroutable messages (an extension of RabbitMQ)."""


class Exchange:
    """An exchange; subclasses find the matching bindings."""

    kind: str = ""
    """Name of its type; see exchange_types.py."""
    by_headers: bool = False
    """True if the queues depend on each message, so that no route is cached."""
    by_chance: bool = False
    """True if they depend on nothing in the message, so that its headers need not be read."""
    hashed_field: Field | None = None
    """The field of messages that `match` gets in place of the routing key; None for the routing key."""
    delays: bool = False
    """True if the header `x-delay` delays messages."""

    def __init__(self, vhost: str, name: str) -> None:
        self.vhost = vhost
        self.name = name
        self.predeclared: bool = False
        """True if the exchange always exists and needs no declaration."""
        self.durable: bool = False
        self.auto_delete: bool = False
        self.deleted: bool = False
        self.internal: bool = False
        self.arguments: dict[str, object] = {}
        self.arguments_charge: int = 0
        """Charge of the arguments in the metadata memory."""
        self.alternate: str | None = None
        """Name of the exchange for messages that match no binding; the exchange need not exist."""
        self.policy: Policy | None = None
        """The policy that applies to the exchange."""
        self.bindings: dict[BindingKey, Binding] = {}
        self.version: i64 = 0
        """Number of changes of bindings and gates: cached routes through the exchange are valid until the next
        change.
        """
        self.counters = ExchangeCounters()
        self.gates: list[Gate] = []
        """Gates of the address: its depth, its rate, operator gates; see `set_gates`."""

    def set_gates(self, gates: list[Gate]) -> None:
        """Set the gates on the road of publishes to the exchange, also of publishes that have a route already."""
        self.gates[:] = gates
        self.version += 1

    def set_policy(self, policy: Policy | None) -> None:
        """Set the policy of the exchange: an alternate exchange in its arguments is stronger than the policy's."""
        self.policy = policy
        self.alternate = alternate_of(self.name, self.vhost, self.arguments)
        if self.alternate is None and policy is not None:
            self.alternate = policy.alternate
        self.version += 1

    def match(self, key: str, headers: dict[str, object], matched: list[Binding], most: i64) -> i64:
        """Append to `matched` the bindings that match this key and these headers.

        Returns the number of bindings, or parts of their index, visited; above `most` the search has stopped.
        """
        raise NotImplementedError

    def find(
        self, queue: Queue | None, exchange: Exchange | None, key: str, arguments: dict[str, object]
    ) -> Binding | None:
        """Return this exact binding, or None."""
        return self.bindings.get(binding_key(queue, exchange, key, arguments))

    def find_named(self, kind: str, name: str, key: str, digest: str) -> Binding | None:
        """Return a binding by kind and name of its destination, key and `arguments_digest`; None if there is no such
        binding.
        """
        try:
            return self.bindings.get((kind, name, key, bytes.fromhex(digest) if digest else None))
        except ValueError:
            return None

    def routing_kind(self) -> str:
        """Return the type that decides which bindings match."""
        return self.kind

    def set_arguments(self, arguments: dict[str, object]) -> None:
        """Set the arguments of a new exchange. Raises PreconditionFailed (406) for invalid ones."""
        self.arguments = arguments

    def compared(self) -> tuple[str, ...]:
        """Return the arguments in which a further declaration must agree (RabbitMQ compares the alternate exchange)."""
        return (ALTERNATE,)

    def check_binding(self, key: str, arguments: dict[str, object]) -> None:
        """Check the key and arguments of a new binding. Raises PreconditionFailed (406) for invalid ones."""

    def add(self, binding: Binding) -> None:
        """Add a binding; called by `Bindings`."""
        self.bindings[binding.binding_key] = binding
        self.version += 1
        self._index(binding)

    def remove(self, binding: Binding) -> None:
        """Undo `add`. A deleted exchange removes its bindings from its table itself."""
        self.bindings.pop(binding.binding_key, None)
        binding.removed = True
        self.version += 1
        self._unindex(binding)

    def _index(self, binding: Binding) -> None:
        """Add a binding to the index of the type."""

    def _unindex(self, binding: Binding) -> None:
        """Remove a binding from the index of the type."""


class Direct(Exchange):
    """Direct exchange: the binding key equals the routing key (AMQP 0-9-1 section 3.1.3.1)."""

    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name)
        self._by_key: dict[str, dict[Binding, None]] = {}

    @override
    def match(self, key: str, headers: dict[str, object], matched: list[Binding], most: i64) -> i64:
        bindings = self._by_key.get(key)
        if bindings is None:
            return 1
        if len(bindings) <= most:
            for binding in bindings:
                matched.append(binding)
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
    """Fanout exchange: every binding matches (section 3.1.3.2)."""

    @override
    def match(self, key: str, headers: dict[str, object], matched: list[Binding], most: i64) -> i64:
        if len(self.bindings) <= most:
            matched.extend(self.bindings.values())
        return len(self.bindings) + 1


class Topic(Exchange):
    """Topic exchange: `*` matches one word, `#` any number of words (section 3.1.3.3)."""

    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name)
        self._topics: TopicTrie[Binding] = TopicTrie()

    @override
    def match(self, key: str, headers: dict[str, object], matched: list[Binding], most: i64) -> i64:
        return self._topics.match(split_words(key), matched, most)

    def _index(self, binding: Binding) -> None:
        self._topics.add(split_words(binding.key), binding)

    def _unindex(self, binding: Binding) -> None:
        self._topics.discard(split_words(binding.key), binding)


class Headers(Exchange):
    """Headers exchange: the binding's arguments match the headers (section 3.1.3.4)."""

    by_headers = True

    def __init__(self, vhost: str, name: str) -> None:
        super().__init__(vhost, name)
        self._matches: HeaderMatchIndex[Binding] = HeaderMatchIndex()

    @override
    def check_binding(self, key: str, arguments: dict[str, object]) -> None:
        check_header_match(arguments)

    @override
    def match(self, key: str, headers: dict[str, object], matched: list[Binding], most: i64) -> i64:
        return self._matches.match(headers, matched, most)

    def _index(self, binding: Binding) -> None:
        self._matches.add(binding, HeaderMatch(binding.arguments))

    def _unindex(self, binding: Binding) -> None:
        self._matches.discard(binding)


def alternate_of(name: str, vhost: str, arguments: dict[str, object]) -> str | None:
    """Return the alternate exchange named in an exchange's arguments, or None.

    Raises PreconditionFailed (406) if it is not text.
    """
    if ALTERNATE not in arguments:
        return None
    alternate = arguments[ALTERNATE]
    if not isinstance(alternate, str):
        raise PreconditionFailed(
            f"invalid type '{type_name(alternate)}' for arg '{ALTERNATE}' in exchange '{name}' in vhost '{vhost}'"
        )
    return alternate
