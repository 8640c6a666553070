"""A small synchronous AMQP 0-9-1 client: one thread, blocking calls with time-outs, no event loop.

It is made for those who have one thing to do and large amounts of it: the Spark connector's executors, and the command
line. `Connection` opens the road, `Publisher` sends batches under confirms, `ControlClient` asks the broker questions.
"""

from penstock.client.channel import Channel
from penstock.client.connection import Connection
from penstock.client.content import Delivery, Returned
from penstock.client.control import Attached, ControlClient, Plan
from penstock.client.errors import ChannelClosed, ClientError, ConnectError, ConnectionClosed, ControlError, Timeout
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
    "Parameters",
    "Plan",
    "Progress",
    "Properties",
    "Publisher",
    "Returned",
    "Timeout",
]
