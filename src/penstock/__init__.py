"""Penstock: a message broker that cannot be overrun.

Every queue has a capacity. When a queue reaches its stop threshold its gate closes: producers must wait, their
confirmations are withheld, and they continue when consumers have brought the depth down to the resume threshold.

In a program::

    async with penstock.Broker(listen="127.0.0.1:0") as broker:
        print(broker.url)
"""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from penstock.version import VERSION

if TYPE_CHECKING:
    from penstock.client.aio import Connection, Events, Publisher, Receiver, Transaction, connect
    from penstock.client.answers import Why
    from penstock.client.engine.events import Event
    from penstock.client.engine.messages import Message
    from penstock.client.engine.outcomes import (
        Blocked,
        CommitRefused,
        ConfirmTimeout,
        ConnectionLost,
        FlowControlTimeout,
        MessageRefused,
        Receipt,
        ReplayUncertain,
        TransactionAborted,
        TransactionInDoubt,
    )
    from penstock.client.engine.receiver import Delivery
    from penstock.client.engine.window import SendResult
    from penstock.client.errors import (
        ChannelClosed,
        ClientError,
        ConnectError,
        ConnectionClosed,
        ControlError,
        LinkClosed,
        LoginRefused,
        MessageTooLarge,
        ReceiverClosed,
    )
    from penstock.server.server import Server as Broker

__all__ = [
    "Blocked",
    "Broker",
    "ChannelClosed",
    "ClientError",
    "CommitRefused",
    "ConfirmTimeout",
    "ConnectError",
    "Connection",
    "ConnectionClosed",
    "ConnectionLost",
    "ControlError",
    "Delivery",
    "Event",
    "Events",
    "FlowControlTimeout",
    "LinkClosed",
    "LoginRefused",
    "Message",
    "MessageRefused",
    "MessageTooLarge",
    "Publisher",
    "Receipt",
    "Receiver",
    "ReceiverClosed",
    "ReplayUncertain",
    "SendResult",
    "Transaction",
    "TransactionAborted",
    "TransactionInDoubt",
    "Why",
    "__version__",
    "build",
    "compiled",
    "connect",
]

__version__ = VERSION

_PURE_PACKAGES = (
    *("access", "content", "flow", "core", "wire", "connections", "protocols", "persistence", "describe", "ranges"),
    *("management", "operations", "driver", "client/engine"),
)

_HOMES = {
    "Broker": "penstock.server.server",
    **dict.fromkeys(("Connection", "Events", "Publisher", "Receiver", "Transaction", "connect"), "penstock.client.aio"),
    "Why": "penstock.client.answers",
    "Delivery": "penstock.client.engine.receiver",
    "Event": "penstock.client.engine.events",
    "Message": "penstock.client.engine.messages",
    "SendResult": "penstock.client.engine.window",
    **dict.fromkeys(
        (
            *("Blocked", "CommitRefused", "ConfirmTimeout", "ConnectionLost", "FlowControlTimeout", "MessageRefused"),
            *("Receipt", "ReplayUncertain", "TransactionAborted", "TransactionInDoubt"),
        ),
        "penstock.client.engine.outcomes",
    ),
    **dict.fromkeys(
        (
            *("ChannelClosed", "ClientError", "ConnectError", "ConnectionClosed", "ControlError", "LinkClosed"),
            *("LoginRefused", "MessageTooLarge", "ReceiverClosed"),
        ),
        "penstock.client.errors",
    ),
}
"""Modules of the names that are imported at first use."""


@cache
def compiled() -> bool:
    """Return whether every module of the pure packages runs compiled by mypyc.

    Python prefers an extension module to a source of the same name, so checking the files suffices.
    """
    import os
    from importlib.machinery import EXTENSION_SUFFIXES

    here = os.path.dirname(__file__)
    folders = [set(files) for name in _PURE_PACKAGES for _, _, files in os.walk(os.path.join(here, name))]
    stems = [(name[:-3], files) for files in folders for name in files - {"__init__.py"} if name.endswith(".py")]
    return bool(stems) and all(any(stem + suffix in files for suffix in EXTENSION_SUFFIXES) for stem, files in stems)


@cache
def build() -> str:
    """Return the form of this build, and the time and id of the last change in it, if recorded.

    Such as `compiled, 2026-01-31 10:00 UTC 0123456789ab`. setup.py writes the file.
    """
    import os

    form = "compiled" if compiled() else "interpreted"
    try:
        with open(os.path.join(os.path.dirname(__file__), "build.txt"), encoding="utf-8") as file:
            return f"{form}, {file.read(100).strip()}"
    except OSError:
        return form


def __dir__() -> list[str]:
    """Return the public names, including names that are imported at first use."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Import a name at first use: a client does not need a server, nor a server a client."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(home), "Server" if name == "Broker" else name)
    globals()[name] = found
    return found
