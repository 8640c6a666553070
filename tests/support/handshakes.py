"""Handshakes of AMQP 0-9-1, step by step, and what the broker says at their end."""

from __future__ import annotations

from typing import NamedTuple

from penstock.connections.connection import Connection
from penstock.connections.peer import THIS_MACHINE, Peer
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.amqp091_frames import last_method
from tests.support.driven_connection import output_of
from tests.support.logging_in import GREETING

OPENING = (
    GREETING,
    method_frame(0, spec.CONNECTION_START_OK, mechanism="PLAIN", response=b"\0guest\0guest"),
    method_frame(0, spec.CONNECTION_TUNE_OK, channel_max=100, frame_max=131072, heartbeat=0),
    method_frame(0, spec.CONNECTION_OPEN, virtual_host="/"),
)


class Said(NamedTuple):
    """Name, code and text of a method; only closes have a code and a text."""

    name: str
    code: object
    text: str


def ask(connection: Connection, *data: bytes) -> Said:
    """Send octets, and take the output after each; return the last method that comes."""
    heard = b""
    for each in data:
        connection.receive(each)
        heard += output_of(connection)
    last = last_method(heard)
    return Said(last.name, last.args.get("reply_code"), str(last.args.get("reply_text", "")))


def connect(driver: BrokerDriver, network: str = THIS_MACHINE) -> tuple[Connection, Said]:
    """Open a connection of guest, who is at this machine, counted with a network."""
    peer = Peer("127.0.0.1:1", True)
    peer.network = network
    connection = driver.connect(peer)
    return connection, ask(connection, *OPENING)
