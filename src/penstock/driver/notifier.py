"""What has happened in the core, told to whom it concerns: clients, the log, the flow log; at the end of each turn."""

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
from penstock.protocols.amqp091.channel import Channel, ChannelProducer
from penstock.protocols.amqp091.connection import Connection
from penstock.protocols.amqp091.connection_state import RUNNING
from penstock.protocols.common.lost_publishes import LOST_BY
from penstock.protocols.common.single_publish import SinglePublish
from penstock.wire.amqp091 import spec

if TYPE_CHECKING:
    from penstock.driver.driver import BrokerDriver


class Notifier:
    """Tells the broker's effects; what could not be told yet waits here."""

    def __init__(self, driver: BrokerDriver) -> None:
        self.driver = driver
        self.broker = driver.broker
        self._unblocked: list[Connection] = []
        self._losing: dict[int, Connection] = {}
        """Connections that have lost publishes, which has not been told."""
        self._blocking: dict[int, Connection] = {}
        """Connections that more or fewer gates block than at the end of the last turn."""
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
        """Tell everybody what has happened to them, in order; at the end of a turn, and before a channel's close-ok."""
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
        """Take the connections that nothing blocks any more: reading from them may go on."""
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
        session = effect.consumer.session
        assert isinstance(session, Channel)
        name = session.producer.name
        self.driver.log(log_messages.slow(effect.consumer.tag, name, effect.rate, effect.least, effect.cancelled))

    def _on_paging(self, effect: Paging) -> None:
        self.driver.log(log_messages.paging(effect))

    def _on_queue_changed(self, effect: QueueChanged) -> None:
        self.driver.control.look_again(effect.queue)

    def _on_publish_refused(self, effect: PublishRefused) -> None:
        if effect.cause in LOST_BY:
            return  # One line for the connection says so.
        producer = effect.producer
        number: int | None = None
        if isinstance(producer, ChannelProducer) and producer.channel.connection.number in self.driver.connections:
            number = producer.channel.connection.number
        self.driver.refused.add(effect, number, self.broker.now)

    def _on_close_session(self, effect: CloseSession) -> None:
        """Close the channel of a producer, for a publish that cannot be; a single message is answered."""
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
        """Count what a channel's publisher has lost with its session; single messages are answered."""
        producer = effect.producer
        if isinstance(producer, ChannelProducer):
            connection = producer.channel.connection
            if producer.loss is not None:
                connection.lose(producer.loss, producer.origin)
            self.schedule_loss_report(connection)

    def schedule_loss_report(self, connection: Connection) -> None:
        """Have it told, at the end of the turn, what a connection has lost, if it has."""
        if connection.losses.messages:
            self._losing[connection.number] = connection

    def _report_losses(self, connection: Connection) -> None:
        """Log what a connection has lost, once nothing that it held is left in line; of an open one at once."""
        losses = connection.losses
        if connection.state == RUNNING or losses.are_known():
            self.driver.log(log_messages.lost(connection.name(), losses))
            losses.clear()

    def _count_blocking(self, producer: WaitingPublisher, gate: Gate, by: int) -> None:
        if not isinstance(producer, ChannelProducer):  # Dead letters, single messages: nobody but the log is told.
            self.driver.log(log_messages.blocked(producer, gate) if by > 0 else log_messages.unblocked(producer, gate))
            return
        connection = producer.channel.connection
        connection.blocking += by
        if not gate.frequent:
            connection.blocked_count += by
            self._log_enforced(producer, gate, by)
        self._blocking[connection.number] = connection

    def _log_enforced(self, producer: ChannelProducer, gate: Gate, by: int) -> None:
        """Log a channel's first gate, and that none is left: once each, however many there are (as Broker-J does)."""
        if by > 0 and producer.enforced == 0:
            self.driver.log(log_messages.blocked(producer, gate))
            producer.channel.send_flow_stop(gate)
        producer.enforced += by
        if producer.enforced == 0:
            self.driver.log(log_messages.unblocked(producer, gate))
            producer.channel.send_flow_start()

    def reason(self, connection: Connection) -> str:
        """Return why a connection is blocked, as its client is told; empty if it is not."""
        for channel in connection.channels.values():
            for gate in channel.producer.gates.values():
                if not gate.frequent:
                    patience_s = channel.producer.entry(gate).patience_s
                    until = "" if patience_s == NEVER else f"; what is held for {patience_s:g} s is refused"
                    return f"{because(channel.producer, gate, self.broker.now)}{until}"
        return ""

    def _on_cancelled(self, effect: Cancelled) -> None:
        channel = effect.consumer.session
        assert isinstance(channel, Channel)
        channel.forget_consumer(effect.consumer.tag)
        if channel.connection.capabilities.get("consumer_cancel_notify") is True and channel.is_open():
            channel.send(spec.BASIC_CANCEL, {"consumer_tag": effect.consumer.tag, "no_wait": True})
