"""Test kit: a broker in the test's process, a virtual clock, faults on demand, and waiting assertions.

The pytest plugin (`plugin.py`) provides the kit as fixtures. Without pytest, `server()` does::

    with penstock.testing.server() as server, server.virtual_host() as broker:
        program_under_test(broker.url)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.testing.broker_process import BrokerProcess
    from penstock.testing.broker_under_test import BrokerUnderTest, Server, SlowConsumer, server
    from penstock.testing.expectations import (
        Subject,
        assert_confirmed,
        assert_depth,
        assert_depth_never_above,
        assert_held,
        assert_lost_nothing,
    )
    from penstock.testing.virtual_loop import LoopStuck, VirtualClock

__all__ = [
    "BrokerProcess",
    "BrokerUnderTest",
    "LoopStuck",
    "Server",
    "SlowConsumer",
    "Subject",
    "VirtualClock",
    "assert_confirmed",
    "assert_depth",
    "assert_depth_never_above",
    "assert_held",
    "assert_lost_nothing",
    "server",
]

_MODULES: Final = {
    "BrokerProcess": "broker_process",
    "LoopStuck": "virtual_loop",
    "VirtualClock": "virtual_loop",
    **dict.fromkeys(("BrokerUnderTest", "Server", "SlowConsumer", "server"), "broker_under_test"),
}
"""Modules of the public names; all other names are in `expectations`."""


def __dir__() -> list[str]:
    """Return the public names, including names that are imported at first use."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Import a name at its first use: pytest loads the plugin in every run, and most runs have no test with a
    broker."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"penstock.testing.{_MODULES.get(name, 'expectations')}"), name)
