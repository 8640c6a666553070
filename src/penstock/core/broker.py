"""The broker: the owner of all virtual hosts, with the calls through which a driver runs it.

    broker.begin(now)            set the time of all actions until the next call
    (sessions publish, settle, declare ...)
    broker.run(turns)            run turns of waiting producers, and handle due timers
    broker.next_batch()          take deliveries, one batch at a time
    broker.effects()             take the effects, in order
    broker.take_confirming()     take the producers with confirms to send
    broker.credits.take_changed()  take the senders whose new credit must be announced
    broker.next_deadline()       return the latest time of the next call

Nothing here waits, calls back, reads a clock or draws a random number; one thread owns it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.access.access_table import AccessTable
from penstock.core.access_journal import AccessJournal
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.consumer_pace import ConsumerRateLimiter, ConsumerWindow, SlowConsumerMonitor, forget
from penstock.core.consume.group_scan import is_grouped, join_groups, regroup
from penstock.core.consume.rotation import add, has_exclusive, is_subscribed, remove, scans_of, take_consumers
from penstock.core.consume.session import Session
from penstock.core.dispatcher import Dispatcher
from penstock.core.effects import (
    Blocked,
    Cancelled,
    CloseSession,
    ConfirmedLate,
    Departed,
    Effect,
    GateChanged,
    NotRetained,
    Overtaken,
    Paging,
    PublishRefused,
    QueueChanged,
    Returned,
    SlowConsumer,
    Stopped,
    Unblocked,
)
from penstock.core.gates.registry import Gates
from penstock.core.journal.group import DurableChanges
from penstock.core.large_bodies import LargeBodies
from penstock.core.message_format import LargeFormat, MessageFormats
from penstock.core.publish.admission import gates_of
from penstock.core.publish.connection_gates import ConnectionGates, count_unroutable
from penstock.core.publish.held import Lingering, held_for
from penstock.core.publish.pending_letters import PendingDeadLetters
from penstock.core.publish.producer import Producer
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.core.queue.context import RetentionGap
from penstock.core.queue.counters import UnreportedLosses
from penstock.core.queue.cursor_state import reader_of
from penstock.core.queue.delays import attach_retries
from penstock.core.queue.expiry import EXPIRED_A_TURN
from penstock.core.queue.length_limit import limit
from penstock.core.queue.pager import apply_queue_settings
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import CANCEL, ConsumerSettings
from penstock.core.queue.stream_log import log_of
from penstock.core.routing.route import Route
from penstock.core.settings.hold_deadlines import renew, waiting_at
from penstock.core.settings.limits import Defaults, Limits
from penstock.core.settings.table import SettingsChange, SettingsTable
from penstock.core.teardown import ConsumersTeardown, SessionTeardown, Teardowns
from penstock.core.vhost import VirtualHost
from penstock.errors import (
    AccessRefused,
    BrokerError,
    ConsumerCancelled,
    NotAllowed,
    PreconditionFailed,
    ResourceError,
    ResourceLocked,
)
from penstock.flow.gate import Gate
from penstock.flow.turns import Turns
from penstock.flow.work import ENDS_A_TURN, Steps

CONSUME_WORK: Final = 15
"""Units of work of a new consumer, in addition to the units of its method."""
ADOPT_WORK: Final = 10
"""Units of work to apply changed settings to a queue, or a changed deadline to a producer."""
RENEWED_A_UNIT: Final = 8
"""Publishes of a producer, held or not confirmed, whose deadline is changed in a unit of work."""
TURN_WORK: Final = 4
"""Units of work of a turn: one waiting message passes."""
TIMER_WORK: Final = 4
"""Units of work of a due timer."""
RELEASED_AT_ONCE: Final = 500
"""Producers that are released at once when a gate opens; there may be ten thousand."""
RELEASES_BEFORE_A_NEWCOMER: Final = 500
"""Most turns run at once when a producer publishes while other producers have turns, so that a step is bounded."""
CONSUMERS_OF_A_QUEUE: Final = 50_000
SCANS_OF_A_QUEUE: Final = 1_000
"""Most consumers with selectors, and browsers, of a queue: each may have to check every message."""
CONSUMERS_OF_A_CHANNEL: Final = 10_000
"""Most consumers of a channel; the next one is refused."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Broker(Dispatcher):
    """All virtual hosts of one process, and the calls through which the driver uses them."""

    def __init__(self, defaults: Defaults) -> None:
        super().__init__()
        self.table = SettingsTable(defaults)
        self.defaults = defaults
        """Present default settings of the broker."""
        self.turns = Turns(self.timers, self.work)
        self.losses = UnreportedLosses()
        self.closed_session_budget = Lingering(self.pools)
        self.vhosts: dict[str, VirtualHost] = {}
        self.access = AccessTable(self.vhosts)
        self.access.recorder = AccessJournal(self)
        self.gates = Gates(self, self.table, self.vhosts)
        self.unroutable: i64 = 0
        self.dead_letters = PendingDeadLetters(self.turns.chores)
        self.durable_changes = DurableChanges()
        self.formats = MessageFormats()
        self.formats.add_large(LargeFormat(self.formats))
        self.large = LargeBodies()
        self.wall_offset = 0.0
        self.hold_events = None
        self.journal = None
        self.stopping: bool = False
        """True while the broker stops: auto-delete queues survive the loss of their consumers, which will reconnect."""
        self._ran: float = 0.0
        self.endings = Teardowns(self)
        self._confirming: list[Producer] = []
        self._reopened: dict[int, Gate] = {}
        """Opened gates whose blocked producers are not all released yet."""

    def add_vhost(self, name: str, limits: Limits | None = None) -> VirtualHost:
        """Create a virtual host; `limits` are the host's own; None means the limits of the settings table.

        Raises PreconditionFailed (406) for contradictory settings; nothing is created then.
        """
        if limits is None:
            limits = self.table.limits("vhost", name)
        vhost = VirtualHost(name, self, self.table, self.gates)
        self.vhosts[name] = vhost
        self.gates.set_vhost_limit(vhost, limits.thresholds)
        self.gates.set_vhost_quota(vhost, limits.disk)
        for exchange in vhost.exchanges:
            self.gates.attach_address(vhost, exchange)
        return vhost

    def vhost(self, name: str) -> VirtualHost:
        """Return a virtual host. Raises NotAllowed (530) if the host does not exist, or is being deleted."""
        vhost = self.vhosts.get(name)
        if vhost is None or vhost.deleting:
            raise NotAllowed(f"vhost {name} not found")
        return vhost

    def apply_settings(self, plan: SettingsChange) -> Steps[None]:
        """Apply a change of settings, queue by queue; see core/settings/changes.py."""
        self.defaults = self.table.defaults()
        sooner_or_later: dict[int, Queue] = {}
        for queue, settings in plan.queues:
            if self.work.spend(ADOPT_WORK):
                yield
            if queue.deleted:
                continue
            if settings.hold_deadline_s != queue.settings.hold_deadline_s:
                sooner_or_later[id(queue)] = queue
            for gate in apply_queue_settings(self, queue, settings):
                self.turns.roads.add(gate, queue)
            self.vhosts[queue.vhost].setup_dead_lettering(queue)
            limit(self, queue)
            regroup(self, queue)
            attach_retries(self, queue)
            self.table.federated.review_queue(queue)
            self.watch_lifetime(queue)
            self.schedule_delivery(queue)
            self.apply_gate_transitions()
        for queue, _ in plan.queues:  # After the settings of companions, which are among these.
            if queue.retention is not None or queue.settings.retains:
                if self.work.spend(ADOPT_WORK):
                    yield
                self.vhosts[queue.vhost].setup_retention(queue)
        for vhost, exchange, policy in plan.exchanges:
            if self.work.spend(ADOPT_WORK):
                yield
            if not exchange.deleted:
                exchange.set_policy(policy)
                self.table.federated.review_exchange(exchange)
                vhost.epoch += 1
        yield from self.gates.apply(plan)
        if sooner_or_later:
            for producer in waiting_at(sooner_or_later, list(self.gates.connections)):
                waiting = len(producer.outbox) + len(producer.confirms.pending)
                if self.work.spend(ADOPT_WORK + waiting // RENEWED_A_UNIT):
                    yield
                renew(producer, sooner_or_later, self.now)
        self.apply_gate_transitions()

    # Calls of the driver

    def begin(self, now: float) -> None:
        """Set the time (monotonic seconds) of all actions until the next call."""
        self.now = now
        if self.journal is not None:
            self.journal.step()

    def run(self, turns: int) -> bool:
        """Handle due timers and run up to `turns` turns; returns whether more turns are pending."""
        self.expiry_cutoff = self._ran
        self._ran = self.now
        self.expirable = EXPIRED_A_TURN
        self.settleable = ENDS_A_TURN
        self.endings.renew()
        called = self.timers.run(self.now)  # The work they count is on the meter before this number is added.
        self.turns.chores.run(self.now)
        reviewed = self.credits.review()
        self.work.done += TIMER_WORK * called + reviewed
        self.apply_gate_transitions()
        if self.turns.pending:
            passed = self.turns.run(turns, self.now)
            self.work.done += TURN_WORK * passed
            self.apply_gate_transitions()
        self.credits.report_blocked()
        self.gates.clear_lifted()
        return self.pending()

    def pending(self) -> bool:
        """Return whether `run` has more work to do at once."""
        if self.turns.pending or self.turns.chores.pending() or self._reopened or self.credits.pending():
            return True
        return self.timers.is_due(self.now)

    def effects(self) -> list[Effect]:
        """Take the effects, in order."""
        effects = self._effects
        self._effects = []
        return effects

    def take_confirming(self) -> list[Producer]:
        """Take the producers that have confirms to send."""
        producers = self._confirming
        self._confirming = []
        for producer in producers:
            producer.scheduled = False
        return producers

    def take_ended(self) -> list[object]:
        """Take the queues, producers, sessions and gates that have ended, to be unlinked behind their last effects."""
        ended = self.turns.ended
        self.turns.ended = []
        return ended

    def next_deadline(self) -> float | None:
        """Return when `run` must be called again at the latest, or None."""
        return self.timers.next()

    # Queues and consumers

    def consume(self, session: Session, consumer: Consumer, terms: ConsumerSettings | None = None) -> None:
        """Add a consumer.

        Raises ResourceLocked (405) if consumers and a cursor exclude each other, AccessRefused (403) against exclusive
        use.
        """
        queue = consumer.queue
        bars = queue.pager is not None or consumer.scan is not None or consumer.exclusive or is_grouped(queue)
        if queue.cursors and bars and not queue.features.type.retains:
            raise ResourceLocked(
                f"queue '{queue.name}' is read by {reader_of(queue)}; browsers, exclusive consumers, consumers with "
                "selectors and those of a queue that pages, or has groups, must wait until the cursor is deleted"
            )
        join_groups(self, consumer)
        if queue.consumers and not consumer.browses() and (consumer.exclusive or has_exclusive(queue)):
            raise AccessRefused(f"queue '{queue.name}' in vhost '{queue.vhost}' in exclusive use")
        _check_bounds(session, consumer)
        if consumer.scan is not None:
            consumer.scan.check()
        self.work.done += CONSUME_WORK
        more = 0 if consumer.scan is None else consumer.scan.memory()
        self.gates.metadata.admit(f"consumer '{consumer.tag}'", queue.vhost, consumer.arguments, 1, more)
        consumer.arguments_charge = self.gates.metadata.add_consumer(
            queue.vhost, consumer.arguments, consumer.tag, more
        )
        session.consumers[consumer.tag] = consumer
        consumer.broker = self
        add(queue, consumer)
        if terms is not None:
            consumer.own_timeout_s = terms.timeout_s
            if terms.max_rate > 0:
                consumer.rate_limiter = ConsumerRateLimiter(self, consumer, terms.max_rate)
            if terms.adaptive and not consumer.no_ack and not consumer.browses():
                consumer.adaptive_window = ConsumerWindow(self, consumer, terms.window_least, terms.window_most)
            if terms.slow_rate > 0 and not consumer.browses():
                cancels = terms.slow_policy == CANCEL
                consumer.slow_monitor = SlowConsumerMonitor(
                    self, consumer, terms.slow_rate, terms.slow_period_s, cancels
                )
                self.timers.add(consumer.slow_monitor, self.now + terms.slow_period_s)
        self.schedule_delivery(queue)

    @override
    def cancel(self, session: Session, tag: str) -> None:
        consumer = session.consumers.pop(tag, None)
        if consumer is None or not is_subscribed(consumer):
            return
        queue = consumer.queue
        browses = consumer.browses()
        remove(queue, consumer)
        self.release_consumer(consumer)
        if queue.consumers:
            self.schedule_delivery(queue)  # The next single active consumer may get messages now.
        if not queue.consumers and not browses and queue.auto_delete and not queue.deleted and not self.stopping:
            self.delete_queue(queue)
        else:
            self.touch_queue(queue)

    @override
    def release_consumer(self, consumer: Consumer) -> None:
        forget(self, consumer)
        self.gates.metadata.give_back(consumer.queue.vhost, consumer.arguments_charge)
        consumer.arguments_charge = 0

    def end_session(self, session: Session) -> None:
        """Close the consuming side of a session: its unsettled messages are requeued.

        Work beyond this turn's share follows in later turns.
        """
        self.endings.begin(SessionTeardown(self, session))

    @override
    def delete_queue(self, queue: Queue, if_unused: bool = False, if_empty: bool = False) -> int:
        if if_unused or if_empty:
            self._check_unneeded(queue, if_unused, if_empty)
        gates = gates_of(queue)
        count = self.vhosts[queue.vhost].delete_queue(queue, self.now)
        for gate in gates:
            if gate is not queue.gate:  # Waiters there are answered, because the gate is retired.
                self.turns.roads.add(gate, queue)
        if queue.queue_expiry is not None:
            self.timers.drop(queue.queue_expiry)
        if queue.rotation is not None:
            self.endings.begin(ConsumersTeardown(self, take_consumers(queue)))
        if queue.cursors:
            self._effects.append(QueueChanged(queue))
        return count

    def _check_unneeded(self, queue: Queue, if_unused: bool, if_empty: bool) -> None:
        """Check the conditions of a deletion, which would refuse held publishes. Raises PreconditionFailed (406)."""
        subject = f"queue '{queue.name}' in vhost '{queue.vhost}'"
        if if_unused and queue.consumers:
            raise PreconditionFailed(f"{subject} in use")
        if if_empty and (queue.waiting() or queue.delayed_messages):
            raise PreconditionFailed(f"{subject} not empty")
        held = int(held_for(queue, self.work))
        if held > 0:
            state, condition = ("not empty", "if-empty") if if_empty else ("in use", "if-unused")
            wait = "1 publish to it is held and waits" if held == 1 else f"{held:,} publishes to it are held and wait"
            raise PreconditionFailed(f"{subject} {state}: {wait} for room; delete it later, or without {condition}")

    # Events (called by producers and queues)

    @override
    def run_waiting(self) -> None:
        self.apply_gate_transitions()
        if self.turns.pending:
            passed = self.turns.run(RELEASES_BEFORE_A_NEWCOMER, self.now)
            self.work.done += TURN_WORK * passed
            self.apply_gate_transitions()

    @override
    def apply_gate_transitions(self) -> None:
        crossings = self.turns.transitions
        while crossings:
            crossing = crossings.pop(0)
            gate = crossing.gate
            self.turns.totals.count_transition(gate.kind, crossing.closed, crossing.now)
            if not gate.frequent:
                self._effects.append(GateChanged(crossing))
            if not crossing.closed and gate.open:
                self._reopened[id(gate)] = gate
        if self._reopened:
            self._release(RELEASED_AT_ONCE)

    def _release(self, most: int) -> None:
        """Release some of the producers blocked by opened gates; the other producers follow in later turns.

        Producers whose gate has closed again stay registered for its opening.
        """
        for gate in list(self._reopened.values()):
            if gate.open:
                woken = gate.take_to_release(most)
                most -= len(woken)
                self.work.done += TURN_WORK * len(woken)
                for waiter in woken:
                    passed = waiter.release(gate, self.now)
                    credit = waiter.credit if isinstance(waiter, Producer) else None
                    if credit is None:
                        self.turns.expect_back(waiter, gate, passed, self.now)
                    else:  # The producer's grants have counted the message.
                        self.turns.expect_back(credit, gate, 0, self.now)
            if not gate.open or not gate.to_release:
                self._reopened.pop(id(gate), None)
            if most <= 0:
                return

    @override
    def add_producer(self, origin: ConnectionGates, producer: Producer) -> None:
        self.gates.add_producer(origin, producer)

    @override
    def schedule_confirms(self, producer: Producer) -> None:
        producer.scheduled = True
        self._confirming.append(producer)

    @override
    def emit_blocked(self, producer: WaitingPublisher, gate: Gate) -> None:
        self.turns.totals.count_block(gate.kind, True, self.now)
        self._effects.append(Blocked(producer, gate, self.now))

    @override
    def emit_unblocked(self, producer: WaitingPublisher, gate: Gate) -> None:
        self.turns.totals.count_block(gate.kind, False, self.now)
        self._effects.append(Unblocked(producer, gate, self.now))

    @override
    def emit_stopped(self, producer: WaitingPublisher, gate: Gate, hold_deadline_s: float) -> None:
        self._effects.append(Stopped(producer, gate, hold_deadline_s, self.now))

    @override
    def emit_publish_refused(
        self, producer: WaitingPublisher, gate: Gate, cause: str, charge: i64, why: str, messages: i64 = 1
    ) -> None:
        last = self._effects[-1] if self._effects else None
        if not (
            isinstance(last, PublishRefused) and last.producer is producer and last.gate is gate and last.cause == cause
        ):
            last = PublishRefused(producer, gate, cause)
            last.why = why
            self._effects.append(last)
        last.messages += messages
        last.bytes += charge

    @override
    def emit_confirmed_late(self, producer: WaitingPublisher, gate: Gate, messages: int) -> None:
        self._effects.append(ConfirmedLate(producer, gate, messages))

    @override
    def emit_close_session(self, producer: Producer, error: BrokerError) -> None:
        self._effects.append(CloseSession(producer, error))

    @override
    def emit_cancelled(self, consumer: Consumer, reason: BrokerError) -> None:
        self._effects.append(Cancelled(consumer, reason))

    @override
    def emit_departed(self, producer: Producer) -> None:
        self._effects.append(Departed(producer))

    @override
    def emit_overtaken(self, consumer: Consumer, position: int, first: int, at_start: bool) -> None:
        if not at_start:
            log_of(consumer.queue).overtaken += 1
        self._effects.append(Overtaken(consumer, position, first, at_start))

    @override
    def emit_slow_consumer(self, consumer: Consumer, rate: float, least: float, cancels: bool) -> None:
        self._effects.append(SlowConsumer(consumer, rate, least, cancels))
        if cancels:
            self.cancel(consumer.session, consumer.tag)
            self.emit_cancelled(
                consumer,
                ConsumerCancelled(
                    f"consumer '{consumer.tag}' of queue '{consumer.queue.name}' is cancelled: it settled {rate:,.4g} "
                    f"messages/s, and slow-consumer-rate is {least:,.4g}"
                ),
            )

    @override
    def count_unroutable(self, producer: Producer, route: Route, content: bytes) -> None:
        if route.control:
            return
        self.unroutable += 1
        count_unroutable(producer, route)
        if route.mandatory:
            self._effects.append(Returned(producer, route, content))

    @override
    def emit_returned(self, producer: Producer, route: Route, content: bytes, refused: BrokerError) -> None:
        self._effects.append(Returned(producer, route, content, refused))

    @override
    def emit_gap(self, gap: RetentionGap) -> None:
        self._effects.append(NotRetained(gap, self.now))

    @override
    def emit_paging(self, queue: Queue, started: bool) -> None:
        self._effects.append(Paging(queue, started, self.now))


def _check_bounds(session: Session, consumer: Consumer) -> None:
    """Raise ResourceError (506) for a consumer above the limit of its queue or channel."""
    queue = consumer.queue
    if consumer.scan is not None and scans_of(queue) >= SCANS_OF_A_QUEUE:
        raise ResourceError(
            f"queue '{queue.name}' in vhost '{queue.vhost}' has {SCANS_OF_A_QUEUE:,} consumers with selectors or "
            f"groups, and browsers, the most it may have; '{consumer.tag}' was not added"
        )
    if len(queue.consumers) >= CONSUMERS_OF_A_QUEUE:
        raise ResourceError(
            f"queue '{queue.name}' in vhost '{queue.vhost}' has {CONSUMERS_OF_A_QUEUE} consumers, "
            f"the most it may have; '{consumer.tag}' was not added"
        )
    if len(session.consumers) >= CONSUMERS_OF_A_CHANNEL:
        raise ResourceError(
            f"the channel has {CONSUMERS_OF_A_CHANNEL} consumers, the most it may have; '{consumer.tag}' was not added"
        )
