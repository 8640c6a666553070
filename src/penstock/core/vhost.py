"""A virtual host: its exchanges, queues and bindings, with declaration, binding, deletion and routing."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.access.user import MAX_QUEUES
from penstock.content.delay import header_delay_ms
from penstock.content.properties import answers_control, check_name
from penstock.content.selector.fields import SelectableMessage
from penstock.core.consume.group_scan import check_groups, regroup
from penstock.core.gates.metadata_memory import COMPARED
from penstock.core.gates.registry import Gates
from penstock.core.journal.write_shares import WriteListener, WriteShare
from penstock.core.message import DelayedEnvelope, Envelope, HeaderDelay
from penstock.core.publish.attached_senders import AttachedSenders
from penstock.core.publish.context import PublishContext
from penstock.core.publish.dead_letters import DeadLetterPublisher, publisher_of
from penstock.core.queue.cursor_state import CursorState
from penstock.core.queue.deferred_free import RELEASED_A_UNIT
from penstock.core.queue.delays import attach_retries
from penstock.core.queue.length_limit import limit
from penstock.core.queue.pager import check, enable_paging
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_roll import QueueRoll
from penstock.core.queue.queue_settings import Settings
from penstock.core.queue.retention import (
    Retention,
    bar_of,
    bar_to_retention,
    check_companion,
    check_retention,
    companion_arguments,
    companion_name,
    end_retention,
    is_companion,
    retention_of,
)
from penstock.core.queue.stream_queue import begin_log, make_queue
from penstock.core.queue.types import Features, QueueType, check_flags, default_type, read_features, with_default_type
from penstock.core.routing.declarations import (
    check_exchange,
    check_queue,
    check_writable,
    is_durable,
    persist,
    unpersist,
)
from penstock.core.routing.exchange import (
    EXCHANGE,
    QUEUE,
    Binding,
    BindingKey,
    Bindings,
    Exchange,
    alternate_of,
    no_local_in,
    selector_in,
    selector_memory,
    selector_work,
)
from penstock.core.routing.exchange_types import make_exchange
from penstock.core.routing.route import CONTROL_EXCHANGE, Route, RouteLookup, RouteTarget, through_exchanges
from penstock.core.routing.topology import Topology
from penstock.core.settings.policies import EXCHANGES
from penstock.core.settings.table import SettingsTable
from penstock.core.teardown import Teardown
from penstock.errors import AccessRefused, NotFound, PreconditionFailed, ResourceError, ResourceLocked
from penstock.flow.gate_stats import Churn
from penstock.flow.level import UNLIMITED
from penstock.flow.series import Tally
from penstock.flow.work import AT_ONCE
from penstock.settings.read import check_exchange_arguments, read_arguments
from penstock.settings.table import LENGTHS

TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"
"""RabbitMQ's firehose exchange, present so that clients can bind to it; this broker has no firehose."""
REPLY_TO: Final = "amq.rabbitmq.reply-to"
"""Pseudo-queue of direct reply-to: to consume from, and as `reply_to` of a request."""
RESERVED: Final = "amq."
"""Prefix of the broker's own names (AMQP 0-9-1 section 1.6.2.1)."""

PREDECLARED: Final = (
    ("", "direct"),
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
    (TRACE_EXCHANGE, "topic"),
    (CONTROL_EXCHANGE, "direct"),
)
"""AMQP 0-9-1 section 3.1.3, RabbitMQ's, and our own."""

LOCKED: Final = (
    "It could be originally declared on another connection or the exclusive property value does not match that of the "
    "original declaration."
)
"""RabbitMQ's wording, which its users search for."""

DECLARE_WORK: Final = 20
"""Units of work of a declaration, in addition to the units of its method."""
DELETE_WORK: Final = 5
"""Units of work of the deletion of a queue, in addition to its messages and bindings."""
ROUTE_WORK: Final = 5
"""Units of work of a new route: a routing key that the client has not just used."""
QUEUES_MAX: Final = 200_000
EXCHANGES_MAX: Final = 50_000
BINDINGS_MAX: Final = 500_000
"""Limits of a virtual host, so that a client that declares in a loop reaches a limit before the memory is used up."""
BINDING_COST: Final = 3
"""Units of work to remove a binding."""
BINDINGS_AT_ONCE: Final = 500
"""Bindings of a deleted queue or exchange that are removed at once; more take several turns."""
BINDINGS_A_LOOK: Final = 64
"""Bindings that are removed between two checks of the share of store writes."""


