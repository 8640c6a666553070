"""Settings in effect in a process: what a reload changes, what persists, and what is published."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.server.applied_settings import AppliedSettings, warn_of_open_file
from penstock.server.shard import Allowance, Shard
from penstock.settings.config import Settings, load


def read(folder: Path, text: str) -> Settings:
    file = folder / "penstock.toml"
    file.write_text(text)
    return load(file)


@pytest.fixture
async def shard() -> AsyncIterator[Shard]:
    found = Shard("test", Settings(), None, Allowance(1 << 30, 1_000))
    found.begin()
    await found.restore()
    yield found
    await found.close()
    await found.release()


async def test_reload_changes_reloadable_settings_and_publishes_them(shard: Shard, tmp_path: Path) -> None:
    applied = AppliedSettings(read(tmp_path, "[broker]\nslow-turn-ms = 50\nchannel-max = 9\n"), shard)
    assert await applied.replace(read(tmp_path, "[broker]\nslow-turn-ms = 70\nchannel-max = 5\n"), None)
    assert applied.settings.slow_turn_ms == 70
    assert applied.settings.channel_max == 9  # Only a start changes it.
    assert shard.driver.slow_turn_s == pytest.approx(0.07)
    rows = {row["setting"]: row["value"] for row in shard.driver.start_settings.rows}
    assert (rows["slow-turn-ms"], rows["channel-max"]) == (70, 9)


async def test_option_of_the_command_line_persists_over_a_reload(shard: Shard, tmp_path: Path) -> None:
    given = replace(Settings(), slow_turn_ms=20, sources={"slow_turn_ms": "command line"})
    applied = AppliedSettings(given, shard)
    await applied.replace(read(tmp_path, "[broker]\nslow-turn-ms = 70\n"), None)
    assert applied.settings.slow_turn_ms == 20


async def test_users_of_the_file_are_replaced_by_a_reload(shard: Shard, tmp_path: Path) -> None:
    applied = AppliedSettings(Settings(), shard)
    await applied.replace(read(tmp_path, '[users]\nada = "lovelace"\n'), None)
    assert shard.driver.broker.access.names() == ["ada"]


def test_file_with_passwords_that_others_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = read(tmp_path, '[users]\nada = "lovelace"\n')
    assert settings.file is not None
    settings.file.chmod(0o600)
    warn_of_open_file(settings)
    assert caplog.text == ""
    settings.file.chmod(0o644)
    warn_of_open_file(settings)
    assert "has passwords and can be read by others" in caplog.text
