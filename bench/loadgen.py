"""The load generators, one for each protocol: compiled when needed, run, their one line of JSON read."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
AMQP091, AMQP1 = "amqp091", "amqp1"
AMQPS, POSTGRESQL = "amqps", "postgresql"
"""AMQP 0-9-1 by TLS 1.3, and with a store in PostgreSQL."""
SOURCES = {AMQP091: "loadgen.c", AMQP1: "loadgen10.c", AMQPS: "loadgen.c", POSTGRESQL: "loadgen.c"}
HEADERS = ("amqp.h", "amqp10.h", "load.h", "loop.h")
Result = dict[str, Any]


class LoadError(Exception):
    """The load generator could not be made or its run failed; the text says why in one sentence."""


def build(protocol: str = AMQP091) -> Path:
    """Compile the generator of a protocol unless it is newer than its sources; return its path."""
    source = HERE / SOURCES[protocol]
    program = HERE / "build" / source.stem
    newest = max(path.stat().st_mtime for path in (source, *(HERE / name for name in HEADERS)))
    if program.exists() and program.stat().st_mtime > newest:
        return program
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        raise LoadError("The load generator needs a C compiler (Debian: apt-get install gcc libc6-dev).")
    program.parent.mkdir(exist_ok=True)
    # Two runs may build at once: each writes a file of its own, and the last one's takes the place.
    fresh = program.with_suffix(f".{os.getpid()}")
    command = [compiler, "-O2", "-Wall", "-Wextra", "-o", str(fresh), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoadError(f"`{' '.join(command)}` failed:\n{done.stderr}")
    fresh.replace(program)
    return program


def run(
    port: int,
    *options: str,
    pids: list[int] | None = None,
    cores: set[int] | None = None,
    protocol: str = AMQP091,
) -> Result:
    """Drive the broker on the port of 127.0.0.1 and return what was measured.

    `pids` are the processes whose processor time counts as the broker's; `cores` those that the generator may use.
    """
    command = [str(build(protocol)), "--port", str(port), *options]
    for pid in pids or ():
        command += ["--pid", str(pid)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if cores:
        os.sched_setaffinity(process.pid, cores)
    try:
        output, errors = process.communicate()
    except BaseException:
        process.kill()
        raise
    if process.returncode:
        raise LoadError(errors.strip() or f"The load generator ended with exit code {process.returncode}.")
    result: Result = json.loads(output)
    return result
