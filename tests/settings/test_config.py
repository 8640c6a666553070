"""The settings file and the environment: names, kinds and bounds.

Start-up settings as rows: their sources, and no secret.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.settings.config import (
    Settings,
    changed_at_start,
    changed_settings,
    load,
    parse,
    reloaded,
    renewed,
    start_rows,
    table_rows,
    with_environment,
    without_secrets,
)
from penstock.settings.start import AT_START


def test_sasl_mechanisms_are_a_list_of_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('[broker]\nsasl-mechanisms = ["PLAIN", "SCRAM-SHA-256"]\n')
    settings = load(path)
    assert settings.sasl_mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    path.write_text('[broker]\nsasl-mechanisms = ["PLAIN", "GSSAPI"]\n')
    with pytest.raises(
        ConfigError, match=r"line 2: sasl-mechanisms must be .* among EXTERNAL, SC.*, not \['PLAIN', 'GSSAPI'\]"
    ):
        load(path)


def test_settings_file_is_utf_8_with_any_locale(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('[users]\n"zoë" = "pässword"\n', encoding="utf-8")
    script = "import sys, pathlib; from penstock.settings import config; "
    script += "print(ascii(config.load(pathlib.Path(sys.argv[1])).users[0].name))"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-X", "utf8=0", "-c", script, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "'zo\\xeb'\n", done.stderr


@pytest.mark.parametrize("name", ["min-large-message", "amqpMinLargeMessageSize"])
def test_bound_of_large_messages_has_the_name_of_artemis_too(tmp_path: Path, name: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(f"[broker]\n{name} = 2000000\n")
    assert load(file).min_large_message == 2_000_000


def test_two_names_of_one_setting_with_two_values_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[broker]\nmin-large-message = 5\namqpMinLargeMessageSize = 5\n")
    assert load(file).min_large_message == 5
    file.write_text("[broker]\nmin-large-message = 5\namqpMinLargeMessageSize = 6\n")
    sentence = "line 3: amqpMinLargeMessageSize=6 contradicts min-large-message=5; both set min-large-message"
    with pytest.raises(ConfigError, match=sentence):
        load(file)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("", '[auth-http]\nuser_path = "http://127.0.0.1:1/user"\n', ["[auth-http]"]),
        ('[oauth]\nresource_server_id = "a"\nkeys = "https://id.example/keys"\n', "", ["[oauth]"]),
        ("[broker]\nheartbeat-s = 5\n", "[broker]\nheartbeat-s = 6\nlog-level = 'debug'\n", ["heartbeat-s"]),
        ("", '[tls]\ncertificate = "c.pem"\n', ["[tls]"]),
        ('[tls]\ncertificate = "c.pem"\n', '[tls]\ncertificate = "d.pem"\n', []),
    ],
)
def test_settings_that_count_at_the_start_only_are_named(
    tmp_path: Path, before: str, after: str, named: list[str]
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(before)
    old = load(file)
    file.write_text(after)
    assert changed_at_start(old, load(file)) == named


def test_environment_overrides_the_file_by_name_and_kind(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[broker]\nheartbeat-s = 7\nlisten = ["127.0.0.1:1"]\n')
    given = {
        "PENSTOCK_LISTEN": "0.0.0.0:5672, [::]:5672",
        "PENSTOCK_HEARTBEAT_S": "9",
        "PENSTOCK_DATA": "/d",
        "OTHER": "x",
    }
    settings = with_environment(load(file), given)
    assert (settings.listen, settings.heartbeat_s, settings.data) == (["0.0.0.0:5672", "[::]:5672"], 9, "/d")
    assert settings.sources["heartbeat_s"] == "environment PENSTOCK_HEARTBEAT_S"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("HEARTBEAT_S", "soon", "heartbeat-s must be seconds from 0 to 65535 (such as 30s), not 'soon'"),
        ("HEARTBEAT_S", "9" * 25, "heartbeat-s must be seconds from 0 to 65535 (such as 30s), not '999"),
        ("CHANNEL_MAX", "70000", "channel-max must be a whole number from 1 to 65535, not '70000'"),
        ("LOG_LEVEL", "loud", "log-level must be debug, info, warning or error, not 'loud'"),
        (
            "SASL_MECHANISMS",
            "PLAIN,NONE",
            "sasl-mechanisms must be a string or a list of at least one string among E",
        ),
    ],
)
def test_variable_that_cannot_be_meant_is_refused_by_name(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"environment variable PENSTOCK_{name}: {said}")):
        with_environment(Settings(), {f"PENSTOCK_{name}": value})


def test_bytes_and_times_of_the_start_may_have_units(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[broker]\nhold-bytes = "2 MiB"\nheartbeat-s = "1 min"\nslow-turn-ms = "0.25s"\n')
    settings = load(file)
    assert (settings.hold_bytes, settings.heartbeat_s, settings.slow_turn_ms) == (2 << 20, 60, 250)
    assert with_environment(settings, {"PENSTOCK_FLOW_LOG_FILE_BYTES": "4MB"}).flow_log_file_bytes == 4_000_000
    file.write_text('[broker]\nheartbeat-s = "1500ms"\n')
    with pytest.raises(ConfigError, match=r"heartbeat-s must be seconds from 0 to 65535 \(such as 30s\), not '1500ms'"):
        load(file)


@pytest.mark.parametrize("name", ["listen", "listen-tls", "http", "http-tls", "metrics-listen"])
def test_address_is_a_string_or_a_list_of_one(tmp_path: Path, name: str) -> None:
    file = tmp_path / "penstock.toml"
    found = []
    for value in ('"127.0.0.1:5001"', '["127.0.0.1:5001"]'):
        file.write_text(f"[broker]\n{name} = {value}\n")
        found.append(getattr(load(file), name.replace("-", "_")))
    assert found[0] == found[1]
    assert found[0] in ("127.0.0.1:5001", ["127.0.0.1:5001"])


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


def test_text_of_a_file_is_read_as_the_file_is(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[broker]\nchannel-max = 9\nslow-turn-ms = 7\n")
    settings = load(file)
    file.unlink()
    again = parse(file, settings.text)
    assert (again.channel_max, again.slow_turn_ms, again.sources) == (9, 7, settings.sources)
    with pytest.raises(ConfigError, match=r"penstock.toml' is not TOML"):
        parse(file, "[broker")


def test_process_that_starts_after_a_reload_has_its_patterns_and_users(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    before = with_environment(parse(file, "[broker]\nchannel-max = 9\n"), {"PENSTOCK_LOG_LEVEL": "error"})
    text = '[broker]\nchannel-max = 5\nslow-turn-ms = 7\nlog-level = "debug"\n[users]\nada = "a"\n'
    read = parse(file, text + "[queue.q]\nmax-length = 5\n")
    found = renewed(before, read)
    assert (found.channel_max, found.slow_turn_ms, found.log_level) == (9, 7, "error")
    assert (found.users, found.patterns) == (read.users, read.patterns)
    assert reloaded(before, read).users is None
