"""A virtual host: the names. Declaring, binding, deleting and routing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.dead_letters import DeadLetters
from penstock.core.equivalence import check_same
from penstock.core.exchange import Binding, Exchange, make_exchange
from penstock.core.message import Address
from penstock.core.queue import Queue
from penstock.core.route import Route
from penstock.core.table import SettingsTable
from penstock.errors import AccessRefused, NotFound, PreconditionFailed, ResourceError, ResourceLocked
from penstock.names import check_exchange_arguments, read_arguments

if TYPE_CHECKING:
    from penstock.core.gates import Gates
    from penstock.flow.turns import Turns

CONTROL_EXCHANGE: Final = "penstock.control"
"""Leads to the broker itself: control operations travel as ordinary publishes."""

PREDECLARED: Final = (
    ("", "direct"),
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
    (CONTROL_EXCHANGE, "direct"),
)
"""AMQP 0-9-1 section 3.1.3, and our own."""

LOCKED: Final = (
    "It could be originally declared on another connection or the exclusive property value does not match that of the "
    "original declaration."
)
"""RabbitMQ's words, which its users search for."""

QUEUES_MAX: Final = 50_000
EXCHANGES_MAX: Final = 50_000
BINDINGS_MAX: Final = 500_000
"""How many may exist in a virtual host: a client that declares in a loop meets a bound before the memory does."""


