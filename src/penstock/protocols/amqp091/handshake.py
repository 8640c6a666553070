"""Handshake: from the protocol header to the agreed limits (AMQP 0-9-1 section 2.2.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.gates.connection_gates import ConnectionGates
from penstock.errors import AccessRefused, CommandInvalid, FrameError, NotAllowed
from penstock.flow.timers import NEVER, TimerHandler
from penstock.protocols.amqp091 import method_arguments as arg
from penstock.protocols.amqp091.blocked_notice import BlockedNotice
from penstock.protocols.amqp091.client_profiles import profile_of
from penstock.protocols.amqp091.connection_state import OPEN, RUNNING, START, TUNE
from penstock.protocols.amqp091.durable_replies import DurableDeliveries, DurableReplies
from penstock.protocols.amqp091.heartbeat import Heartbeat
from penstock.protocols.common.refusal_log import LOGIN
from penstock.wire.amqp091 import spec
from penstock.wire.sasl import SaslError, parse_amqplain, parse_plain

if TYPE_CHECKING:
    from penstock.protocols.amqp091.connection import Connection

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
FRAME_MIN: Final = 4096
"""Frame size that every peer must accept (section 4.2.3)."""

KEPT: Final = ("product", "version", "platform", "information", "copyright", "connection_name")
KEPT_LETTERS: Final = 255
"""Client properties that are stored for people, with the most letters of each. Others are dropped."""
CAPABILITIES: Final = (
    "authentication_failure_close",
    "basic.nack",
    "channel.flow",
    "connection.blocked",
    "consumer_cancel_notify",
    "consumer_priorities",
    "direct_reply_to",
    "exchange_exchange_bindings",
    "per_consumer_qos",
    "publisher_confirms",
)
"""Client capabilities that are stored, each true or false. Others are dropped."""


def protocol_header(connection: Connection, data: bytes) -> bytes:
    """Read the protocol header (eight octets). Return the input after it if the connection may continue."""
    if not PROTOCOL_HEADER.startswith(data[:8]):
        connection.out.write(PROTOCOL_HEADER)  # Section 4.2.2: send the supported version and close.
        connection.request_flush()
        connection.end()
        return b""
    if len(data) < 8:
        connection.reader.unparsed = data
        return b""
    connection.reader.unparsed = b""
    connection.state = START
    connection.send(
        0,
        spec.CONNECTION_START,
        {
            "version_major": 0,
            "version_minor": 9,
            "server_properties": connection.driver.server_properties,
            "mechanisms": b"PLAIN AMQPLAIN",
            "locales": b"en_US",
        },
    )
    return data[8:]


def start_ok(connection: Connection, args: dict[str, object]) -> None:
    """Log the client in (section 1.4.2.2)."""
    _keep_properties(connection, arg.table(args, "client_properties"))
    mechanism = arg.text(args, "mechanism")
    user, password = _credentials(mechanism, arg.octets(args, "response"))
    connection.peer.mechanism = mechanism
    connection.user = user[:KEPT_LETTERS]
    if not _welcome(connection, user, password):
        return
    connection.logged_in = True
    connection.driver.logins.leave(connection)
    connection.state = TUNE
    connection.send(
        0,
        spec.CONNECTION_TUNE,
        {
            "channel_max": connection.channel_max,
            "frame_max": connection.limits.frame_max,
            "heartbeat": connection.limits.heartbeat_s,
        },
    )


def _keep_properties(connection: Connection, properties: dict[str, object]) -> None:
    """Store the listed properties of a client and drop the others."""
    stored = connection.peer.properties
    for name in KEPT:
        if name in properties:
            stored[name] = str(properties[name])[:KEPT_LETTERS]
    capabilities = properties.get("capabilities")
    if isinstance(capabilities, dict):
        connection.capabilities = {name: capabilities[name] is True for name in CAPABILITIES if name in capabilities}
        stored["capabilities"] = connection.capabilities
    connection.product = str(stored.get("product", ""))
    connection.profile = profile_of(connection.product, str(stored.get("platform", "")), connection.capabilities)


def _credentials(mechanism: str, response: bytes) -> tuple[str, str]:
    """Return user and password. Raises CommandInvalid (503) and FrameError (501)."""
    try:
        if mechanism == "PLAIN":
            return parse_plain(response)
        if mechanism == "AMQPLAIN":
            return parse_amqplain(response)
    except SaslError as error:
        raise FrameError(str(error)) from None
    raise CommandInvalid(f"unknown authentication mechanism '{mechanism}'; offered are PLAIN and AMQPLAIN")


def _welcome(connection: Connection, user: str, password: str) -> bool:
    """Tell whether a client has logged in.

    A wrong password is refused, now or later; the reason goes to the log only.
    """
    backoff, address = connection.driver.backoff, connection.peer.network
    refusal = backoff.refusal(user, address)
    delay_s = 0.0
    if not refusal:
        refusal = connection.driver.users.refusal(user, password, connection.peer.loopback)
        if not refusal:
            backoff.succeeded(user, address)
            return True
        delay_s = backoff.failed(user, address, connection.broker.now)
    connection.driver.log_refusal(LOGIN, f"[{connection.name()}] login refused: {refusal}")
    if delay_s > 0:
        connection.discarding = True
        connection.late_refusal = LateRefusal(connection, user, delay_s)
    else:
        refuse_login(connection)
    return False


class LateRefusal(TimerHandler):
    """Delayed answer to a wrong password."""

    def __init__(self, connection: Connection, user: str, delay_s: float) -> None:
        super().__init__()
        self._connection = connection
        self._keys = connection.driver.backoff.wait(user, connection.peer.network)
        connection.broker.timers.add(self, connection.broker.now + delay_s)

    def end(self) -> None:
        """Cancel the answer: the connection is closed."""
        self._connection.driver.backoff.answered(self._keys)
        self._connection.broker.timers.drop(self)

    def on_deadline(self, now: float) -> float:
        """See `TimerHandler.on_deadline`."""
        connection = self._connection
        connection.driver.backoff.answered(self._keys)
        connection.late_refusal = None
        if connection.state == START:
            refuse_login(connection)
        return NEVER


def refuse_login(connection: Connection) -> None:
    """Refuse a client that has not logged in."""
    mechanism = connection.peer.mechanism
    if connection.capabilities.get("authentication_failure_close") is True:
        connection.on_error(
            0,
            AccessRefused(
                f"Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
            ),
        )
    else:
        connection.end()  # Older clients expect the socket to close (AMQP 0-9-1 section 2.2.2).


def tune_ok(connection: Connection, args: dict[str, object]) -> None:
    """Agree on the limits (section 1.4.2.6)."""
    frame_max, channel_max = arg.number(args, "frame_max"), arg.number(args, "channel_max")
    if frame_max and (frame_max < FRAME_MIN or frame_max > connection.limits.frame_max):
        raise NotAllowed(
            f"frame_max={frame_max} is outside the {FRAME_MIN} to {connection.limits.frame_max} that were offered"
        )
    if channel_max > connection.limits.channel_max:
        raise NotAllowed(f"channel_max={channel_max} is above the {connection.limits.channel_max} that were offered")
    connection.frame_max = frame_max or connection.limits.frame_max
    connection.channel_max = channel_max or connection.limits.channel_max
    connection.heartbeat_s = arg.number(args, "heartbeat")
    connection.state = OPEN


def open_vhost(connection: Connection, args: dict[str, object]) -> None:
    """Open a virtual host for the client (section 1.4.2.7). Raises NotAllowed (530) for an unknown one."""
    connection.vhost = connection.broker.vhost(arg.text(args, "virtual_host"))
    connection.state = RUNNING
    connection.durable_replies = DurableReplies(connection)
    connection.durable_deliveries = DurableDeliveries(connection)
    connection.origin = ConnectionGates(connection.user, str(connection.number))
    connection.broker.gates.add_connection(connection.origin)
    connection.notice = BlockedNotice(connection)
    connection.heartbeat = Heartbeat(connection)
    connection.heartbeat.begin()
    connection.send(0, spec.CONNECTION_OPEN_OK, {})
