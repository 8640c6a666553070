"""The bare relay beside each low rate: what a program in C takes that only polls, reads and writes (relay.c).

At a low rate each message comes to an idle machine, and most of its cost is the system's. The relay is measured in the
same run, so that a ratio to it says what a broker adds.
"""

import os
import shutil
import subprocess
from pathlib import Path

from bench.brokers import Broker, BrokerUnavailable
from bench.loadgen import AMQP091, POSTGRESQL
from bench.scenarios import Scenario

RELAY = "relay"
TITLE = "a bare relay in C, which keeps nothing"
SOURCE = Path(__file__).resolve().parent / "relay.c"
PROTOCOLS = (AMQP091, POSTGRESQL)
"""Those whose generator speaks AMQP 0-9-1 without TLS."""


def is_beside(name: str, scenario: Scenario) -> bool:
    """Tell whether a broker takes part in a scenario: the relay does at rates that are given."""
    return name != RELAY or "--rate" in scenario.options


def build(folder: Path) -> Path:
    """Compile the relay into a folder. Raises BrokerUnavailable without a compiler."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        raise BrokerUnavailable("The bare relay needs a C compiler (Debian: apt-get install gcc libc6-dev).")
    program = folder / RELAY
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(program), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BrokerUnavailable(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return program


def start(name: str, scratch: Path) -> Broker:
    """Start the relay. Raises BrokerUnavailable."""
    process = subprocess.Popen([str(build(scratch))], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    return Broker(name, TITLE, int(process.stdout.readline()), process)
