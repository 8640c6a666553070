"""Notifier: dispatches the effects of the core to clients, the log and the flow log, at the end of each turn."""

from __future__ import annotations

from penstock.connections.connection import Connection
from penstock.connections.connection_state import ConnectionState
from penstock.connections.log_line import LogLine
from penstock.connections.lost_publishes import LOST_BY
from penstock.core.effects import (
    Blocked,
    Cancelled,
    CloseSession,
    Departed,
    Drained,
    EffectHandlers,
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
from penstock.core.gates.disk import DISK_KIND
from penstock.describe.gate import because, text_of
from penstock.driver.log_queue import LogQueue
from penstock.flow.gate import DEADLINE, Gate
from penstock.flow.timers import NEVER
from penstock.management import gate_lines
from penstock.management.gate_lines import GateLines
from penstock.management.node import Node


class Notifier:
    """Dispatcher of the broker's effects, and of effects that are reported later."""

    def __init__(self, node: Node, log_queue: LogQueue) -> None:
        self.node = node
        self.broker = node.broker
        self.log_queue = log_queue
        self._gate_lines = GateLines()
        self._unblocked: list[Connection] = []
        self._losing: dict[int, Connection] = {}
        """Connections with lost publishes that are still to be reported."""
        self._blocking: dict[int, Connection] = {}
        """Connections whose number of blocking gates has changed since the end of the last turn."""
        self._handlers = self._effect_handlers()

    def _effect_handlers(self) -> EffectHandlers:
        handlers = EffectHandlers()
        handlers.add(GateChanged, self._on_gate_changed)
        handlers.add(Blocked, self._on_blocked)
        handlers.add(Unblocked, self._on_unblocked)
        handlers.add(PublishRefused, self._on_publish_refused)
        handlers.add(Stopped, self._on_stopped)
        handlers.add(CloseSession, self._on_close_session)
        handlers.add(Departed, self._on_departed)
        handlers.add(Returned, self._on_returned)
        handlers.add(Cancelled, self._on_cancelled)
        handlers.add(Drained, self._on_drained)
        handlers.add(SlowConsumer, self._on_slow_consumer)
        handlers.add(Overtaken, self._on_overtaken)
        handlers.add(Paging, self._on_paging)
        handlers.add(NotRetained, self._on_not_retained)
        handlers.add(QueueChanged, self._on_queue_changed)
        return handlers

    def dispatch_effects(self) -> None:
        """Dispatch all effects in order, at the end of a turn and before a channel's close-ok."""
        effects = self.broker.effects()
        while effects:
            for effect in effects:
                if self.node.recorder is not None:
                    self.node.recorder.record(effect)
                self._handlers.dispatch(effect)
            effects = self.broker.effects()
        blocking = self._blocking
        if blocking:
            self._blocking = {}
            for connection in blocking.values():
                connection.engine.update_blocked()
                if connection.blocks == 0 or connection.pausing.reads_ahead:
                    self._unblocked.append(connection)
        losing = self._losing
        if losing:
            self._losing = {}
            for connection in losing.values():
                self._report_losses(connection)
        self._tell_lasting()
        tracer = self.node.tracer
        if tracer is not None:
            tracer.take()

    def _tell_lasting(self) -> None:
        """Log and record the closings and blocks that were not reported at once and have lasted."""
        now = self.broker.now
        for line in self._gate_lines.lasting(now):
            self.node.log(line)
        if self.node.recorder is not None:
            self.node.recorder.tell_lasting(now)

    def tick(self) -> None:
        """Log the sums of a second."""
        self._tell_lasting()
        for line in self._gate_lines.tick():
            self.log_queue.add(line)

    def has_unblocked(self) -> bool:
        """Return whether there are connections that no gate blocks any more."""
        return len(self._unblocked) > 0

    def take_unblocked(self) -> list[Connection]:
        """Take the connections that no gate blocks any more, so that reading resumes."""
        unblocked = self._unblocked
        self._unblocked = []
        return unblocked

    # One handler for each class of effects

    def _on_gate_changed(self, effect: GateChanged) -> None:
        self._log(self._gate_lines.crossed(effect.transition))
        if effect.transition.gate.kind == DISK_KIND:
            self.broker.large.notify_disk_changed()

    def _on_blocked(self, effect: Blocked) -> None:
        if effect.producer.listener.on_blocked(effect.gate):
            self._log(self._gate_lines.blocked(effect.producer, effect.gate, effect.now))

    def _on_unblocked(self, effect: Unblocked) -> None:
        if effect.producer.listener.on_unblocked(effect.gate):
            self._log(self._gate_lines.unblocked(effect.producer, effect.gate, effect.now))

    def _log(self, line: LogLine | None) -> None:
        if line is not None:
            self.node.log(line)

    def _on_stopped(self, effect: Stopped) -> None:
        self.node.log(gate_lines.stopped(effect.producer, effect.gate, effect.hold_deadline_s))

    def _on_returned(self, effect: Returned) -> None:
        effect.producer.listener.on_returned(effect.route, effect.content, effect.refused)

    def _on_drained(self, effect: Drained) -> None:
        effect.consumer.session.on_drained(effect.consumer, effect.credit)

    def _on_slow_consumer(self, effect: SlowConsumer) -> None:
        name = effect.consumer.session.name
        self.node.log(gate_lines.slow(effect.consumer.tag, name, effect.rate, effect.least, effect.cancelled))

    def _on_overtaken(self, effect: Overtaken) -> None:
        self.node.log(gate_lines.overtaken(effect))

    def _on_paging(self, effect: Paging) -> None:
        self.node.log(gate_lines.paging(effect))

    def _on_not_retained(self, effect: NotRetained) -> None:
        self.node.log(gate_lines.not_retained(effect))

    def _on_queue_changed(self, effect: QueueChanged) -> None:
        self.node.control.ranges.look_again(effect.queue)

    def _on_publish_refused(self, effect: PublishRefused) -> None:
        if effect.cause in LOST_BY:
            return  # One line for the connection covers it.
        if effect.cause == DEADLINE:
            self.node.alarms.refused(effect.gate, effect.messages)
        number = effect.producer.listener.connection_number
        self.node.refused.add(effect, number if number in self.node.connections else None, self.broker.now)

    def _on_close_session(self, effect: CloseSession) -> None:
        producer = effect.producer
        producer.listener.on_closed(effect.error)

    def _on_departed(self, effect: Departed) -> None:
        effect.producer.listener.on_departed()

    def schedule_blocked_notice(self, connection: Connection) -> None:
        """Schedule a notice for a connection whose number of blocking gates has changed."""
        self._blocking[connection.number] = connection

    def schedule_loss_report(self, connection: Connection) -> None:
        """Schedule a report of a connection's lost publishes for the end of the turn."""
        if connection.losses.messages:
            self._losing[connection.number] = connection

    def _report_losses(self, connection: Connection) -> None:
        """Log a connection's lost publishes when none of its publishes wait in line; for an open connection at once."""
        losses = connection.losses
        if connection.state is ConnectionState.RUNNING or losses.are_known():
            self.node.log(gate_lines.lost(connection.name(), losses))
            losses.clear()

    def block_reason(self, connection: Connection, gate: Gate) -> str:
        """Return why a gate blocks publishes of a connection (connection.blocked)."""
        for producer in [] if connection.origin is None else connection.origin.producers:
            if id(gate) in producer.gates:
                hold_deadline_s = producer.entry(gate).hold_deadline_s
                until = "" if hold_deadline_s == NEVER else f"; refused after {hold_deadline_s:g} s"
                return f"{because(producer, gate, self.broker.now)}{until}"
        hold_deadline_s = self.broker.defaults.hold_deadline_s
        until = "" if hold_deadline_s == NEVER else f" {hold_deadline_s:g} s at most"
        return f"{text_of(gate).reason(gate, self.broker.now)}; a large message waits{until}"

    def _on_cancelled(self, effect: Cancelled) -> None:
        effect.consumer.session.on_cancelled(effect.consumer, effect.reason)
