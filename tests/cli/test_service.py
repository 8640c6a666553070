"""Commands about the broker as a service, and names that users of other brokers type."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.cli.service import places_of
from tests.support.brokers import PATIENCE, BrokerProcess, eventually, penstock_command, serving
from tests.support.commands import refused, run, started, told
from tests.support.terminals import in_terminal

NOWHERE = "amqp://guest:guest@127.0.0.1:1/"


def test_version_is_that_of_this_program_without_a_broker() -> None:
    said = penstock_command("version").stdout
    assert said == f"penstock {penstock.__version__} ({penstock.build()})\n"
    assert said == penstock_command("--version").stdout
    assert json.loads(penstock_command("version", "--json").stdout)["version"] == penstock.__version__


def test_ping_logs_in_and_names_the_broker(broker: BrokerProcess) -> None:
    said = run(broker, "ping")
    assert re.fullmatch(rf"Penstock {penstock.__version__} at 127\.0\.0\.1:\d+ answered in [\d,]+ ms\n", said)
    answer = told(broker, "ping")
    assert (answer["product"], answer["version"]) == ("Penstock", penstock.__version__)
    assert "guest" not in json.dumps(answer), "no password"
    assert refused("ping", "--url", NOWHERE).startswith("cannot connect to 127.0.0.1:1")
    wrong = broker.url.replace("guest:guest", "guest:wrong")
    assert "refused" in refused("ping", "--url", wrong)


def test_health_is_a_table_and_fails_with_a_closed_gate(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        rows = [re.split(" {2,}", line.strip()) for line in run(broker, "health").splitlines()]
        assert rows[0] == ["check", "status", "reason"]
        assert {row[1] for row in rows[1:]} == {"ok"}
        assert [row[0] for row in rows[1:4]] == ["serves clients", "memory", "disk"]
        run(broker, "queues", "declare", "q", "capacity-messages=none", "capacity-bytes=none")
        run(broker, "broker", "set", "memory-capacity=1MiB")
        with started(broker, "queues", "publish", "q", "--whole") as process:
            process.stdin.write("x" * (900 * 1024))
            process.stdin.close()
            eventually(lambda: not told_health(broker)["memory"], "the gate of the memory is closed")
            process.kill()
        done = penstock_command("health", "--url", broker.url)
        assert done.returncode == 1
        assert re.search(r"^memory +failed +its gate is closed: publishers wait$", done.stdout, re.MULTILINE)
    assert refused("health", "--url", NOWHERE).startswith("cannot connect")


def told_health(broker: BrokerProcess) -> dict[str, bool]:
    done = penstock_command("health", "--json", "--url", broker.url)
    return {each["check"]: each["status"] == "ok" for each in json.loads(done.stdout)["checks"]}


def test_stop_names_the_ways_to_stop_a_broker(broker: BrokerProcess) -> None:
    sentence = refused("stop", "--url", broker.url)
    assert "`systemctl stop penstock`" in sentence
    assert "SIGTERM to `penstock serve`" in sentence
    run(broker, "ping")


@pytest.mark.parametrize("words", [("logs",), ("logs", "where")])
def test_logs_are_named_with_the_commands_that_read_them(tmp_path: Path, words: tuple[str, ...]) -> None:
    data = tmp_path / "data"
    with serving(tmp_path, "--data", str(data)) as broker:
        lines = run(broker, *words).splitlines()
        assert [line.split()[0] for line in lines] == ["log", "broker", "flow", "audit"]
        assert lines[2].endswith(f"penstock flow analyze {data}/flow-log")
        assert (data / "flow-log").exists()
        assert str(data / "audit-log") in lines[3]
    done = penstock_command(*words, "--url", NOWHERE)
    assert done.returncode == 0
    assert "DATA/flow-log" in done.stdout
    assert done.stderr.startswith("penstock: the broker did not say where its files are: cannot connect")


def test_logs_of_a_broker_in_memory_have_no_files(broker: BrokerProcess) -> None:
    assert [place for _, place, _ in places_of({"data": None})][1:] == ["none: the broker has no data directory"] * 2
    assert places_of({"data": "/d", "flow-log": "/f"})[1][1:] == ("/f", "penstock flow analyze /f")
    assert "compact" in penstock_command("logs", "--help").stdout


@pytest.mark.parametrize("command", ["list_queues", "check-alarms", "stop_app"])
def test_name_of_another_broker_leads_to_the_command_here(command: str) -> None:
    done = penstock_command(command)
    assert done.returncode == 2
    assert re.search(rf"no command '{command}': it is `penstock (queues list|health|stop)` here", done.stderr)


def test_interrupted_command_ends_with_130(broker: BrokerProcess, name: str) -> None:
    run(broker, "queues", "declare", name)
    with in_terminal("queues", "watch", name, "--url", broker.url) as terminal:
        terminal.wait(lambda text: "depth" in text, "the picture")
        terminal.press("\x03")
        assert terminal.ended() == 130


def test_start_of_a_command_imports_no_module_of_the_broker() -> None:
    code = "import sys; from penstock.cli.grammar import command_at; command_at('health'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert not {"penstock.core.broker", "penstock.server.server", "shutil"} & set(done.stdout.split())