class VirtualHost(Topology):
    """A name space of exchanges and queues."""

    def __init__(self, name: str, broker: PublishContext, table: SettingsTable, gates: Gates) -> None:
        self.name = name
        self.broker = broker
        self.gates = gates
        self.table = table
        self.queues = {}
        self.roll = QueueRoll()
        """Roll of the queues, for walks over several turns."""
        self._answer_queues: int = 0
        """Queues for answers to control requests; the queue limit does not count these."""
        self.replies: dict[str, Queue] = {}
        """Reply queues by address: one for each channel with direct reply-to, listed nowhere."""
        self.exchanges = {}
        self.cursors: dict[str, CursorState] = {}
        """Cursors that read queues of the host, by name."""
        self.metadata: dict[str, object] = {}
        """Description, tags and default queue type in RabbitMQ's form, as given by the user. The others are for display
        and exports.
        """
        self.deleting: bool = False
        """True while the host is being deleted, queue by queue; new connections are refused."""
        self.epoch = 0
        self.era: i64 = 0
        """Count of created and deleted exchanges, a part of those changes."""
        self.senders = AttachedSenders(broker)
        self.bindings = Bindings()
        self.ending: dict[tuple[str, str], BindingsTeardown] = {}
        """Deleted queues and exchanges, by kind and name, that still have bindings."""
        self.churn = Churn()
        self.closed_counts = Tally()
        """Counts of the host's connections that are closed."""
        for exchange, kind in PREDECLARED:
            self.exchanges[exchange] = make_exchange(kind, name, exchange)
            self.exchanges[exchange].durable = True
            self.exchanges[exchange].predeclared = True
        self.exchanges[TRACE_EXCHANGE].internal = True

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

    def default_type(self) -> QueueType:
        """Return the type of queues that are declared without one."""
        return default_type(self.metadata)

    def declare_queue(
        self, name: str, arguments: dict[str, object], durable: bool, auto_delete: bool, owner: object, asker: object
    ) -> Queue:
        """Create a queue, or check that the existing one is equivalent.

        Without an argument x-queue-type it has the default type of the virtual host, if this type permits the flags.
        `owner` is the connection for an exclusive queue and None otherwise; `asker` is the declaring connection. Raises
        ResourceLocked (405) if one of the two is exclusive and the other is not, PreconditionFailed (406) for invalid
        or inequivalent arguments. Nothing is created then.
        """
        self.broker.work.done += DECLARE_WORK
        self.churn.queues_declared += 1
        arguments = with_default_type(arguments, self.default_type(), durable, auto_delete, owner is not None)
        if name in self.queues:
            queue = self.queue(name, asker)
            if (queue.owner is None) != (owner is None):
                raise self._locked(name)
            check_queue(queue, arguments, durable, auto_delete)
            return queue
        check_name("queue name", name)
        self._check_ended(QUEUE, name)
        if len(self.queues) >= QUEUES_MAX:
            raise ResourceError(
                f"vhost '{self.name}' has {QUEUES_MAX} queues, the most it may have; '{name}' was not declared"
            )
        if not answers_control(name):
            self._check_queue_limit(name, 0)
        self.gates.metadata.admit(f"queue '{name}' in vhost '{self.name}'", self.name, arguments)
        features = read_features(name, arguments)
        check_flags(name, features, durable, auto_delete, owner is not None)
        self.broker.work.done += self.table.policies.work(self.name, name)
        settings = self.table.queue(self.name, name, read_arguments(name, arguments), features.type.apply_to)
        check(name, settings, features, self.broker.journal)
        check_groups(name, settings, features)
        self.check_retention(name, settings, bar_to_retention(features, durable, auto_delete, owner is not None), 1)
        check_writable(self.broker.journal, durable and owner is None)
        queue = make_queue(self.name, name, settings, self.broker.turns, self.broker.losses, features)
        queue.arguments = arguments
        queue.durable = durable
        queue.auto_delete = auto_delete
        queue.owner = owner
        persist(self.broker.journal, queue)
        self.add_queue(queue)
        self.setup_retention(queue)
        return queue

    def limited_queues(self) -> int:
        """Return the number of queues that count in the limit: all except queues for answers to control requests."""
        return len(self.queues) - self._answer_queues

    def _check_queue_limit(self, name: str, others: int) -> None:
        """Refuse another queue at the limit of the virtual host, with RabbitMQ's code and words.

        `others` are queues that are declared with it.
        """
        most = self.broker.access.vhost_limit(self.name, MAX_QUEUES)
        if 0 <= most <= self.limited_queues() + others:
            raise PreconditionFailed(
                f"cannot declare queue '{name}': queue limit in vhost '{self.name}' ({most}) is reached"
            )

    def add_queue(self, queue: Queue) -> None:
        """Add a created queue; its name is free."""
        self.queues[queue.name] = queue
        self.roll.add(queue)
        self._answer_queues += answers_control(queue.name)
        self.churn.queues_created += 1
        queue.arguments_charge = self.gates.metadata.add(self.name, queue.arguments)
        if queue.features.type.retains:
            begin_log(self.broker, queue)
        elif queue.settings.overflow.pages:
            enable_paging(self.broker, queue)
        self.gates.attach_queue(queue)
        self.setup_dead_lettering(queue)
        limit(self.broker, queue)
        regroup(self.broker, queue)
        attach_retries(self.broker, queue)
        self.table.federated.review_queue(queue)
        self.epoch += 1

    def create_reply_queue(self, address: str) -> Queue:
        """Create the queue for direct replies to one consumer; the queue is deleted with that consumer.

        A replying client is never blocked by the requesting one: a reply beyond the capacity is refused.
        """
        arguments: dict[str, object] = {"overflow": "reject", **dict.fromkeys(LENGTHS, "none")}
        settings = self.table.queue(self.name, address, read_arguments(address, arguments), "")
        queue = Queue(self.name, address, settings, self.broker.turns, self.broker.losses, Features())
        queue.auto_delete = True
        self.replies[address] = queue
        self.gates.attach_queue(queue)
        limit(self.broker, queue)
        self.epoch += 1
        return queue

    def default_route(self, address: str) -> Queue | None:
        """Return the queue that a routing key names in the default exchange; None if no queue has this name."""
        queue = self.queues.get(address)
        return self.replies.get(address) if queue is None else queue

    def purge_queue(self, queue: Queue, now: float) -> int:
        """Drop all ready messages of a queue; returns their number."""
        much = queue.waiting() > AT_ONCE
        if much:
            self.era += 1  # The queue gets a new ready queue, and each route must find it.
            self.epoch += 1
        return queue.purge(now, much)

    def delete_queue(self, queue: Queue, now: float) -> int:
        """Remove a queue and all its bindings; returns the number of its ready messages.

        Its gate opens for good, so that waiting publishers are answered.
        """
        count = int(queue.waiting())
        self.broker.work.done += DELETE_WORK + min(count, AT_ONCE) // RELEASED_A_UNIT
        queue.deleted = True
        end_retention(queue)
        queue.reserved.review(now)
        if self.replies.pop(queue.name, None) is None:
            del self.queues[queue.name]
            self.roll.remove(queue)
            self._answer_queues -= answers_control(queue.name)
        self._end_bindings(QUEUE, queue.name, {})
        self.table.federated.review_queue(queue)
        unpersist(self.broker.journal, queue)
        self.gates.metadata.give_back(self.name, queue.arguments_charge)
        queue.arguments_charge = 0
        self.epoch += 1
        self.purge_queue(queue, now)
        queue.gate.reopen(queue.messages, queue.measure().bytes, now)
        self.broker.turns.retire(queue.gate)
        queue.update_gate(now)
        self.senders.close((QUEUE, queue.name))
        return count

    def setup_dead_lettering(self, queue: Queue) -> None:
        """Set up dead-lettering of a queue by its present settings.

        Waiting dead letters keep their target, and follow the new strategy.
        """
        letters = publisher_of(queue)
        if letters is not None:
            letters.on_settings_changed()
        if queue.settings.dead_letter_exchange is None:
            queue.dead_letters = None
        elif queue.dead_letters is None:
            queue.dead_letters = DeadLetterPublisher(self.broker, queue, self)

    # Retention

    def check_retention(self, name: str, settings: Settings, bar: str, others: int) -> None:
        """Check that a queue can retain what it settles, if its settings ask for it. `bar` is what prevents it.

        `others` are queues that are declared before its companion. Raises PreconditionFailed (406), ResourceLocked
        (405) for the name of a queue that is being deleted, and ResourceError (506) at a limit.
        """
        check_retention(name, settings, bar, self.broker.journal is not None)
        if bar or not settings.retains:
            return
        companion = companion_name(name)
        other = self.queues.get(companion)
        check_companion(name, settings, other)
        if other is not None:
            return
        check_name("queue name", companion)
        self._check_ended(QUEUE, companion)
        self._check_queue_limit(companion, others)
        if len(self.queues) + others >= QUEUES_MAX:
            raise ResourceError(
                f"vhost '{self.name}' has {QUEUES_MAX} queues, the most it may have; '{companion}' was not declared"
            )
        arguments = companion_arguments(name, settings)
        self.gates.metadata.admit(f"queue '{companion}' in vhost '{self.name}'", self.name, arguments)

    def setup_retention(self, queue: Queue) -> None:
        """Set up the retention of a queue by its present settings, with its companion.

        A queue of the companion's name that is no companion prevents it; `check_retention` refuses that before.
        """
        retention = retention_of(queue)
        journal = self.broker.journal
        wanted = queue.settings.retains and not queue.deleted and not bar_of(queue)
        stream = self.queues.get(companion_name(queue.name)) if wanted else None
        if not wanted or journal is None or (stream is not None and not is_companion(stream, queue.name)):
            if retention is not None:
                retention.end()
            return
        if stream is None:
            stream = self._declare_companion(queue)
        else:
            self._limit_companion(stream, companion_arguments(queue.name, queue.settings))
        if retention is None or retention.stream is not stream:
            Retention(self.broker, queue, stream, journal)

    def _declare_companion(self, queue: Queue) -> Queue:
        name = companion_name(queue.name)
        arguments = companion_arguments(queue.name, queue.settings)
        features = read_features(name, arguments)
        settings = self.table.queue(self.name, name, read_arguments(name, arguments), features.type.apply_to)
        stream = make_queue(self.name, name, settings, self.broker.turns, self.broker.losses, features)
        stream.arguments = arguments
        stream.durable = True
        persist(self.broker.journal, stream)
        self.add_queue(stream)
        return stream

    def _limit_companion(self, stream: Queue, arguments: dict[str, object]) -> None:
        """Let the limits of a companion follow the settings of its queue."""
        if stream.arguments == arguments:
            return
        stream.arguments = arguments
        self.gates.metadata.give_back(self.name, stream.arguments_charge)
        stream.arguments_charge = self.gates.metadata.add(self.name, arguments)
        given = read_arguments(stream.name, arguments)
        settings = self.table.queue(self.name, stream.name, given, stream.features.type.apply_to)
        stream.apply_settings(settings, self.broker.now)
        if self.broker.journal is not None:
            self.broker.journal.change(stream)

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
        """Create an exchange, or check that the existing one is equivalent.

        Raises PreconditionFailed (406) for an unknown type or a difference; AccessRefused (403) for reserved names.
        """
        check_name("exchange name", name)
        made = make_exchange(kind, self.name, name)
        made.set_arguments(arguments)
        self.check_not_default(name)
        self.broker.work.done += DECLARE_WORK
        exchange = self.exchanges.get(name)
        if exchange is not None:
            check_exchange(exchange, self.name, kind, arguments, durable, auto_delete, internal)
            return exchange
        if name.startswith(RESERVED):
            raise AccessRefused(f"exchange name '{name}' contains reserved prefix '{RESERVED}*'")
        self._check_ended(EXCHANGE, name)
        if len(self.exchanges) >= EXCHANGES_MAX:
            raise ResourceError(f"vhost '{self.name}' has {EXCHANGES_MAX} exchanges, the most it may have")
        self.gates.metadata.admit(f"exchange '{name}' in vhost '{self.name}'", self.name, arguments)
        check_exchange_arguments(name, arguments)
        alternate_of(name, self.name, arguments)
        # Settings of matching patterns must not contradict each other.
        self.table.limits("address", name, None, self.name)
        check_writable(self.broker.journal, durable)
        made.durable = durable
        made.auto_delete = auto_delete
        made.internal = internal
        self.add_exchange(made)
        persist(self.broker.journal, made)
        return made

    def add_exchange(self, exchange: Exchange) -> None:
        """Add a created exchange; its name is free.

        Raises PreconditionFailed (406) if the settings of matching patterns contradict each other; the exchange exists
        then, without gates.
        """
        self.exchanges[exchange.name] = exchange
        self.broker.work.done += self.table.policies.work(self.name, exchange.name)
        policy = self.table.policies.best(self.name, EXCHANGES, exchange.name, False)
        exchange.set_policy(policy)
        self.table.federated.review_exchange(exchange)
        exchange.arguments_charge = self.gates.metadata.add(self.name, exchange.arguments)
        self.era += 1
        self.gates.attach_address(self, exchange.name)

    def check_deletable_exchange(self, name: str) -> None:
        """Raise AccessRefused (403) for the default exchange and the broker's exchanges, which cannot be deleted."""
        self.check_not_default(name)
        if name.startswith(RESERVED) or name == CONTROL_EXCHANGE:
            raise AccessRefused(f"deletion of system exchange '{name}' in vhost '{self.name}' not allowed")

    def delete_exchange(self, name: str, if_unused: bool) -> None:
        """Remove an exchange and its bindings; deleting an absent exchange is no error (as in RabbitMQ)."""
        self.check_deletable_exchange(name)
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if if_unused and exchange.bindings:
            raise PreconditionFailed(
                f"exchange '{name}' in vhost '{self.name}' in use: it has {len(exchange.bindings)} bindings"
            )
        self.drop_exchange(exchange)

    def drop_exchange(self, exchange: Exchange) -> None:
        """Remove an exchange and its outgoing bindings."""
        del self.exchanges[exchange.name]
        self.gates.metadata.give_back(self.name, exchange.arguments_charge)
        exchange.arguments_charge = 0
        self.era += 1
        self.epoch += 1
        self.gates.forget_address(self, exchange.name)
        exchange.deleted = True
        self.table.federated.review_exchange(exchange)
        unpersist(self.broker.journal, exchange)
        self._end_bindings(EXCHANGE, exchange.name, exchange.bindings)
        self.senders.close((EXCHANGE, exchange.name))

    # Bindings

    @staticmethod
    def check_not_default(exchange: str) -> None:
        """Raise AccessRefused (403) for the default exchange, which permits only publishing."""
        if exchange == "":
            raise AccessRefused("operation not permitted on the default exchange")

    def check_destination(self, exchange: str) -> None:
        """Raise AccessRefused (403) for an exchange that cannot be the destination of bindings."""
        self.check_not_default(exchange)
        if exchange == CONTROL_EXCHANGE:
            raise AccessRefused(f"exchange '{exchange}' cannot be a destination: it leads to the broker itself")

    def source(self, name: str) -> Exchange:
        """Return an exchange that may be the source of bindings. Raises NotFound (404), AccessRefused (403)."""
        self.check_not_default(name)
        if name == CONTROL_EXCHANGE:
            raise AccessRefused(f"exchange '{name}' cannot be a source: it leads to the broker itself")
        return self.exchange(name)

    def bind(
        self,
        source: str,
        queue: Queue | None,
        exchange: Exchange | None,
        key: str,
        arguments: dict[str, object],
        from_store: bool = False,
    ) -> Binding:
        """Bind a queue, or an exchange, to an exchange; an existing binding is not changed.

        `from_store`: the binding is restored, and its arguments count without a limit. Raises as `source` and
        `check_destination` do, PreconditionFailed (406) for invalid arguments, ResourceError (506) at a limit.
        """
        origin = self.source(source)
        if exchange is not None:
            self.check_destination(exchange.name)
        self.broker.work.done += 2 * selector_work(arguments)  # Once to check it, once to create it.
        selector_in(arguments)
        no_local_in(arguments)
        binding = origin.find(queue, exchange, key, arguments)
        if binding is not None:
            return binding
        if not from_store:
            check_name("routing key", key)
        origin.check_binding(key, arguments)
        if self.bindings.count >= BINDINGS_MAX:
            raise ResourceError(f"vhost '{self.name}' has {BINDINGS_MAX} bindings, the most it may have")
        binding = Binding(origin, queue, exchange, key, arguments)
        if not from_store:
            kind, target = binding.binding_key[0], binding.binding_key[1]
            subject = f"binding from exchange '{source}' to {kind} '{target}' in vhost '{self.name}'"
            more = selector_memory(binding.selector)
            self.gates.metadata.admit(subject, self.name, arguments, argument_copies(origin), more)
        check_writable(self.broker.journal, is_durable(binding))
        self.bindings.add(binding)
        binding.arguments_charge = self.gates.metadata.add(
            self.name, arguments, argument_copies(origin), selector_memory(binding.selector)
        )
        self.epoch += 1
        persist(self.broker.journal, binding)
        return binding

    def unbind(
        self, source: str, queue: Queue | None, exchange: Exchange | None, key: str, arguments: dict[str, object]
    ) -> None:
        """Remove a binding; removing an absent binding is no error (as in RabbitMQ)."""
        binding = self.source(source).find(queue, exchange, key, arguments)
        if binding is not None:
            self.drop_binding(binding)

    def remove_binding(self, binding: Binding) -> None:
        """Remove a binding without deleting an auto-delete exchange."""
        self.bindings.remove(binding)
        self.gates.metadata.give_back(self.name, binding.arguments_charge)
        binding.arguments_charge = 0
        self.epoch += 1
        unpersist(self.broker.journal, binding)

    def _end_bindings(self, kind: str, name: str, outgoing: dict[BindingKey, Binding]) -> None:
        """Remove all bindings from and to a deleted queue or exchange.

        Very many bindings take several turns; the name stays reserved meanwhile.
        """
        ending = BindingsTeardown(self, kind, name, outgoing, self.bindings.take(kind, name))
        self.ending[(kind, name)] = ending
        if ending.left() <= BINDINGS_AT_ONCE:
            self.broker.work.count(ending.work(UNLIMITED, 0.0))
        else:
            self.broker.endings.begin(ending)

    def _check_ended(self, kind: str, name: str) -> None:
        """Raise ResourceLocked (405) for the name of a deleted queue or exchange that still has bindings."""
        ending = self.ending.get((kind, name))
        if ending is not None:
            raise ResourceLocked(
                f"{kind} '{name}' in vhost '{self.name}' is being deleted: {ending.left():,} of its bindings are left; "
                "declare it again when they are gone"
            )

    def drop_binding(self, binding: Binding) -> None:
        """Remove a binding; an auto-delete exchange is deleted with its last one."""
        self.remove_binding(binding)
        source = binding.source
        if source.auto_delete and not source.bindings and self.exchanges.get(source.name) is source:
            self.delete_exchange(source.name, False)

    # Routing

    @override
    def refresh_route(self, route: Route, from_within: bool = False) -> None:
        if route.epoch != self.epoch and not route.is_current(self.epoch, self.era):
            self.resolve(route, {}, from_within)

    def _route_lookup(
        self, exchange: Exchange, route: Route, headers: dict[str, object], message: SelectableMessage | None
    ) -> RouteLookup:
        """Resolve a route by a lookup. Raises ResourceError (506) if the route exceeds the limits of one message."""
        search = RouteLookup(self.exchanges, route, headers, message)
        try:
            search.begin(exchange)
        finally:
            self.broker.work.done += search.work()
        return search

    @override
    def resolve(
        self,
        route: Route,
        headers: dict[str, object],
        from_within: bool = False,
        message: SelectableMessage | None = None,
    ) -> None:
        name = route.envelope.exchange
        stores = self.broker.journal is not None
        if name == "":
            named = RouteTarget(self._named(route))
            named.counters = self.exchanges[name].counters
            route.set_target(named, stores, self.epoch, self.era)
            return
        exchange = self.exchange(name)
        if exchange.internal and not from_within:
            raise AccessRefused(f"cannot publish to internal exchange '{name}' in vhost '{self.name}'")
        search = self._route_lookup(exchange, route, headers, message)
        target = through_exchanges(search.queues(), search.through, search.by_headers)
        target.reads_headers = search.reads_headers
        target.selects = search.selects
        if name == CONTROL_EXCHANGE:
            target.control = True
        else:
            target.set_gates(exchange.gates, self.gates.topics.gates(self, exchange, route.envelope.routing_key))
        if search.delays():
            self._delay(route, headers, search, from_within)
        route.set_target(target, stores, self.epoch, self.era)

    def _delay(self, route: Route, headers: dict[str, object], search: RouteLookup, from_within: bool) -> None:
        """Delay the message of a route by its header. Raises PreconditionFailed (406) for an invalid one.

        The broker's own publishes, which are dead letters, are not refused: an invalid header delays nothing.
        """
        envelope = route.envelope
        if isinstance(envelope, DelayedEnvelope):
            envelope = envelope.plain
        route.envelope = envelope
        try:
            delay_ms = header_delay_ms(headers)
        except PreconditionFailed:
            if from_within:
                return
            raise
        if delay_ms > 0:
            at_once: list[object] = [binding.queue for binding in search.at_once if binding.queue is not None]
            header = HeaderDelay(delay_ms, at_once or None)
            route.envelope = DelayedEnvelope(envelope, self.broker.now + delay_ms / 1000, header)

    def _named(self, route: Route) -> list[Queue]:
        """Return the queues that the routing keys name in the default exchange."""
        queue = self.default_route(route.envelope.routing_key)
        if route.copies is None:
            return [] if queue is None else [queue]
        queues: dict[Queue, None] = {} if queue is None else {queue: None}
        for name in route.copies:
            queue = self.default_route(name)
            if queue is not None:
                queues[queue] = None
        return list(queues)

    def route(self, exchange: str, routing_key: str, mandatory: bool) -> Route:
        """Create a route; the route is resolved at first use. Raises PreconditionFailed (406) for names that are too
        long.
        """
        self.broker.work.done += ROUTE_WORK
        check_name("exchange name", exchange)
        check_name("routing key", routing_key)
        return Route(Envelope(exchange, routing_key), mandatory)


