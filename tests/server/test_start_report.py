"""The log record of the start: its fields, without secrets."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from pathlib import Path

import pytest

import penstock
from penstock.server.start_report import counted_connections
from penstock.settings.config import Settings
from penstock.settings.read import read_settings
from tests.support.brokers import serving


def test_number_of_connections_is_counted_in_words() -> None:
    assert (counted_connections(1), counted_connections(2)) == ("1 connection is closed", "2 connections are closed")


def test_broker_logs_its_start_and_its_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with penstock.Broker("127.0.0.1:0", data=tmp_path / "data", settings=Settings(heartbeat_s=7)):
            pass

    with caplog.at_level(logging.INFO, "penstock"):
        asyncio.run(run())
    told = {record.__dict__["id"]: record for record in caplog.records}
    assert [name for name in told if name.startswith("BRK-")] == ["BRK-1001", "BRK-1004", "BRK-1003", "BRK-1005"]
    start = told["BRK-1001"].__dict__
    assert start["version"] == penstock.__version__
    assert start["settings"] == {"heartbeat-s": 7}
    assert start["limits"]["open-files"] > 0
    assert str(tmp_path / "data") in start["store"]
    assert "heartbeat-s=7" in told["BRK-1001"].getMessage()
    assert told["BRK-1004"].getMessage().startswith("Ready : amqp 127.0.0.1:")


def test_start_record_has_the_memory_capacity_of_the_settings(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(patterns=[("broker", "", read_settings("broker", "", {"memory-capacity": "100MiB"}))])

    async def run() -> None:
        async with penstock.Broker("127.0.0.1:0", settings=settings):
            pass

    with caplog.at_level(logging.INFO, "penstock"):
        asyncio.run(run())
    (start,) = [record.__dict__ for record in caplog.records if record.__dict__["id"] == "BRK-1001"]
    assert start["limits"]["memory-capacity-bytes"] == 100 * 1024 * 1024


def test_log_level_is_reloaded_unless_set_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[broker]\nlog-level = "warning"\nlog-format = "json"\n')
    with serving(tmp_path, "--config", str(file)) as broker:
        file.write_text('[broker]\nlog-level = "debug"\nlog-format = "json"\nslow-turn-ms = 5\nlatency-target-ms = 2\n')
        broker.process.send_signal(signal.SIGHUP)
        (line,) = broker.await_logged("PST-2022")
        assert json.loads(line)["message"] == "[Broker] PST-2022 : reload: the log has records from level debug on"
        assert broker.stop() == 0
        told = [json.loads(line) for line in broker.log().splitlines()]
    assert [each["id"] for each in told if each["id"].startswith("BRK-")] == ["BRK-1003", "BRK-1005"]
    assert not [each for each in told if each["id"] == "PST-2033"], "none of them needs a restart"
