"""Bindings: from an exchange to a queue or to another exchange; and all of a virtual host, by where they lead."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.routing.field_values import comparable

if TYPE_CHECKING:
    from penstock.core.queue.queue import Queue
    from penstock.core.routing.exchange import Exchange

QUEUE: Final = "queue"
EXCHANGE: Final = "exchange"
"""Kinds of destinations."""

BindingKey = tuple[str, str, str, object]
"""What tells the bindings of one exchange apart: kind and name of the destination, key, and a digest of the arguments.

The arguments themselves, made comparable, would take twice the memory of the binding's own."""


class Binding:
    """A road from an exchange to a queue or to another exchange: one of the two is None."""

    __slots__ = ("source", "queue", "exchange", "key", "arguments", "arguments_charge", "binding_key")

    def __init__(
        self, source: Exchange, queue: Queue | None, exchange: Exchange | None, key: str, arguments: dict[str, object]
    ) -> None:
        self.source = source
        self.queue = queue
        self.exchange = exchange
        self.key = key
        self.arguments = arguments
        self.arguments_charge: int = 0
        """What its arguments count with in `Metadata`."""
        self.binding_key: BindingKey = binding_key(queue, exchange, key, arguments)


class Bindings:
    """All bindings of a virtual host, by where they lead: who deletes a queue finds those that lead to it."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self._leading: dict[tuple[str, str], dict[Binding, None]] = {}
        """By kind and name of the destination."""

    def take(self, kind: str, name: str) -> list[Binding]:
        """Return the same, and forget where they lead: what they lead to is no more, and they are about to go."""
        return list(self._leading.pop((kind, name), {}))

    def to(self, kind: str, name: str) -> list[Binding]:
        """Return the bindings that lead to a queue or an exchange."""
        return list(self._leading.get((kind, name), {}))

    def add(self, binding: Binding) -> None:
        """Count a new binding, and have its source lead there."""
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


def binding_key(queue: Queue | None, exchange: Exchange | None, key: str, arguments: dict[str, object]) -> BindingKey:
    """Return what tells a binding from the others of its exchange."""
    # Without arguments, as most are, nothing is made for them.
    compared = _digest(arguments) if arguments else None
    if queue is not None:
        return (QUEUE, queue.name, key, compared)
    assert exchange is not None
    return (EXCHANGE, exchange.name, key, compared)


def _digest(arguments: dict[str, object]) -> bytes:
    """Return the same for arguments that are the same by type and value, whatever their order."""
    said = repr(comparable(arguments)).encode(errors="surrogatepass")
    return hashlib.blake2b(said, digest_size=16).digest()
