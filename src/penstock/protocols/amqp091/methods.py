"""Methods of a connection and of its channels: the handshake, the table of handlers, and the audit of topology changes.

The handshake goes from the protocol header to the agreed limits (AMQP 0-9-1 section 2.2.4). A method must be allowed in
the present state; see sections 2.2.4 and 2.2.5; codes and texts are RabbitMQ's. An unexpected method is an error of the
whole connection: 504 if the channel is at fault, 503 if the method is not allowed there at all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from penstock.connections.audit_trail import actor_of
from penstock.connections.client_profiles import EXACT_FLOW, PRODUCER_LANES, Profile, profile_of
from penstock.connections.client_session import SESSION_OPEN, SessionState
from penstock.connections.connection_state import ConnectionState
from penstock.connections.engine import HOLD_DEADLINE
from penstock.connections.login import SecretUpdate
from penstock.connections.lost_publishes import CLOSED_BEFORE
from penstock.connections.peer import QUERY
from penstock.connections.sasl import SaslExchange
from penstock.connections.sasl_mechanisms import AMQPLAIN, ANONYMOUS, EXTERNAL, PLAIN
from penstock.core.publish.held import Loss
from penstock.core.queue.queue import Queue
from penstock.errors import AccessRefused, BrokerError, ChannelError, CommandInvalid, NotAllowed, ResourceError
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.amqp091 import methods_basic, methods_topology
from penstock.protocols.amqp091.channel import Channel
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, Method

if TYPE_CHECKING:
    from penstock.protocols.amqp091.engine import Amqp091Engine


PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
MECHANISMS: Final = (EXTERNAL, PLAIN, AMQPLAIN, ANONYMOUS)
"""Mechanisms of this protocol; SCRAM would need `connection.secure`, which no client knows."""
FRAME_MIN: Final = 4096
"""Frame size that every peer must accept (section 4.2.3)."""

KEPT: Final = ("product", "version", "platform", "information", "copyright", "connection_name", QUERY)
"""Client properties that are stored for listings."""
CAPABILITIES: Final = (
    "authentication_failure_close",
    "basic.nack",
    "channel.flow",
    "connection.blocked",
    "consumer_cancel_notify",
    "consumer_priorities",
    "direct_reply_to",
    "exchange_exchange_bindings",
    EXACT_FLOW,
    "penstock.tx_commit_retry",
    "per_consumer_qos",
    "publisher_confirms",
)
"""Client capabilities that are stored, each true or false. Others are dropped."""
CLIENTS_KNOWN: Final = 64
"""Most clients whose connections share capabilities and profile; connections of further clients have their own."""


def start(engine: Amqp091Engine) -> None:
    """Answer the protocol header."""
    engine.connection.move(ConnectionState.START)
    engine.send(
        0,
        spec.CONNECTION_START,
        {
            "version_major": 0,
            "version_minor": 9,
            "server_properties": _server_properties(engine),
            "mechanisms": " ".join(_exchange(engine).mechanisms).encode(),
            "locales": b"en_US",
        },
    )


def _server_properties(engine: Amqp091Engine) -> dict[str, object]:
    return {
        "product": "Penstock",
        "version": engine.services.version,
        HOLD_DEADLINE: engine.broker.defaults.hold_deadline_ms(),
        "platform": "Python",
        "cluster_name": engine.services.cluster_name(),
        "information": "Licensed under the Apache License 2.0",
        "capabilities": {
            "publisher_confirms": True,
            "exchange_exchange_bindings": True,
            "basic.nack": True,
            "consumer_cancel_notify": True,
            "connection.blocked": True,
            "authentication_failure_close": True,
            "consumer_priorities": True,
            "per_consumer_qos": True,
            "direct_reply_to": True,
            "penstock.tx_commit_retry": True,
            EXACT_FLOW: True,
            PRODUCER_LANES: True,
        },
    }


def start_ok(engine: Amqp091Engine, args: dict[str, object]) -> None:
    """Log the client in (section 1.4.2.2).

    Raises CommandInvalid (503) for an unknown mechanism, FrameError (501) for a malformed response, and NotAllowed
    (530) beyond a limit of logins a second.
    """
    properties = arg.table(args, "client_properties")
    _keep_properties(engine, properties)
    engine.connection.peer.set_rates(properties)
    exchange = _exchange(engine)
    step = exchange.init(arg.text(args, "mechanism"), arg.octets(args, "response"))
    if exchange.is_temporary:
        engine.services.audit.login(actor_of(engine.connection), engine.connection.peer.mechanism, step.refusal)
        raise NotAllowed(f"login refused: {step.refusal}")
    if step.fault is not None:
        raise step.fault
    exchange.carry_out(engine.connection, step)


def _exchange(engine: Amqp091Engine) -> SaslExchange:
    return SaslExchange(engine.services, engine.connection.peer, MECHANISMS, engine.limits.start.initial_frame_max)


def accept_login(engine: Amqp091Engine) -> None:
    """Offer the limits of the connection (section 1.4.2.5); an open connection has updated its secret instead."""
    if engine.connection.state is ConnectionState.RUNNING:
        engine.send(0, spec.CONNECTION_UPDATE_SECRET_OK, {})
        return
    engine.connection.move(ConnectionState.TUNE)
    engine.send(
        0,
        spec.CONNECTION_TUNE,
        {
            "channel_max": engine.channel_max,
            "frame_max": engine.limits.start.frame_max,
            "heartbeat": engine.limits.start.heartbeat_s,
        },
    )


def _keep_properties(engine: Amqp091Engine, properties: dict[str, object]) -> None:
    """Store the listed properties of a client and drop all others."""
    engine.connection.peer.introduce(properties, KEPT)
    capabilities = properties.get("capabilities")
    announced: dict[str, bool] | None = None
    if isinstance(capabilities, dict):
        announced = {name: capabilities[name] is True for name in CAPABILITIES if name in capabilities}
    recognize(engine, announced)


def recognize(engine: Amqp091Engine, announced: dict[str, bool] | None) -> None:
    """Set the profile of a client whose properties are stored, by the capabilities that it has announced, if any."""
    stored = engine.connection.peer.properties
    client = str(stored.get("product", "")), str(stored.get("platform", ""))
    engine.capabilities, engine.profile = _known_client(*client, tuple((announced or {}).items()))
    if announced is not None:
        stored["capabilities"] = engine.capabilities


@lru_cache(maxsize=CLIENTS_KNOWN)
def _known_client(
    product: str, platform: str, announced: tuple[tuple[str, bool], ...]
) -> tuple[dict[str, object], Profile]:
    """Return capabilities and profile of a client: its connections share them."""
    capabilities: dict[str, object] = dict(announced)
    return capabilities, profile_of(product, platform, capabilities)


def refuse_login(engine: Amqp091Engine) -> None:
    """Refuse a client that has not logged in."""
    mechanism = engine.connection.peer.mechanism
    if engine.capabilities.get("authentication_failure_close") is True:
        engine.on_error(
            0,
            AccessRefused(
                f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
            ),
        )
    else:
        engine.connection.end()  # Older clients expect the socket to close (AMQP 0-9-1 section 2.2.2).


def tune_ok(engine: Amqp091Engine, args: dict[str, object]) -> None:
    """Agree on the limits (section 1.4.2.6)."""
    frame_max, channel_max = arg.number(args, "frame_max"), arg.number(args, "channel_max")
    if frame_max and (frame_max < FRAME_MIN or frame_max > engine.limits.start.frame_max):
        raise NotAllowed(
            f"frame_max={frame_max} is outside the {FRAME_MIN} to {engine.limits.start.frame_max} that were offered"
        )
    if channel_max > engine.limits.start.channel_max:
        raise NotAllowed(f"channel_max={channel_max} is above the {engine.limits.start.channel_max} that were offered")
    engine.frame_max = frame_max or engine.limits.start.frame_max
    engine.channel_max = channel_max or engine.limits.start.channel_max
    engine.heartbeat_s = arg.number(args, "heartbeat")
    engine.connection.move(ConnectionState.OPEN)


def open_vhost(engine: Amqp091Engine, args: dict[str, object]) -> None:
    """Open a virtual host for the client (section 1.4.2.7). Raises NotAllowed (530) for an unknown virtual host."""
    engine.connection.open(engine.broker.vhost(arg.text(args, "virtual_host")))
    engine.keep_time(HEARTBEAT_FRAME, engine.heartbeat_s / 2, 2.0 * engine.heartbeat_s)
    engine.send(0, spec.CONNECTION_OPEN_OK, {})


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
"""Arguments in an audit record, unless they are false or empty."""


class MethodAudit:
    """State before a method that may change the topology."""

    def __init__(self, channel: Channel, method: Method) -> None:
        self._channel = channel
        self._method = method
        self._epoch = channel.vhost.epoch
        is_new = method.id == spec.QUEUE_DECLARE and not method.args["queue"]
        self._queue = None if is_new or "queue" not in method.args else channel.vhost.queues.get(self._queue_name())

    def finish(self) -> None:
        """Record the method, if it has changed the topology."""
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
        start_ok(engine, method.args)
    elif method.id == spec.CONNECTION_TUNE_OK and state is ConnectionState.TUNE:
        tune_ok(engine, method.args)
    elif method.id == spec.CONNECTION_OPEN and state is ConnectionState.OPEN:
        open_vhost(engine, method.args)
    elif method.id == spec.CONNECTION_UPDATE_SECRET and state is ConnectionState.RUNNING:
        SecretUpdate(engine.connection).start(arg.octets(method.args, "new_secret"))
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
    """Count a publish on a channel that flow control has closed: that publish is lost too."""
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
    """Open a channel.

    The number may belong to a channel that both sides have closed while close-ok is still missing.
    """
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
    """Handle channel.close of the client.

    If the broker has also sent channel.close, the client's is answered, and the broker's still awaits close-ok.
    """
    if channel.state == SessionState.CLOSE_RECEIVED:
        return  # Answered when the teardown is complete.
    if channel.state != SESSION_OPEN:
        channel.move(SessionState.CLOSED_BY_BOTH)
        channel.send(spec.CHANNEL_CLOSE_OK, {})
        return
    engine.services.deliver()
    engine.services.dispatch_effects()  # Outcomes on the channel precede its close-ok.
    channel.tear_down(SessionState.CLOSE_RECEIVED)
