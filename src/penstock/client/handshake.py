"""Handshake of the client (section 2.2.4): protocol header, start, tune, open; each failure as one sentence."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from penstock.client.errors import ConnectError, ConnectionClosed, LoginRefused, Timeout
from penstock.client.login_errors import FIRST_STEP, why_closed
from penstock.version import VERSION
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import CodecError, method_frame
from penstock.wire.sasl import SaslError, plain_response

if TYPE_CHECKING:
    from penstock.client.connection import Connection

DEFAULT_FRAME_MAX: Final = 128 * 1024
"""Frame size in octets until one is negotiated, and when the broker names none; RabbitMQ's default."""
CHANNEL_MAX: Final = 2047
"""Most channels that are requested; RabbitMQ's default, far above what one thread can use."""

CLIENT_PROPERTIES: Final[dict[str, object]] = {
    "version": VERSION,
    "platform": "Python",
    "capabilities": {
        "connection.blocked": True,
        "consumer_cancel_notify": True,
        "basic.nack": True,
        "publisher_confirms": True,
        "authentication_failure_close": True,
    },
}

REFUSED: Final = (spec.ReplyCode.ACCESS_REFUSED, spec.ReplyCode.NOT_ALLOWED)
"""Reply codes of a refused login: user or password, and virtual host."""


class Tuned(NamedTuple):
    """Negotiated limits, and the properties that the broker announced."""

    frame_max: int
    channel_max: int
    heartbeat: int
    server_properties: dict[str, object]


def shake_hands(connection: Connection, deadline: float) -> Tuned:
    """Open the connection before `deadline` (monotonic seconds); raises `ConnectError` with advice."""
    host, port, user = connection.parameters[:3]
    virtual_host = connection.parameters.virtual_host
    step = FIRST_STEP
    try:
        connection.send(spec.PROTOCOL_HEADER, _left(deadline))
        server_properties = _hear_start(connection, deadline)
        step = f"an answer to the credentials of {user}"
        _show_credentials(connection, deadline)
        tuned = _tune(connection, server_properties, deadline)
        step = f"the virtual host {virtual_host}"
        connection.send(method_frame(0, spec.CONNECTION_OPEN, virtual_host=virtual_host), _left(deadline))
        connection.answer(spec.CONNECTION_OPEN_OK, _left(deadline))
    except Timeout:
        raise ConnectError(host, port, f"the broker is silent where {step} was due; try again later") from None
    except ConnectionClosed as error:
        kind = LoginRefused if error.code in REFUSED else ConnectError
        raise kind(host, port, _why_closed(connection, step, error)) from None
    except (SaslError, CodecError) as error:
        raise ConnectError(host, port, str(error)) from None
    return tuned


def _left(deadline: float) -> float:
    return max(0.0, deadline - monotonic())


def _hear_start(connection: Connection, deadline: float) -> dict[str, object]:
    """Return the broker's properties from connection.start; raises `SaslError` without PLAIN."""
    args = connection.answer(spec.CONNECTION_START, _left(deadline)).args
    mechanisms = cast(bytes, args["mechanisms"]).decode(errors="replace").split()
    if "PLAIN" not in mechanisms:
        raise SaslError(f"the broker offers only {' '.join(mechanisms)}, and this client speaks only PLAIN")
    return cast("dict[str, object]", args["server_properties"])


def _show_credentials(connection: Connection, deadline: float) -> None:
    query = connection.parameters.query
    properties = {**CLIENT_PROPERTIES, "product": connection.parameters.product}
    if query:
        properties["penstock_query"] = query
    if connection.parameters.name:
        properties["connection_name"] = connection.parameters.name
    start_ok = method_frame(
        0,
        spec.CONNECTION_START_OK,
        client_properties=properties,
        mechanism="PLAIN",
        response=plain_response(connection.parameters.user, connection.parameters.password),
        locale="en_US",
    )
    connection.send(start_ok, _left(deadline))


def _tune(connection: Connection, server_properties: dict[str, object], deadline: float) -> Tuned:
    """Accept the broker's frame size; zero means no limit, and then ours counts.

    Without a request for heartbeats there are none; otherwise the shorter interval counts.
    """
    args = connection.answer(spec.CONNECTION_TUNE, _left(deadline)).args
    frame_max = cast(int, args["frame_max"]) or DEFAULT_FRAME_MAX
    channel_max = min(cast(int, args["channel_max"]) or CHANNEL_MAX, CHANNEL_MAX)
    if frame_max < spec.FRAME_MIN_SIZE:
        raise CodecError(
            f"the broker accepts frames of {frame_max} octets; AMQP 0-9-1 requires at least {spec.FRAME_MIN_SIZE}"
        )
    wanted, offered = connection.parameters.heartbeat, cast(int, args["heartbeat"])
    heartbeat = min(wanted, offered) or wanted
    connection.send(
        method_frame(0, spec.CONNECTION_TUNE_OK, channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat),
        _left(deadline),
    )
    return Tuned(frame_max, channel_max, heartbeat, server_properties)


def _why_closed(connection: Connection, step: str, error: ConnectionClosed) -> str:
    parameters = connection.parameters
    return why_closed(parameters.user, step, error.code, error.text, is_encrypted=parameters.tls is not None)
