"""Messages to the service manager, through a real datagram socket."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from penstock.server.service_manager import INTERVAL_S, ServiceManager
from tests.support.brokers import GRACE, serving, settings_file
from tests.support.raw_channel import Connection


class Manager:
    """The receiving end, as systemd's."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(GRACE)
        self.heard: list[str] = []

    def await_line(self, line: str) -> list[str]:
        """Wait for a message with this assignment; return its assignments."""
        while True:
            lines = self.socket.recv(4096).decode().split("\n")
            self.heard += lines
            if any(each.startswith(line) for each in lines):
                return lines


@contextmanager
def manager(address: str) -> Iterator[Manager]:
    found = Manager(address)
    with closing(found.socket):
        yield found


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Manager]:
    with manager(str(tmp_path / "notify")) as found:
        yield found


def test_broker_notifies_ready_status_reload_stop_and_watchdog(listening: Manager, tmp_path: Path) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
    with serving(tmp_path, *settings_file(tmp_path, ""), environment=environment) as broker:
        listening.await_line("READY=1")
        assert any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in listening.heard), "a recovery may take long"
        assert "WATCHDOG=1" in listening.await_line("STATUS=0 connections, 0 blocked")
        with Connection(broker.url):
            listening.await_line("STATUS=1 connections, 0 blocked")
        listening.await_line("WATCHDOG=1")
        broker.process.send_signal(signal.SIGHUP)
        assert any(line.startswith("MONOTONIC_USEC=") for line in listening.await_line("RELOADING=1"))
        listening.await_line("READY=1")
        broker.process.terminate()
        listening.await_line("STOPPING=1")
        assert broker.process.wait(GRACE) == 0
    assert "EXTEND_TIMEOUT_USEC" not in "".join(listening.heard[listening.heard.index("READY=1") :])


def test_abstract_socket_is_written_to(tmp_path: Path) -> None:
    name = f"penstock-{os.getpid()}-{tmp_path.name}"
    with manager("\0" + name) as listening:
        told = ServiceManager({"NOTIFY_SOCKET": "@" + name}, 1)
        told.tell("well")
        assert listening.await_line("STATUS=") == ["STATUS=well", "EXTEND_TIMEOUT_USEC=60000000"]
        told.ready()
        assert listening.await_line("READY=1") == ["READY=1"]
        told.tell("well")
        told.tell("blocked")
        assert listening.await_line("STATUS=") == ["STATUS=blocked"], "the same is not told again"
        told.close()
        assert not told.notify("READY=1")


@pytest.mark.parametrize(
    ("environment", "watchdog_s", "interval_s"),
    [
        ({}, None, INTERVAL_S),
        ({"WATCHDOG_USEC": "30000000"}, 30.0, INTERVAL_S),
        ({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "7"}, 2.0, 1.0),
        ({"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "8"}, None, INTERVAL_S),
        ({"WATCHDOG_USEC": "soon"}, None, INTERVAL_S),
        ({"WATCHDOG_USEC": "0"}, None, INTERVAL_S),
    ],
)
def test_watchdog_is_that_of_this_process(
    environment: dict[str, str], watchdog_s: float | None, interval_s: float
) -> None:
    found = ServiceManager(environment, 7)
    assert (found.watchdog_s, found.interval_s) == (watchdog_s, interval_s)
    assert not found.notify("READY=1"), "there is nobody to tell"


def test_absent_or_slow_manager_delays_no_work(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    told = ServiceManager({"NOTIFY_SOCKET": address}, 1)
    assert not told.notify("READY=1"), "nobody listens"
    with manager(address):
        while told.notify("STATUS=" + "x" * 1000):
            pass
    told.close()
