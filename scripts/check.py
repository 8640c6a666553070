"""Run every check of the project and end with one line that says how it went.

Lint, formatting, types and import contracts; the tests interpreted (from ``src``) and at the same time compiled (as
installed) and with Spark, in a process of its own, for a JVM does not leave one that it has entered. Every check runs,
whatever became of those before it.

Tests of a whole broker run once, in the form that is installed, which is what ships; of them the interpreted form runs
a part that touches every layer. Tests of single modules run in both forms.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SOURCES = ROOT / "src"
NOTHING_COMPILED = ("tests/house", "tests/store")
"""Tests of what is the same in both forms: they run once, with the interpreted one."""
WHOLE_BROKER = ("tests/server", "tests/clients", "tests/compat", "tests/checklists", "tests/bench", "tests/demo")
"""Tests of a whole broker, through its ports: they run once, with the compiled form where there is one."""
SMOKE = (
    "tests/server/test_lifecycle.py",
    "tests/server/test_confirms.py",
    "tests/server/test_transactions.py",
    "tests/server/test_durability.py",
    "tests/server/test_http_node.py",
    "tests/clients/test_pika_flow.py",
    "tests/clients/test_pika_delivery.py",
    "tests/clients/test_aio_pika.py",
)
"""Those of them that run interpreted as well."""


@dataclass(frozen=True)
class Outcome:
    """How a check went: ``passed`` is None when it was skipped for the reason in ``note``."""

    name: str
    passed: bool | None
    seconds: float
    note: str = ""

    def line(self) -> str:
        """Return the outcome as one line of the summary."""
        word = {True: "passed", False: "FAILED", None: "skipped"}[self.passed]
        return f"  {self.name:<20} {word:<8} {self.seconds:6.1f} s  {self.note}".rstrip()


def heading(text: str) -> None:
    """Set a check's output apart from that of the one before."""
    print(f"\n=== {text}", flush=True)


def command(name: str, *words: str) -> Outcome:
    """Run a tool of the environment; it passes if it exits with 0."""
    heading(name)
    start = time.monotonic()
    code = subprocess.run([str(BIN / words[0]), *words[1:]], cwd=ROOT, check=False).returncode
    return Outcome(name, code == 0, time.monotonic() - start)


def lint() -> list[Outcome]:
    """Run the checks that only read the sources."""
    return [
        command("ruff check", "ruff", "check", "."),
        command("ruff format", "ruff", "format", "--check", "."),
        command("mypy --strict", "mypy"),
        command("import contracts", "lint-imports", "--no-logo"),
    ]


def counts(report: Path) -> str:
    """Return how many tests ran and how many were skipped, from pytest's JUnit report."""
    if not report.exists():
        return "no report"
    suites = list(ElementTree.parse(report).iter("testsuite"))
    total, skipped, failed, errors = (
        sum(int(suite.get(key, "0")) for suite in suites) for key in ("tests", "skipped", "failures", "errors")
    )
    note = f"{total - skipped - failed - errors} passed, {skipped} skipped"
    return note + (f", {failed + errors} failed" if failed + errors else "")


def interpreted_paths() -> list[str]:
    """Return what runs interpreted beside a compiled form: all but tests of a whole broker, and a part of those."""
    folders = sorted(path for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__")
    paths = [str(path.relative_to(ROOT)) for path in folders]
    single = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").glob("test_*.py"))]
    return [path for path in paths if path not in WHOLE_BROKER] + single + list(SMOKE)


def tests(name: str, form: str, marks: str, output: IO[str] | None, paths: Sequence[str]) -> Outcome:
    """Run the tests that carry these marks; those with the interpreted form take the sources, not what is installed.

    What they say goes to `output`; None: to the terminal. `paths` are where they are; empty is everywhere.
    """
    print(f"\n=== {name}", file=output, flush=True)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PENSTOCK_EXPECT"] = form
    if form == "interpreted":
        environment["PYTHONPATH"] = str(SOURCES)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        words = [sys.executable, "-m", "pytest", "-m", marks, f"--junitxml={report}", "--durations=15", *paths]
        if form == "compiled" and marks != "spark":
            words += [f"--ignore={path}" for path in NOTHING_COMPILED]
        if output is not None:
            words += ["-p", "no:cacheprovider"]  # Two at a time would write over one another's.
        code = subprocess.run(words, cwd=ROOT, env=environment, stdout=output, check=False).returncode
        return Outcome(name, code == 0, time.monotonic() - start, counts(report))


def installed_form() -> str:
    """Return the form of the penstock that is installed in the environment."""
    question = "import penstock; print('compiled' if penstock.compiled() else 'interpreted')"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    words = [sys.executable, "-P", "-c", question]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def compiler_works() -> bool:
    """Tell whether the C compiler that extensions are built with can compile against Python's headers."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\n")
        words = [*compiler, "-I", sysconfig.get_path("include"), "-c", str(source), "-o", f"{source}.o"]
        try:
            return subprocess.run(words, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


def compiled_tests(form: str, output: IO[str]) -> Outcome:
    """Run the tests compiled; without a C compiler they are skipped, with one that works they may not be."""
    name = "tests compiled"
    if form == "compiled":
        return tests(name, "compiled", "not spark", output, ())
    if os.environ.get("PENSTOCK_PURE") == "1":
        note = "PENSTOCK_PURE=1 asks for the interpreted form"
    elif not compiler_works():
        note = "there is no C compiler that can build extensions of this Python"
    else:
        note = "the C compiler works, and yet the installed penstock is interpreted"
        return Outcome(name, False, 0.0, note)
    return Outcome(name, None, 0.0, note)


def all_tests(form: str) -> list[Outcome]:
    """Run the tests interpreted, and at the same time the tests compiled and then those with Spark in the form that is
    installed: brokers and clients wait for each other most of the time, and a machine has two cores at least."""

    def others(output: IO[str]) -> list[Outcome]:
        return [compiled_tests(form, output), tests("tests with Spark", form, "spark", output, ())]

    with tempfile.TemporaryFile("w+") as output, ThreadPoolExecutor(1) as beside:
        print("\nThe tests compiled and with Spark run at the same time; what they say comes after.", flush=True)
        rest = beside.submit(others, output)
        paths = interpreted_paths() if form == "compiled" else []
        outcomes = [tests("tests interpreted", "interpreted", "not spark", None, paths), *rest.result()]
        output.seek(0)
        shutil.copyfileobj(output, sys.stdout)
    return outcomes


def provide() -> None:
    """Install what tests need of the distribution, as far as that may be done: a JDK, and AMQP clients."""
    for script in ("jdk.sh", "clients.sh"):
        subprocess.run([str(ROOT / "scripts" / script)], stdout=subprocess.DEVNULL, check=False)


def main() -> int:
    """Run what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lint", action="store_true", help="only the checks that read the sources")
    only_lint = parser.parse_args().lint
    start = time.monotonic()
    outcomes = lint()
    if not only_lint:
        provide()
        outcomes += all_tests(installed_form())
    heading("Summary")
    print("\n".join(outcome.line() for outcome in outcomes))
    failed = [outcome.name for outcome in outcomes if outcome.passed is False]
    verdict = f"FAILED: {', '.join(failed)}" if failed else "All checks passed"
    print(f"{verdict} ({time.monotonic() - start:.0f} s).", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