def argument_copies(source: Exchange) -> int:
    """Return the number of copies of a binding's arguments that the exchange holds."""
    return COMPARED if source.by_headers else 1


class BindingsTeardown(Teardown):
    """Removal of the bindings of a deleted queue or exchange, whose name stays reserved until they are gone.

    Very many durable bindings wait for the store: the user has a share of store writes.
    """

    def __init__(
        self,
        vhost: VirtualHost,
        kind: str,
        name: str,
        outgoing: dict[BindingKey, Binding],
        incoming: dict[Binding, None],
    ) -> None:
        super().__init__()
        self.vhost = vhost
        self.end = (kind, name)
        self._outgoing = outgoing
        """Bindings of a deleted exchange; the exchange's own table, because a copy would take a turn."""
        self._incoming = incoming
        self._journal = vhost.broker.journal
        self._writes = WriteShare("" if self._journal is None else self._journal.served_user())

    @override
    def work(self, most: i64, now: float) -> i64:
        journal = self._journal
        done: i64 = 0
        while done < most and self.has_more():
            if journal is None:
                done += self._remove(most)
                continue
            served = journal.serve(self._writes)
            done += self._remove(BINDINGS_A_LOOK * BINDING_COST)
            journal.serve(served)
            if self.left():
                journal.wait_if_over(self._writes, WaitingTeardown(self))
        if not self.left():
            self.vhost.ending.pop(self.end, None)
        return done

    @override
    def has_more(self) -> bool:
        return self.left() > 0 and self._writes.listener is None

    def _remove(self, most: i64) -> i64:
        done: i64 = 0
        while done < most and self.left():
            binding = self._outgoing.popitem()[1] if self._outgoing else self._incoming.popitem()[0]
            if not binding.removed:
                self.vhost.drop_binding(binding)
            done += BINDING_COST
        return done

    def left(self) -> int:
        """Return the number of bindings left."""
        return len(self._outgoing) + len(self._incoming)

    @override
    def is_over(self) -> bool:
        return not self.left()


class WaitingTeardown(WriteListener):
    """The wait of a teardown for the store; the teardown then continues as a chore."""

    def __init__(self, teardown: BindingsTeardown) -> None:
        self._teardown = teardown

    @override
    def on_taken(self) -> None:
        self._teardown.vhost.broker.turns.chores.add(self._teardown)
