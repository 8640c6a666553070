"""Notifier: dispatches the effects of the core to clients, the log and the flow log, at the end of each turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.effects import (
    Blocked,
    Cancelled,
    CloseSession,
    Departed,
    EffectHandlers,
    GateChanged,
    Paging,
    PublishRefused,
    QueueChanged,
    Returned,
    SlowConsumer,
    Stopped,
    Unblocked,
)
from penstock.core.publish.waiting_publisher import WaitingPublisher
from penstock.flow.gate import Gate
from penstock.flow.timers import NEVER
from penstock.management import log_messages
from penstock.management.gate_descriptions import because
from penstock.protocols.amqp091.basic_return import write_return
from penstock.protocols.amqp091.channel import ChannelProducer
from penstock.protocols.amqp091.connection import Connection
from penstock.protocols.amqp091.connection_state import RUNNING
from penstock.protocols.common.lost_publishes import LOST_BY
from penstock.protocols.common.single_publish import SinglePublish

if TYPE_CHECKING:
    from penstock.driver.driver import BrokerDriver


class Notifier:
    """Dispatcher of the broker's effects, with those that must wait."""

    def __init__(self, driver: BrokerDriver) -> None:
        self.driver = driver
        self.broker = driver.broker
        self._unblocked: list[Connection] = []
        self._losing: dict[int, Connection] = {}
        """Connections with lost publishes that are not reported yet."""
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
        handlers.add(SlowConsumer, self._on_slow_consumer)
        handlers.add(Paging, self._on_paging)
        handlers.add(QueueChanged, self._on_queue_changed)
        return handlers

    def dispatch_effects(self) -> None:
        """Dispatch all effects in order, at the end of a turn and before a channel's close-ok."""
        effects = self.broker.effects()
        while effects:
            for effect in effects:
                if self.driver.recorder is not None:
                    self.driver.recorder.record(effect)
                self._handlers.dispatch(effect)
            effects = self.broker.effects()
        blocking = self._blocking
        if blocking:
            self._blocking = {}
            for connection in blocking.values():
                if connection.notice is not None:
                    connection.notice.update()
                if connection.blocking == 0:
                    self._unblocked.append(connection)
        losing = self._losing
        if losing:
            self._losing = {}
            for connection in losing.values():
                self._report_losses(connection)

    def take_unblocked(self) -> list[Connection]:
        """Take the connections that no gate blocks any more, so that reading resumes."""
        unblocked = self._unblocked
        self._unblocked = []
        return unblocked

    # One handler for each class of effects

    def _on_gate_changed(self, effect: GateChanged) -> None:
        self.driver.log(log_messages.crossed(effect.transition))

    def _on_blocked(self, effect: Blocked) -> None:
        self._count_blocking(effect.producer, effect.gate, 1)

    def _on_unblocked(self, effect: Unblocked) -> None:
        self._count_blocking(effect.producer, effect.gate, -1)

    def _on_stopped(self, effect: Stopped) -> None:
        self.driver.log(log_messages.stopped(effect.producer, effect.gate, effect.patience_s))

    def _on_returned(self, effect: Returned) -> None:
        if isinstance(effect.producer, SinglePublish):
            effect.producer.routed = False
        else:
            assert isinstance(effect.producer, ChannelProducer)
            write_return(effect.producer.channel, effect.route, effect.content, effect.refused)

    def _on_slow_consumer(self, effect: SlowConsumer) -> None:
        name = effect.consumer.session.name
        self.driver.log(log_messages.slow(effect.consumer.tag, name, effect.rate, effect.least, effect.cancelled))

    def _on_paging(self, effect: Paging) -> None:
        self.driver.log(log_messages.paging(effect))

    def _on_queue_changed(self, effect: QueueChanged) -> None:
        self.driver.control.look_again(effect.queue)

    def _on_publish_refused(self, effect: PublishRefused) -> None:
        if effect.cause in LOST_BY:
            return  # One line for the connection covers it.
        producer = effect.producer
        number: int | None = None
        if isinstance(producer, ChannelProducer) and producer.channel.connection.number in self.driver.connections:
            number = producer.channel.connection.number
        self.driver.refused.add(effect, number, self.broker.now)

    def _on_close_session(self, effect: CloseSession) -> None:
        """Close the channel of a producer after an impossible publish; a single message is answered instead."""
        producer = effect.producer
        self.driver.log(f"[{producer.name}] {effect.error.reply_text}")
        if isinstance(producer, SinglePublish):
            producer.on_error(effect.error)
            return
        assert isinstance(producer, ChannelProducer)
        channel = producer.channel
        if channel.is_open():
            channel.connection.on_error(int(channel.number), effect.error)

    def _on_departed(self, effect: Departed) -> None:
        """Count the lost publishes of a channel with its session; single messages are answered."""
        producer = effect.producer
        if isinstance(producer, ChannelProducer):
            connection = producer.channel.connection
            if producer.loss is not None:
                connection.lose(producer.loss, producer.origin)
            self.schedule_loss_report(connection)

    def schedule_loss_report(self, connection: Connection) -> None:
        """Schedule a report of a connection's lost publishes for the end of the turn."""
        if connection.losses.messages:
            self._losing[connection.number] = connection

    def _report_losses(self, connection: Connection) -> None:
        """Log a connection's lost publishes when none of its publishes wait in line; for an open one at once."""
        losses = connection.losses
        if connection.state == RUNNING or losses.are_known():
            self.driver.log(log_messages.lost(connection.name(), losses))
            losses.clear()

    def _count_blocking(self, producer: WaitingPublisher, gate: Gate, by: int) -> None:
        if not isinstance(producer, ChannelProducer):  # Dead letters, single messages: log only.
            self.driver.log(log_messages.blocked(producer, gate) if by > 0 else log_messages.unblocked(producer, gate))
            return
        connection = producer.channel.connection
        connection.blocking += by
        if not gate.frequent:
            connection.blocked_count += by
            self._log_enforced(producer, gate, by)
        self._blocking[connection.number] = connection

    def _log_enforced(self, producer: ChannelProducer, gate: Gate, by: int) -> None:
        """Log a channel's first gate, and the release of its last: once each (as Broker-J does)."""
        if by > 0 and producer.enforced == 0:
            self.driver.log(log_messages.blocked(producer, gate))
            producer.channel.send_flow_stop(gate)
        producer.enforced += by
        if producer.enforced == 0:
            self.driver.log(log_messages.unblocked(producer, gate))
            producer.channel.send_flow_start()

    def reason(self, connection: Connection) -> str:
        """Return the reason for connection.blocked; empty if the connection is not blocked."""
        for channel in connection.channels.values():
            for gate in channel.producer.gates.values():
                if not gate.frequent:
                    patience_s = channel.producer.entry(gate).patience_s
                    until = "" if patience_s == NEVER else f"; what is held for {patience_s:g} s is refused"
                    return f"{because(channel.producer, gate, self.broker.now)}{until}"
        return ""

    def _on_cancelled(self, effect: Cancelled) -> None:
        effect.consumer.session.on_cancelled(effect.consumer)
