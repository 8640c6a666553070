"""`penstock config` and `penstock serve --check`: settings with their sources, of a broker and of a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import PATIENCE, penstock_command, serving, settings_file
from tests.support.commands import refused, run

FILE = """\
[broker]
heartbeat-s = 7
store = "postgresql://ada:s3cr3t@db/penstock"
[queue."orders.#"]
capacity-bytes = "64MiB"
"""


def test_config_of_a_broker_has_every_source(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[broker]\nheartbeat-s = 7\n[users]\nguest = {password = "guest", tags = ["administrator"]}\n')
    with serving(tmp_path, "--config", str(file), environment={"PENSTOCK_SLOW_TURN_MS": "250"}) as broker:
        run(broker, "set", "queue", "orders.#", "stop-percent=60")
        rows = run(broker, "config", "--changed")
        found = json.loads(run(broker, "config", "--json"))
    lines = rows.splitlines()
    for begin, end in (
        ("heartbeat-s ", f"{file}:2"),
        ("slow-turn-ms ", "environment PENSTOCK_SLOW_TURN_MS"),
        ("listen ", "command line"),
        ('queue "%2F/orders.#" stop-percent ', "run-time change"),
    ):
        assert any(line.startswith(begin) and line.endswith(end) for line in lines), (begin, rows)
    assert '"guest": "***"' in json.dumps(found)
    assert {row["setting"]: row["from"] for row in found["start"]}["frame-max"] == "default"


def test_config_of_a_file_needs_no_broker_and_shows_no_secret(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    options = settings_file(tmp_path, FILE)
    shown = penstock_command("config", *options, "--changed")
    assert shown.returncode == 0, shown.stderr
    assert "s3cr3t" not in shown.stdout
    assert "postgresql://ada:***@db/penstock" in shown.stdout
    assert f"{options[1]}:5" in shown.stdout


def test_check_of_settings_that_are_valid_opens_nothing(tmp_path: Path) -> None:
    options = settings_file(
        tmp_path, '[broker]\nlisten = ["192.0.2.1:1"]\n[queue."orders.#"]\ncapacity-bytes = "64MiB"\n'
    )
    done = penstock_command("serve", "--check", *options, "--data", str(tmp_path / "data"))
    assert (done.returncode, done.stdout) == (0, f"the settings are valid: {options[1]}\n"), done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[broker]\nheartbeat-s = 100000\n",
            "line 2: heartbeat-s must be seconds from 0 to 65535 (such",
        ),
        ("[broker]\nstop-percent = 50\nresume-percent = 60\n", "is above stop-percent=50 (broker, set by file line 2)"),
        ('[broker]\nhttp-tls = "8443"\n', "listen-tls or http-tls 8443 is not HOST:PORT"),
        ('[broker]\nmetrics-listen = "9090"\n', "--metrics-listen 9090 is not HOST:PORT"),
        ("[broker]\nlisten = []\n", "the broker has no address to listen at"),
        ('[broker]\nlisten-tls = ["127.0.0.1:1"]\n', "listen-tls and http-tls need a certificate"),
        ('[tls]\ncertificate = "missing.pem"\nkey = "missing.pem"\n', "nothing listens with TLS"),
        (
            '[broker]\nlisten-tls = ["127.0.0.1:1"]\n[tls]\ncertificate = "missing.pem"\nkey = "missing.pem"\n',
            "missing.pem",
        ),
    ],
)
def test_check_of_settings_that_are_not_is_refused_in_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused("serve", "--check", "--memory", *settings_file(tmp_path, text))


def test_check_takes_the_environment_too() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "serve", "--check", "--memory"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**os.environ, "PENSTOCK_HEARTBEAT_S": "soon"},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("penstock: environment variable PENSTOCK_HEARTBEAT_S: heartbeat-s must be seconds")
