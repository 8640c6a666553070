"""Test kit: a broker in the test's process, a virtual clock, faults to order, and assertions that wait.

The pytest plugin (`plugin.py`) provides it as fixtures. Without pytest `server()` does::

    with penstock.testing.server() as server, server.virtual_host() as broker:
        program_under_test(broker.url)
"""

from penstock.testing.broker_process import BrokerProcess
from penstock.testing.broker_under_test import BrokerUnderTest
from penstock.testing.expectations import (
    Subject,
    assert_confirmed,
    assert_depth,
    assert_depth_never_above,
    assert_held,
    assert_lost_nothing,
)
from penstock.testing.server import Server, server
from penstock.testing.slow_consumer import SlowConsumer
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
