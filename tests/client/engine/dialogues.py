"""Engines without a broker: what a server says to them is written by hand."""

from __future__ import annotations

from typing import Any

from penstock.client.engine.amqp091.connection import Engine091
from penstock.client.engine.amqp10.connection import Engine10
from penstock.client.engine.connection import Engine
from penstock.client.engine.terms import ConnectionTerms
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from penstock.wire.amqp10 import spec as spec10
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER
from penstock.wire.amqp10.frames import frame as frame10
from penstock.wire.amqp10.values import Symbol

TERMS = ConnectionTerms(host="h", port=5, producer="p", container="c")
OTHER = {"product": "Other"}
"""Properties of a broker that is neither Penstock nor RabbitMQ."""


def said(engine: Engine, octets: bytes) -> bytes:
    """Let the engine read, release what it wakes, and return what it writes."""
    engine.receive(octets, engine.now)
    return released(engine)


def released(engine: Engine) -> bytes:
    """Release what the engine wakes, as a shell does, and return what it writes."""
    while engine.woken:
        woken, engine.woken = engine.woken, []
        for item in woken:
            item.release()
    return engine.take_output()


def method(channel: int, code: int, **arguments: Any) -> bytes:
    """Return a method of the server of AMQP 0-9-1."""
    return method_frame(channel, code, **arguments)


def start(server: dict[str, object], mechanisms: bytes = b"PLAIN") -> bytes:
    """Return the first method of a server of AMQP 0-9-1 with these properties."""
    return method(
        0,
        spec.CONNECTION_START,
        version_major=0,
        version_minor=9,
        server_properties=server,
        mechanisms=mechanisms,
        locales=b"en_US",
    )


def opened_091(server: dict[str, object] = OTHER, terms: ConnectionTerms = TERMS) -> Engine091:
    """Return an engine of AMQP 0-9-1 that is logged in."""
    engine = Engine091(terms)
    engine.begin(0.0)
    said(engine, start(server))
    said(engine, method(0, spec.CONNECTION_TUNE, channel_max=0, frame_max=0, heartbeat=0))
    said(engine, method(0, spec.CONNECTION_OPEN_OK))
    return engine


def performative(code: int, channel: int = 0, **fields: Any) -> bytes:
    """Return a performative of the server of AMQP 1.0."""
    return frame10(channel, encode(code, **fields))


def mechanisms(*names: str) -> bytes:
    """Return the first frames of a server of AMQP 1.0 with these SASL mechanisms."""
    return SASL_HEADER + frame10(
        0, encode(spec10.SASL_MECHANISMS, sasl_server_mechanisms=list(names)), spec10.FRAME_SASL
    )


def outcome(code: int = 0, data: bytes | None = None) -> bytes:
    """Return the outcome of a login, with the data of a last challenge."""
    return frame10(0, encode(spec10.SASL_OUTCOME, code=code, additional_data=data), spec10.FRAME_SASL)


def opened_10(server: dict[str, object] = OTHER, terms: ConnectionTerms = TERMS) -> Engine10:
    """Return an engine of AMQP 1.0 that is logged in."""
    engine = Engine10(terms)
    engine.begin(0.0)
    said(engine, mechanisms("PLAIN"))
    said(engine, outcome())
    properties = {Symbol(name): value for name, value in server.items()}
    said(engine, AMQP_HEADER + performative(spec10.OPEN, container_id="server", properties=properties))
    return engine


def begin(engine: Engine10) -> None:
    """Let the server begin the session that the engine has begun."""
    said(
        engine,
        performative(spec10.BEGIN, remote_channel=0, next_outgoing_id=0, incoming_window=1000, outgoing_window=1000),
    )
