"""Feed of the logs: lines are gathered when there are many, and records reach their files."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from penstock.connections.audit_trail import Actor
from penstock.connections.log_line import LogLine
from penstock.logs import auditlog
from penstock.server.log_feed import GATHER_S, LINES_A_TURN, LINES_AT_ONCE, LogFeed
from penstock.server.record_log import RecordLog
from tests.support.driven_connection import make_driver
from tests.support.simulated_loop import SimLoop, simulate


def test_lines_beyond_a_batch_are_gathered_for_a_moment(caplog: pytest.LogCaptureFixture) -> None:
    async def gather(loop: SimLoop) -> None:
        driver = make_driver(now=loop.time())
        feed = LogFeed(driver, loop)
        for number in range(2 * LINES_A_TURN + 1):
            driver.log_queue.add(LogLine(f"line {number}", {}))
        feed.flush()
        feed.flush()
        assert len(caplog.records) == LINES_AT_ONCE
        await asyncio.sleep(1.5 * GATHER_S)
        assert len(caplog.records) == 2 * LINES_AT_ONCE
        await asyncio.sleep(GATHER_S)
        assert [record.getMessage() for record in caplog.records][-1] == f"line {2 * LINES_A_TURN}"
        feed.stop()

    with caplog.at_level(logging.DEBUG, "penstock"):
        simulate(1, gather)


def test_lines_have_the_time_of_their_event_and_stop_passes_on_all(caplog: pytest.LogCaptureFixture) -> None:
    async def stop(loop: SimLoop) -> None:
        driver = make_driver(now=loop.time())
        feed = LogFeed(driver, loop)
        feed.wall_offset = 1_000_000.0
        for number in range(3 * LINES_A_TURN):
            driver.log_queue.add(LogLine(f"line {number}", {}))
        at = loop.time()
        await asyncio.sleep(5)
        feed.stop()
        assert {record.created for record in caplog.records} == {at + 1_000_000.0}

    with caplog.at_level(logging.DEBUG, "penstock"):
        simulate(2, stop)
    assert len(caplog.records) == 3 * LINES_A_TURN


async def test_records_of_the_audit_log_reach_its_file(tmp_path: Path) -> None:
    driver = make_driver()
    audit_log = RecordLog(auditlog.FILES, tmp_path / "audit-log", 2, 1 << 20)
    audit_log.start()
    driver.audit.enable(1 << 20)
    feed = LogFeed(driver, asyncio.get_running_loop(), None, audit_log)
    driver.audit.change(Actor("ada", "file", "signal"), "settings.reload", "penstock.toml")
    feed.flush()
    assert not driver.audit.has_records()
    feed.stop()
    audit_log.stop()
    (file,) = (tmp_path / "audit-log").iterdir()
    assert "settings.reload" in file.read_text()
