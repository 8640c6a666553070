"""Synchronous AMQP 0-9-1 client: one thread, blocking calls with time-outs, no event loop.

It serves programs with one task and large amounts of data: the Spark connector's executors and the command line.
`Connection` connects, `Publisher` sends batches with confirms.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.channel import Channel
    from penstock.client.connection import Connection
    from penstock.client.content import Delivery, Returned
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
    "Channel",
    "ChannelClosed",
    "ClientError",
    "ConnectError",
    "Connection",
    "ConnectionClosed",
    "ControlError",
    "Delivery",
    "LoginRefused",
    "Parameters",
    "Progress",
    "Properties",
    "Publisher",
    "Returned",
    "Timeout",
    "WrongServer",
]

_HOMES = {
    "Channel": "channel",
    "Connection": "connection",
    **dict.fromkeys(("Delivery", "Returned"), "content"),
    **dict.fromkeys(("ChannelClosed", "ClientError", "ConnectError", "ConnectionClosed", "ControlError"), "errors"),
    **dict.fromkeys(("LoginRefused", "Timeout", "WrongServer"), "errors"),
    "Parameters": "parameters",
    **dict.fromkeys(("Progress", "Publisher"), "publisher"),
}
"""Modules of the names, which are imported when they are first asked for: the engine needs none of them."""


def __dir__() -> list[str]:
    """Return the public names, also of what has not been imported yet."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Import a name when it is first asked for."""
    if name == "Properties":
        home = "penstock.wire.amqp091.codec"
    elif name in _HOMES:
        home = f"penstock.client.{_HOMES[name]}"
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found
