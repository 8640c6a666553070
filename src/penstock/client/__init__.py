"""Synchronous AMQP 0-9-1 client: one thread, blocking calls with time-outs, no event loop.

It serves programs with one task and large amounts of data: the Spark connector's executors and the command line.
`Connection` connects, `Publisher` sends batches with confirms, `ControlClient` calls control operations.
"""

from penstock.client.channel import Channel
from penstock.client.connection import Connection
from penstock.client.content import Delivery, Returned
from penstock.client.control import Attached, ControlClient, Plan
from penstock.client.errors import (
    ChannelClosed,
    ClientError,
    ConnectError,
    ConnectionClosed,
    ControlError,
    LoginRefused,
    Timeout,
    WrongServer,
)
from penstock.client.parameters import Parameters
from penstock.client.publisher import Progress, Publisher
from penstock.wire.amqp091.codec import Properties

__all__ = [
    "Attached",
    "Channel",
    "ChannelClosed",
    "ClientError",
    "ConnectError",
    "Connection",
    "ConnectionClosed",
    "ControlClient",
    "ControlError",
    "Delivery",
    "LoginRefused",
    "Parameters",
    "Plan",
    "Progress",
    "Properties",
    "Publisher",
    "Returned",
    "Timeout",
    "WrongServer",
]
