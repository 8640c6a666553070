"""Reload of the settings file: one at a time, requests are merged, and a file with an error changes nothing."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from penstock.server.settings_reload import SettingsReload
from penstock.settings.config import Settings


class Applied:
    """Settings that were read, and a gate that holds back whoever applies them."""

    def __init__(self) -> None:
        self.settings: list[Settings] = []
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()

    async def apply(self, settings: Settings) -> None:
        self.settings.append(settings)
        self.began.set()
        await self.may_end.wait()


def write(path: Path, heartbeat_s: str) -> None:
    path.write_text(f"[broker]\nheartbeat-s = {heartbeat_s}\n")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "penstock.toml"
    write(path, "7")
    return path


async def test_requests_during_a_reload_are_one_more_reload(file: Path) -> None:
    applied = Applied()
    reload = SettingsReload(file, applied.apply)
    first = reload.request()
    assert first is not None
    await applied.began.wait()
    write(file, "9")
    assert reload.request() is first
    assert reload.request() is first
    applied.may_end.set()
    await first
    assert [settings.heartbeat_s for settings in applied.settings] == [7, 9]
    second = reload.request()
    assert second is not None
    await second
    assert len(applied.settings) == 3


async def test_file_with_an_error_is_reported_and_not_applied(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    applied = Applied()
    applied.may_end.set()
    reload = SettingsReload(file, applied.apply)
    write(file, "'often'")
    with caplog.at_level(logging.WARNING, "penstock"):
        task = reload.request()
        assert task is not None
        await task
    assert applied.settings == []
    assert "reload: the old settings stay: " in caplog.text
    assert "heartbeat-s" in caplog.text


async def test_reload_without_a_file_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    applied = Applied()
    with caplog.at_level(logging.WARNING, "penstock"):
        assert SettingsReload(None, applied.apply).request() is None
    assert "reload: there is no settings file; start with --config FILE" in caplog.text


async def test_cancelled_reload_ends_with_its_broker(file: Path) -> None:
    applied = Applied()
    reload = SettingsReload(file, applied.apply)
    reload.cancel()  # There is none.
    task = reload.request()
    assert task is not None
    await applied.began.wait()
    reload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