class VirtualHost:
    """One name space of exchanges and queues."""

    def __init__(self, name: str, turns: Turns, table: SettingsTable, gates: Gates) -> None:
        self.name = name
        self.gates = gates
        self.turns = turns
        self.table = table
        self.queues: dict[str, Queue] = {}
        self.replies: dict[str, Queue] = {}
        """What direct replies go through, by address: one queue for each channel that asks, in no list."""
        self.exchanges: dict[str, Exchange] = {}
        self.epoch: i64 = 0
        """Counts changes of the topology; a route that was resolved in an older epoch is resolved again."""
        self.bindings: i64 = 0
        for exchange, kind in PREDECLARED:
            self.exchanges[exchange] = make_exchange(kind, exchange)
            self.exchanges[exchange].durable = True

    # Queues

    def queue(self, name: str, asker: object = None) -> Queue:
        """Return a queue by name. Raises NotFound (404), or ResourceLocked (405) if it is exclusive to someone else."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        if queue.owner is not None and queue.owner is not asker:
            raise self._locked(name)
        return queue

    def _locked(self, name: str) -> ResourceLocked:
        return ResourceLocked(
            f"cannot obtain exclusive access to locked queue '{name}' in vhost '{self.name}'. {LOCKED}"
        )

    def declare_queue(
        self, name: str, arguments: dict[str, object], durable: bool, auto_delete: bool, owner: object, asker: object
    ) -> Queue:
        """Make a queue, or check that the one with this name is the same.

        `owner` is the connection for an exclusive queue and None otherwise; `asker` is who declares. Raises
        ResourceLocked (405) if one of the two is exclusive and the other is not, PreconditionFailed (406) for arguments
        that cannot be meant or differ, with nothing created.
        """
        if name in self.queues:
            queue = self.queue(name, asker)
            if (queue.owner is None) != (owner is None):
                raise self._locked(name)
            check_same(queue, arguments, durable, auto_delete)
            return queue
        if len(self.queues) >= QUEUES_MAX:
            raise ResourceError(
                f"vhost '{self.name}' has {QUEUES_MAX} queues, the most it may have; '{name}' was not declared"
            )
        settings = self.table.queue(self.name, name, read_arguments(name, arguments))
        queue = Queue(self.name, name, settings, self.turns)
        queue.arguments = arguments
        queue.durable = durable
        queue.auto_delete = auto_delete
        queue.owner = owner
        self.queues[name] = queue
        self.gates.place_queue(queue)
        self.see_to_letters(queue)
        self.epoch += 1
        return queue

    def open_replies(self, address: str) -> Queue:
        """Make the queue that direct replies to one consumer go through; it ends with that consumer.

        Who replies is never held back by who asked: what would pass its capacity is refused.
        """
        settings = self.table.queue(self.name, address, read_arguments(address, {"overflow": "reject"}))
        queue = Queue(self.name, address, settings, self.turns)
        queue.auto_delete = True
        self.replies[address] = queue
        self.gates.place_queue(queue)
        self.epoch += 1
        return queue

    def leads_to(self, address: str) -> Queue | None:
        """Return the queue that a routing key leads to in the default exchange; None where there is none."""
        queue = self.queues.get(address)
        return self.replies.get(address) if queue is None else queue

    def delete_queue(self, queue: Queue, now: float) -> int:
        """Remove a queue and all its bindings; returns how many messages that were with no consumer went with it.

        Its gate opens for good, so that whoever waits for it is answered.
        """
        count = int(queue.available())
        queue.deleted = True
        if self.replies.pop(queue.name, None) is None:
            del self.queues[queue.name]
        for exchange in list(self.exchanges.values()):
            self._drop_bindings(exchange, queue, None)
        self.epoch += 1
        queue.purge(now)
        queue.gate.reopen(queue.messages, queue.bytes, now)
        queue.review(now)
        return count

    def see_to_letters(self, queue: Queue) -> None:
        """Arrange what becomes of messages that die in a queue, by its present settings.

        Letters that wait go on to where they were to go.
        """
        if queue.settings.dead_letter_exchange is None:
            queue.dead_letters = None
        elif queue.dead_letters is None:
            queue.dead_letters = DeadLetters(self.gates.broker, queue)

    # Exchanges

    def exchange(self, name: str) -> Exchange:
        """Return an exchange by name. Raises NotFound (404)."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self.name}'")
        return exchange

    def declare_exchange(
        self, name: str, kind: str, arguments: dict[str, object], durable: bool, auto_delete: bool, internal: bool
    ) -> Exchange:
        """Make an exchange, or check that the one with this name is the same (406 if not)."""
        exchange = self.exchanges.get(name)
        if exchange is not None:
            _check_same_exchange(exchange, kind, durable, auto_delete, internal)
            return exchange
        if name.startswith("amq.") or name == CONTROL_EXCHANGE:
            raise AccessRefused(f"exchange name '{name}' contains the reserved prefix amq.*")
        if len(self.exchanges) >= EXCHANGES_MAX:
            raise ResourceError(f"vhost '{self.name}' has {EXCHANGES_MAX} exchanges, the most it may have")
        check_exchange_arguments(name, arguments)
        self.table.limits("address", name)  # What patterns say about it must be possible together.
        exchange = make_exchange(kind, name)
        exchange.durable = durable
        exchange.auto_delete = auto_delete
        exchange.internal = internal
        exchange.arguments = arguments
        self.exchanges[name] = exchange
        self.gates.place_address(self, name)
        self.epoch += 1
        return exchange

    def delete_exchange(self, name: str, if_unused: bool) -> None:
        """Remove an exchange and its bindings; one that does not exist is no error (as in RabbitMQ)."""
        if name.startswith("amq.") or name in ("", CONTROL_EXCHANGE):
            raise AccessRefused(f"exchange '{name}' is the broker's own and cannot be deleted")
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if if_unused and exchange.bindings:
            raise PreconditionFailed(
                f"exchange '{name}' in vhost '{self.name}' in use: it has {len(exchange.bindings)} bindings"
            )
        del self.exchanges[name]
        self.gates.forget_address(self, name)
        self.bindings -= len(exchange.bindings)
        for other in list(self.exchanges.values()):
            self._drop_bindings(other, None, exchange)
        self.epoch += 1

    # Bindings

    def bind(
        self, source: str, queue: Queue | None, exchange: Exchange | None, key: str, arguments: dict[str, object]
    ) -> None:
        """Bind a queue, or an exchange, to an exchange; doing so twice is once."""
        origin = self.exchange(source)
        if source in ("", CONTROL_EXCHANGE):
            raise AccessRefused(
                "operation not permitted on the default exchange" if not source else f"nothing binds to '{source}'"
            )
        if origin.find(queue, exchange, key, arguments) is not None:
            return
        origin.check_binding(arguments)
        if self.bindings >= BINDINGS_MAX:
            raise ResourceError(f"vhost '{self.name}' has {BINDINGS_MAX} bindings, the most it may have")
        binding = Binding(origin, queue, exchange, key)
        binding.arguments = arguments
        origin.bindings.append(binding)
        origin.was_bound = True
        self.bindings += 1
        self.epoch += 1

    def unbind(
        self, source: str, queue: Queue | None, exchange: Exchange | None, key: str, arguments: dict[str, object]
    ) -> None:
        """Remove a binding; one that does not exist is no error (as in RabbitMQ)."""
        origin = self.exchange(source)
        binding = origin.find(queue, exchange, key, arguments)
        if binding is not None:
            origin.bindings.remove(binding)
            self.bindings -= 1
            self.epoch += 1
            self._auto_delete(origin)

    def _drop_bindings(self, exchange: Exchange, queue: Queue | None, target: Exchange | None) -> None:
        kept = [b for b in exchange.bindings if not (b.queue is queue and b.exchange is target)]
        if len(kept) != len(exchange.bindings):
            self.bindings -= len(exchange.bindings) - len(kept)
            exchange.bindings = kept
            self._auto_delete(exchange)

    def _auto_delete(self, exchange: Exchange) -> None:
        if exchange.auto_delete and exchange.was_bound and not exchange.bindings and exchange.name in self.exchanges:
            self.delete_exchange(exchange.name, False)

    # Routing

    def resolve(self, route: Route, headers: dict[str, object], from_within: bool = False) -> None:
        """Find the queues of a route in the present topology.

        Raises NotFound (404), AccessRefused (403) if internal, unless the broker itself publishes (`from_within`).
        """
        address = route.address
        name = address.exchange
        if name == "":
            route.gates = []
            queue = self.leads_to(address.routing_key)
            route.lead_to([] if queue is None else [queue], self.epoch)
            return
        exchange = self.exchange(name)
        if exchange.internal and not from_within:
            raise AccessRefused(f"cannot publish to internal exchange '{name}' in vhost '{self.name}'")
        route.control = name == CONTROL_EXCHANGE
        route.by_headers = False
        route.gates = [] if route.control else exchange.gates
        queues: list[Queue] = []
        seen: list[Exchange] = [exchange]
        at = 0
        while at < len(seen):
            if seen[at].by_headers:
                route.by_headers = True
            for binding in seen[at].matching(address.routing_key, headers):
                if binding.queue is not None and binding.queue not in queues:
                    queues.append(binding.queue)
                elif binding.exchange is not None and binding.exchange not in seen:
                    seen.append(binding.exchange)
            at += 1
        route.lead_to(queues, self.epoch)

    def route(self, exchange: str, routing_key: str, mandatory: bool) -> Route:
        """Make a route; it is resolved at its first use."""
        return Route(Address(exchange, routing_key), mandatory)


def _check_same_exchange(exchange: Exchange, kind: str, durable: bool, auto_delete: bool, internal: bool) -> None:
    for what, is_now, wanted in (
        ("type", exchange.kind, kind),
        ("durable", _lower(exchange.durable), _lower(durable)),
        ("auto_delete", _lower(exchange.auto_delete), _lower(auto_delete)),
        ("internal", _lower(exchange.internal), _lower(internal)),
    ):
        if is_now != wanted:
            raise PreconditionFailed(
                f"inequivalent arg '{what}' for exchange '{exchange.name}': "
                f"received '{wanted}' but current is '{is_now}'"
            )


def _lower(value: bool) -> str:
    return "true" if value else "false"
