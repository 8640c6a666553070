"""Commands of `penstock`, run as somebody types them against a broker of a test."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

from tests.support.brokers import BrokerProcess, penstock_command


def run(broker: BrokerProcess, *words: str, code: int = 0, vhost: str = "") -> str:
    """Run a command; what it printed."""
    done = penstock_command(*words, "--url", broker.url + vhost)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def told(broker: BrokerProcess, *words: str) -> Any:
    """Run a command with --json; what it answered."""
    return json.loads(run(broker, *words, "--json"))


def listed(broker: BrokerProcess, kind: str, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(broker, "list", kind, "--json", *words).splitlines()]


def started(broker: BrokerProcess, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "penstock", *words, "--url", broker.url]
    return subprocess.Popen(
        command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=1,
        preexec_fn=hear_interrupts,
    )  # fmt: skip


def hear_interrupts() -> None:
    """Who runs the tests in the background of a shell has SIGINT ignored, and all that he starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def refused(*words: str) -> str:
    """Return the one sentence with which the command ends."""
    done = penstock_command(*words)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("penstock: ")
    return lines[0].removeprefix("penstock: ")
