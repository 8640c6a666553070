"""Teardown of channels and connections, in bounded steps per turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.core.consume.session import Outlet
from penstock.core.teardown import CHANNEL_COST, QUEUE_COST, SessionTeardown, Teardown
from penstock.protocols.amqp091.connection_state import CLOSED
from penstock.wire.amqp091 import spec

if TYPE_CHECKING:
    from penstock.protocols.amqp091.channel import Channel
    from penstock.protocols.amqp091.connection import Connection


class ChannelEnd(SessionTeardown):
    """Teardown of one channel. A client that closed it is answered at the end."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel.broker, channel)
        self.channel = channel
        self._answered: bool = False

    def work(self, most: i64, now: float) -> i64:
        """See `Chore.work`."""
        done = super().work(most, now)
        if super().is_over() and not self._answered:
            self._answered = True
            channel = self.channel
            if channel.leaving and channel.connection.channels.get(int(channel.number)) is channel:
                del channel.connection.channels[int(channel.number)]
                channel.send(spec.CHANNEL_CLOSE_OK, {})
        return done + CHANNEL_COST

    def is_over(self) -> bool:
        """See `Teardown.is_over`."""
        return self._answered


class ConnectionOutlet(Outlet):
    """Consumers of a connection that wait until its output has room."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection

    def is_open(self) -> bool:
        """See `WaitList.is_open`."""
        return self.connection.writable


def leave(connection: Connection, graceful: bool) -> None:
    """Tear down all channels and the exclusive queues; `graceful` if the client closed the connection."""
    if not connection.leaving:
        for channel in connection.channels.values():
            channel.delivering = False
            if channel.producer.confirms.ready():
                channel.write_confirms()  # Nothing may follow the close.
        connection.leaving = True
        connection.broker.endings.begin(ConnectionEnd(connection, graceful))


def settle_end(connection: Connection) -> None:
    """Complete a teardown: the gates drop a closed connection, and connection.close is answered."""
    if not connection.over:
        return
    if connection.gone:
        origin = connection.origin
        if origin is not None:
            connection.origin = None
            connection.broker.gates.remove_connection(origin)
            connection.driver.notifier.schedule_loss_report(connection)
    elif connection.goodbye and connection.state != CLOSED:
        connection.send(0, spec.CONNECTION_CLOSE_OK, {})
        connection.end()


class ConnectionEnd(Teardown):
    """Teardown of a connection: its channels in turn, then its exclusive queues."""

    def __init__(self, connection: Connection, graceful: bool) -> None:
        super().__init__()
        self.connection = connection
        self.graceful = graceful
        channels = reversed(connection.channels.values())
        self._channels = [(channel, SessionTeardown(connection.broker, channel)) for channel in channels]
        """Remaining channels with their teardowns; all their deliveries are being requeued."""
        self._session: SessionTeardown | None = None

    def work(self, most: i64, now: float) -> i64:
        """See `Chore.work`."""
        done: i64 = 0
        while done < most and not self.connection.over:
            done += self._go_on(most - done, now)
        return done

    def is_over(self) -> bool:
        """See `Teardown.is_over`."""
        return self.connection.over

    def _go_on(self, most: i64, now: float) -> i64:
        connection = self.connection
        session = self._session
        if session is not None:
            done = session.work(most, now)
            if session.is_over():
                self._session = None
            return done
        if self._channels:
            channel, self._session = self._channels.pop()
            connection.part_with(channel, self.graceful)
            connection.channels.pop(int(channel.number), None)
            return CHANNEL_COST
        if connection.exclusive:
            queue = connection.exclusive.popitem()[1]
            if not queue.deleted:
                connection.broker.delete_queue(queue)
            return QUEUE_COST
        connection.over = True
        settle_end(connection)
        return 1
