"""Bindings between an exchange and a queue or another exchange, and their index by destination."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.content.selector.selector import LETTERS_A_UNIT, Selector, parse_selector
from penstock.core.routing.header_match import comparable
from penstock.errors import InvalidField

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue
    from penstock.core.routing.exchange import Exchange

QUEUE: Final = "queue"
EXCHANGE: Final = "exchange"
"""Kinds of destinations."""
SELECTOR: Final = "x-jms-selector"
"""Argument of a binding: the text of a selector, by which messages are chosen before they enter the queue."""

BindingKey = tuple[str, str, str, object]
"""Identity of a binding within its exchange: kind and name of the destination, key, and a digest of the arguments.

The arguments themselves, made comparable, would take twice the memory of the binding's own.
"""


class Binding:
    """A binding from an exchange to a queue or to another exchange: one of the two is None."""

    __slots__ = ("source", "queue", "exchange", "key", "arguments", "arguments_charge", "selector", "binding_key")

    def __init__(
        self, source: Exchange, queue: Queue | None, exchange: Exchange | None, key: str, arguments: dict[str, object]
    ) -> None:
        self.source = source
        self.queue = queue
        self.exchange = exchange
        self.key = key
        self.arguments = arguments
        self.arguments_charge: int = 0
        """Charge of its arguments in the metadata memory."""
        self.selector = selector_in(arguments)
        """The selector that messages must match in addition to its key or headers; None for none."""
        self.binding_key: BindingKey = binding_key(queue, exchange, key, arguments)


def selector_in(arguments: dict[str, object]) -> Selector | None:
    """Return the selector in the arguments of a binding. Raises InvalidField for a text that is none."""
    text = arguments.get(SELECTOR)
    if text is None:
        return None
    if not isinstance(text, str):
        raise InvalidField(f"argument {SELECTOR} of a binding must be a string, the text of a message selector")
    return parse_selector(text)


def selector_work(arguments: dict[str, object]) -> i64:
    """Return the units of work of a binding to parse the selector in its arguments: to check it, and to make it."""
    text = arguments.get(SELECTOR)
    return 2 * len(text) // LETTERS_A_UNIT if isinstance(text, str) else 0


def selector_memory(selector: Selector | None) -> int:
    """Return the memory of a parsed selector; 0 for none."""
    return 0 if selector is None else selector.memory


class Bindings:
    """All bindings of a virtual host by destination, so that deleting a queue finds its bindings."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self._leading: dict[tuple[str, str], dict[Binding, None]] = {}
        """By kind and name of the destination."""

    def take(self, kind: str, name: str) -> list[Binding]:
        """Remove and return the bindings to a deleted queue or exchange; the caller removes them from their sources."""
        return list(self._leading.pop((kind, name), {}))

    def to(self, kind: str, name: str) -> list[Binding]:
        """Return the bindings to a queue or an exchange."""
        return list(self._leading.get((kind, name), {}))

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
    # Most have no arguments and need no digest.
    compared = _digest(arguments) if arguments else None
    if queue is not None:
        return (QUEUE, queue.name, key, compared)
    assert exchange is not None
    return (EXCHANGE, exchange.name, key, compared)


def _digest(arguments: dict[str, object]) -> bytes:
    """Return a digest of the arguments by type and value, independent of their order."""
    encoded = repr(comparable(arguments)).encode(errors="surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).digest()
