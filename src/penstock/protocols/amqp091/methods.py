"""Methods: the table of the handlers, the check that a method is allowed in the present state, and their audit.

See AMQP 0-9-1 sections 2.2.4 and 2.2.5; codes and texts are RabbitMQ's. An unexpected method is an error of the whole
connection: 504 if the channel is at fault, 503 if the method is not allowed there at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.core.publish.closed_sessions import Loss
from penstock.core.queue.queue import Queue
from penstock.errors import BrokerError, ChannelError, CommandInvalid, NotAllowed, ResourceError
from penstock.protocols.amqp091 import handshake, methods_basic, methods_topology
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.amqp091.channel import Channel
from penstock.protocols.common.audit_trail import actor_of
from penstock.protocols.common.connection_state import ConnectionState
from penstock.protocols.common.login import SecretUpdate
from penstock.protocols.common.lost_publishes import CLOSED_BEFORE
from penstock.protocols.common.session import SESSION_OPEN, SessionState
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, Method

if TYPE_CHECKING:
    from penstock.protocols.amqp091.engine import Amqp091Engine


class Malformed(BrokerError):
    """Error for malformed bytes, with the code that the codec chose."""

    def __init__(self, error: CodecError) -> None:
        super().__init__(error.reason)
        self.code = int(error.code)


Handler = Callable[[Channel, dict[str, object]], None]

CHANNEL_METHODS: Final[dict[int, Handler]] = {
    spec.CHANNEL_FLOW: methods_basic.channel_flow,
    spec.CHANNEL_FLOW_OK: methods_basic.nothing,
    spec.ACCESS_REQUEST: methods_topology.access_request,
    spec.EXCHANGE_DECLARE: methods_topology.exchange_declare,
    spec.EXCHANGE_DELETE: methods_topology.exchange_delete,
    spec.EXCHANGE_BIND: methods_topology.exchange_bind,
    spec.EXCHANGE_UNBIND: methods_topology.exchange_unbind,
    spec.QUEUE_DECLARE: methods_topology.queue_declare,
    spec.QUEUE_BIND: methods_topology.queue_bind,
    spec.QUEUE_UNBIND: methods_topology.queue_unbind,
    spec.QUEUE_PURGE: methods_topology.queue_purge,
    spec.QUEUE_DELETE: methods_topology.queue_delete,
    spec.BASIC_QOS: methods_basic.qos,
    spec.BASIC_CONSUME: methods_basic.consume,
    spec.BASIC_CANCEL: methods_basic.cancel,
    spec.BASIC_GET: methods_basic.get,
    spec.BASIC_ACK: methods_basic.ack,
    spec.BASIC_NACK: methods_basic.nack,
    spec.BASIC_REJECT: methods_basic.reject,
    spec.BASIC_RECOVER: methods_basic.recover,
    spec.BASIC_RECOVER_ASYNC: methods_basic.recover_async,
    spec.CONFIRM_SELECT: methods_basic.confirm_select,
    spec.TX_SELECT: methods_basic.tx_select,
    spec.TX_COMMIT: methods_basic.tx_commit,
    spec.TX_ROLLBACK: methods_basic.tx_rollback,
}


AUDITED: Final = frozenset(
    (
        spec.EXCHANGE_DECLARE,
        spec.EXCHANGE_DELETE,
        spec.EXCHANGE_BIND,
        spec.EXCHANGE_UNBIND,
        spec.QUEUE_DECLARE,
        spec.QUEUE_BIND,
        spec.QUEUE_UNBIND,
        spec.QUEUE_PURGE,
        spec.QUEUE_DELETE,
    )
)
SHOWN: Final = ("source", "exchange", "destination", "routing_key", "type", "durable", "exclusive", "auto_delete",
                "internal", "arguments")  # fmt: skip
"""Arguments that a record has, if they are not false or empty."""


class MethodAudit:
    """State before a method that may change the topology."""

    def __init__(self, channel: Channel, method: Method) -> None:
        self._channel = channel
        self._method = method
        self._epoch = channel.vhost.epoch
        is_new = method.id == spec.QUEUE_DECLARE and not method.args["queue"]
        self._queue = None if is_new or "queue" not in method.args else channel.vhost.queues.get(self._queue_name())

    def finish(self) -> None:
        """Record the method, if it has changed anything."""
        channel, method = self._channel, self._method
        if channel.vhost.epoch == self._epoch and method.id != spec.QUEUE_PURGE:
            return
        audit, actor = channel.connection.services.audit, actor_of(channel.connection)
        name = self._queue_name() if "queue" in method.args else ""
        subject = name or str(method.args.get("exchange") or method.args.get("destination") or "")
        queue = self._queue or channel.vhost.queues.get(name)
        if queue is not None and _is_temporary(queue):
            audit.passing(actor, method.name, subject)
            return
        before = None if self._queue is None or method.id != spec.QUEUE_DELETE else _shown_queue(self._queue)
        after = {name: method.args[name] for name in SHOWN if method.args.get(name)}
        audit.change(actor, method.name, subject, before, after or None)

    def _queue_name(self) -> str:
        return str(self._method.args.get("queue") or self._channel.last_queue)


def _is_temporary(queue: Queue) -> bool:
    """Return whether a queue ends with its clients."""
    return queue.owner is not None or queue.auto_delete


def _shown_queue(queue: Queue) -> dict[str, object]:
    return {"durable": queue.durable, "arguments": queue.arguments}


def connection_method(engine: Amqp091Engine, method: Method) -> None:
    """Handle a method on channel 0. Raises BrokerError."""
    state = engine.connection.state
    if method.id == spec.CONNECTION_CLOSE:
        engine.connection.on_client_close()
    elif method.id == spec.CONNECTION_CLOSE_OK and engine.connection.is_closing():
        engine.connection.end()
    elif engine.connection.ignores_input():
        return
    elif method.id == spec.CONNECTION_START_OK and state is ConnectionState.START:
        handshake.start_ok(engine, method.args)
    elif method.id == spec.CONNECTION_TUNE_OK and state is ConnectionState.TUNE:
        handshake.tune_ok(engine, method.args)
    elif method.id == spec.CONNECTION_OPEN and state is ConnectionState.OPEN:
        handshake.open_vhost(engine, method.args)
    elif method.id == spec.CONNECTION_UPDATE_SECRET and state is ConnectionState.RUNNING:
        SecretUpdate(engine.connection).start(arg.octets(method.args, "new_secret").decode(errors="replace"))
    elif state is ConnectionState.RUNNING:
        raise ChannelError("unexpected method in connection state running")
    else:
        raise CommandInvalid(f"{method.name} is not expected while the connection is in state '{state.word()}'")


def channel_method(engine: Amqp091Engine, number: int, method: Method) -> None:
    """Handle a method on a channel. Raises BrokerError."""
    if engine.connection.ignores_input():
        return
    if engine.connection.state is not ConnectionState.RUNNING:
        raise CommandInvalid(f"{method.name} came on channel {number} before the connection was open")
    channel = engine.channels.get(number)
    if method.id == spec.CHANNEL_OPEN:
        _open(engine, number, channel)
    elif channel is None:
        raise ChannelError("expected 'channel.open'")
    elif method.id == spec.CHANNEL_CLOSE:
        _close(engine, channel)
    elif channel.state != SESSION_OPEN:
        if method.id == spec.CHANNEL_CLOSE_OK and channel.state != SessionState.CLOSE_RECEIVED:
            channel.forget()
        elif method.id == spec.BASIC_PUBLISH and isinstance(channel.producer.closing, ResourceError):
            _count_unheard(channel, method)
    else:
        handler = CHANNEL_METHODS.get(method.id)
        if handler is None:
            raise CommandInvalid("unimplemented method")
        if method.id in AUDITED and engine.services.audit.enabled:
            audit = MethodAudit(channel, method)
            handler(channel, method.args)
            audit.finish()
        else:
            handler(channel, method.args)


def _count_unheard(channel: Channel, method: Method) -> None:
    """Count a publish on a channel that flow control has closed: it is lost too."""
    loss = Loss(CLOSED_BEFORE)
    loss.messages = 1
    channel.connection.losses.add(loss, channel.producer.origin)
    route = channel.vhost.route(
        arg.text(method.args, "exchange"), arg.text(method.args, "routing_key"), arg.flag(method.args, "mandatory")
    )
    channel.vhost.resolve(route, {})
    for queue in route.queues:
        queue.counters.count_refusal()
        channel.broker.emit_publish_refused(channel.producer, queue.gate, CLOSED_BEFORE, 0, "")


def _open(engine: Amqp091Engine, number: int, before: Channel | None) -> None:
    """Open a channel. Its number may be one that both sides have closed while close-ok is still missing."""
    if before is not None and before.state != SessionState.CLOSED_BY_BOTH:
        raise ChannelError("second 'channel.open' seen")
    others, most = len(engine.channels) - int(before is not None), engine.channel_max
    if others >= most:
        raise NotAllowed(f"number of channels opened ({others}) has reached the negotiated channel_max ({most})")
    if before is not None:
        before.forget()
    engine.services.open_connections.check_channels(engine.connection)
    channel = Channel(engine, number)
    engine.channels[number] = channel
    channel.vhost.churn.channels_opened += 1
    engine.send(number, spec.CHANNEL_OPEN_OK, {})


def _close(engine: Amqp091Engine, channel: Channel) -> None:
    """Handle channel.close of the client. If ours was sent too, theirs is answered and ours still awaits close-ok."""
    if channel.state == SessionState.CLOSE_RECEIVED:
        return  # Answered when the teardown is complete.
    if channel.state != SESSION_OPEN:
        channel.move(SessionState.CLOSED_BY_BOTH)
        channel.send(spec.CHANNEL_CLOSE_OK, {})
        return
    engine.services.deliver()
    engine.services.dispatch_effects()  # Outcomes on the channel precede its close-ok.
    channel.tear_down(SessionState.CLOSE_RECEIVED)
