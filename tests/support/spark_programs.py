"""Programs with Spark as a reader runs them: processes in a fresh folder, with this Python and these sources.

A process has a JVM of its own, which takes ten seconds of processor time to start: the short run has few of them, and
runs programs in the session that its tests share.

Spark chooses the Python of its workers by itself, as for a reader. A folder of Spark's configuration adds settings that
make a short run faster, and nothing else.
"""

from __future__ import annotations

import io
import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from bench.crash_spark.query import CONF

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ADDRESS = "127.0.0.1:5672"
BLOCK = re.compile(r'^( *)```python(?: title="[^"]+")?\n(.*?)^\1```', re.MULTILINE | re.DOTALL)
TOO_LATE = "Python worker failed to connect back"
"""Spark gives a Python worker ten seconds to connect and has no setting for that; a busy machine may need more."""
ATTEMPTS = 5
SECONDS = 380
"""Longest run of a program, below the limit of a test."""
LEFT_OUT = ("spark.executor.memory", "spark.executor.cores")
"""Settings of the other tests that a program without a cluster does not need."""


def snippets(page: str) -> list[str]:
    """Return the Python blocks of a page of the documentation."""
    return [code for _, code in BLOCK.findall((DOCS / page).read_text())]


def here(snippet: str, address: str, folder: Path) -> str:
    """Return a snippet with the address of a broker, and with a folder in place of the absolute path `/data`."""
    moved = snippet.replace(ADDRESS, address).replace("rabbit:5672", address)
    return moved.replace('"/data/', f'"{folder}/data/')


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of a reader, with a folder of Spark's configuration beside the program's folder."""
    conf = folder.with_name(f"{folder.name}-conf")
    conf.mkdir(exist_ok=True)
    lines = [f"{key} {value}" for key, value in CONF.items() if key not in LEFT_OUT]
    (conf / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_")}
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return {**inherited, "PYTHONPATH": path, "SPARK_CONF_DIR": str(conf), "PYTHONUNBUFFERED": "1", **more}


def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder to its end, and again if a worker was too late; `more` are variables."""
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=folder,
            env=environment(folder, **more),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode == 0 or TOO_LATE not in done.stderr:
            break
    return done


def run_in_session(program: Path, *arguments: str) -> str:
    """Run a program in this process, whose `getOrCreate` returns the session of the tests; return the program's output.

    The folder of relative paths is that in which the JVM was started.
    """
    before, output = sys.argv, io.StringIO()
    sys.argv = [str(program), *arguments]
    try:
        with redirect_stdout(output):
            runpy.run_path(str(program), run_name="__main__")
    finally:
        sys.argv = before
    return output.getvalue()


@contextmanager
def beside(folder: Path, *words: str, **more: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run a program in a folder beside the context, in a process group of its own; yields its output's file too."""
    output = folder / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env=environment(folder, **more),
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        yield process, output
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Press Ctrl-C, and wait for the end of the program."""
    os.killpg(process.pid, signal.SIGINT)
    process.wait(SECONDS)
