"""`penstock report`: one file with all diagnostics and without secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.brokers import PATIENCE, serving
from tests.support.raw_channel import Connection

SECRETS = ("s3cret-of-anna", "s3cret-of-bob", "s3cret-of-a-client", "s3cret-in-an-argument", "s3cret-in-the-log",
           "s3cret-in-a-message")  # fmt: skip
ANNA, BOB, CLIENT, ARGUMENT, LOG, MESSAGE = SECRETS


def report(url: str, *words: str, log: str = "") -> str:
    environment = {**os.environ, "PENSTOCK_URL": url}
    command = [sys.executable, "-m", "penstock", "report", *words]
    done = subprocess.run(
        command, input=log.encode(errors="surrogateescape"), capture_output=True, env=environment, check=False,
        timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_report_has_all_diagnostics_and_no_secret(tmp_path: Path) -> None:
    settings = tmp_path / "penstock.toml"
    settings.write_text(
        f'[users]\nanna = {{ password = "{ANNA}", tags = ["administrator"] }}\nbob = "{BOB}"\n'
        "[queue.orders]\ncapacity-messages = 7\n"
    )
    with serving(tmp_path, "--config", str(settings), "--data", str(tmp_path / "data")) as broker:
        url = f"amqp://anna:{ANNA}@127.0.0.1:{broker.port}/"
        with Connection(url) as connection:
            channel = connection.channel()
            channel.queue_declare("orders", arguments={"client-password": ARGUMENT})
            channel.publish(MESSAGE.encode(), routing_key="orders")
            channel.queue_declare("orders", passive=True)
            log = f"penstock: password={LOG}\namqp://x:{CLIENT}@h refused\nodd \udcff\n" + broker.log()
            file = tmp_path / "report.txt"
            words = ("--data", str(tmp_path / "data"), "--config", str(settings), "--log", "-")
            said = report(url, str(file), *words, log=log)
            shown = report(url, "-", "--json", *words, log=log)
    text = file.read_text()
    assert file.stat().st_mode & 0o077 == 0, "others cannot read it"
    assert str(file) in said
    for secret in SECRETS:
        for found in (text, shown, said):
            assert secret not in found
    found = json.loads(shown)
    assert found["client"]["python"] == sys.version
    assert [each["name"] for each in found["queues"]] == ["orders"]
    assert found["queues"][0]["arguments"] == {"client-password": "***"}
    assert found["why"]["sentences"] == ["no producer is blocked"]
    assert any(row["from"] for row in found["settings of the broker"])
    assert found["settings file"]["users"]["anna"] == {"password": "***", "tags": ["administrator"]}
    assert found["log"][:3] == ["penstock: password=***", "amqp://x:***@h refused", "odd \ufffd"]
    assert any('"event":"start"' in line.replace(" ", "") for line in found["flow log"])
    assert {each["name"] for each in found["users"]["users"]} >= {"anna", "bob"}
    for title in ("client", "broker", "why", "status", "settings by pattern", "channels", "policies", "flow log"):
        assert f"== {title} ==" in text


def test_report_on_a_broker_that_does_not_answer_says_so_and_has_the_rest() -> None:
    found = json.loads(report("amqp://anna:s3cret@127.0.0.1:1/", "-", "--json", "--data", "/nonexistent"))
    assert found["broker"]["user"] == "anna"
    assert "cannot connect to 127.0.0.1:1" in found["broker"]["no answer"]
    assert "s3cret" not in json.dumps(found)
    assert found["flow log"].startswith("there is none in '/nonexistent'")
    assert found["log"].startswith("not given")


def test_report_replaces_no_file(tmp_path: Path) -> None:
    file = tmp_path / "there"
    file.write_text("mine")
    environment = {**os.environ, "PENSTOCK_URL": "amqp://127.0.0.1:1/"}
    command = [sys.executable, "-m", "penstock", "report", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=PATIENCE)
    assert (done.returncode, file.read_text()) == (1, "mine")
    assert "File exists" in done.stderr
