"""Start-up settings as rows: their sources, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import Settings, changed_settings, load, start_rows, table_rows, with_environment, without_secrets
from penstock.settings.start import AT_START


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:s3cr3t@db/penstock", "postgresql://ada:***@db/penstock"),
        ("postgresql://ada:s3@cr3t@db/penstock?sslpassword=t0p&schema=a", "postgresql://ada:***@db/penstock?sslpassword=***&schema=a"),
        ("postgresql://db/penstock?user=ada&password=s3cr3t", "postgresql://db/penstock?user=ada&password=***"),
        ("/var/lib/penstock", "/var/lib/penstock"),
    ],
)  # fmt: skip
def test_password_of_a_store_is_masked(url: str, shown: str) -> None:
    assert without_secrets(url) == shown
    assert changed_settings(Settings(store=url)) == {"store": shown}


def test_rows_have_every_setting_with_its_source(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[broker]\n\nheartbeat-s = 7\nlog-level = "error"\n[users]\nada = "s3cr3t"\n')
    settings = with_environment(load(file), {"PENSTOCK_LOG_LEVEL": "debug", "PENSTOCK_HTTP": ""})
    rows = {row["setting"]: row for row in start_rows(settings)}
    assert list(rows) == [name.replace("_", "-") for name in AT_START]
    assert rows["heartbeat-s"] == {"setting": "heartbeat-s", "value": 7, "default": 60, "from": f"{file}:3"}
    assert (rows["log-level"]["value"], rows["log-level"]["from"]) == ("debug", "environment PENSTOCK_LOG_LEVEL")
    assert rows["http"]["from"] == "default"
    assert table_rows(settings) == [{"setting": "[users]", "value": {"ada": "***"}, "default": None, "from": str(file)}]
    assert table_rows(Settings()) == []
