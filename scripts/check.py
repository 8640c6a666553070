"""Run every check of the project and end with one line that says how it went.

Lint, formatting, types and import contracts; the tests interpreted (from ``src``), compiled (as installed) and with
Spark. Every check runs, whatever became of those before it.

Tests of a whole broker run once, in the form that is installed, which is what ships; of them the interpreted form runs
a part that touches every layer. Tests of modules with machine integers run in both forms.

The tests are cut into parts by folder, and each part is a process of its own: a JVM does not leave one that it has
entered, and brokers and clients wait for each other most of the time, so that several parts at once take little longer
than one. What a part says is shown when it has ended.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from threading import Lock, Timer
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
SOURCES = ROOT / "src"
AT_ONCE = 3 * (os.cpu_count() or 2)
"""Checks that run at the same time: more than there are cores, because most of them wait for two thirds of the time."""
SPARK, REST, SMOKE_TEST, BOTH_FORMS = "with Spark", "the rest", "smoke", "in both forms"
GROUPS = (
    (SPARK, ()),
    ("clients", ("tests/clients/**/test_*.py",)),
    ("server, a to h", ("tests/server/test_[a-h]*.py",)),
    ("server, i to z", ("tests/server/test_[!a-h]*.py",)),
    (
        "simulation",
        (
            "tests/sim/**/test_*.py",
            "tests/simulation/**/test_*.py",
            "tests/scenarios/**/test_*.py",
            "tests/testing/**/test_*.py",
            "tests/fuzz/**/test_*.py",
        ),
    ),
    ("client", ("tests/client/test_*.py", "tests/client/engine/**/test_*.py")),
    ("sources and sinks", ("tests/spark/**/test_*.py",)),
    ("other brokers", ("tests/checklists/**/test_*.py", "tests/seeds/**/test_*.py")),
    ("HTTP and commands", ("tests/server/http/test_*.py", "tests/cli/**/test_*.py")),
    ("bench and demo", ("tests/bench/**/test_*.py", "tests/client/bench/**/test_*.py", "tests/demo/**/test_*.py")),
    (BOTH_FORMS, ()),
    ("repository", ("tests/repo/**/test_*.py", "tests/docs/**/test_*.py", "tests/logs/test_ids.py")),
    ("store", ("tests/store/**/test_*.py",)),
    ("console", ("tests/server/http/console/**/test_*.py",)),
    (SMOKE_TEST, ()),
    (
        "protocols and core",
        (
            "tests/connections/**/test_*.py",
            "tests/protocols/**/test_*.py",
            "tests/core/**/test_*.py",
            "tests/persistence/**/test_*.py",
            "tests/describe/**/test_*.py",
            "tests/ranges/**/test_*.py",
            "tests/management/**/test_*.py",
            "tests/driver/**/test_*.py",
        ),
    ),
    (REST, ()),
    ("compat", ("tests/compat/**/test_*.py",)),
)
"""What is one part, the longest first, so that none is left alone at the end; the rest is what no other part has."""
NOTHING_COMPILED = ("tests/repo", "tests/docs", "tests/store", "tests/logs/test_ids.py")
"""Tests of what is the same in both forms: they run once, interpreted."""
WHOLE_BROKER = (
    "tests/server",
    "tests/cli",
    "tests/clients",
    "tests/compat",
    "tests/checklists",
    "tests/seeds",
    "tests/bench",
    "tests/client/bench",
    "tests/demo",
    "tests/sim",
    "tests/simulation",
    "tests/fuzz",
    "tests/scenarios",
    "tests/spark",
    "tests/testing",
)
"""Tests of a whole broker, through its ports or a simulated network: they run once, compiled where that is possible."""
NOT_COMPILED_ITSELF = (
    "tests/client/test_*.py",
    "tests/settings",
    "tests/logs",
    "tests/line_protocol",
    "tests/test_*.py",
)
"""Tests of modules that are not compiled and of what they call, which has tests of its own: they run once as well."""
LONG_ONLY = ("tests/checklists", "tests/seeds", "tests/bench", "tests/client/bench", "tests/demo")
"""Tests that only the long run has: checklists and documents of other brokers, the benches, the demo. Tests marked
`long` are the same.
"""
ONCE = (*WHOLE_BROKER, *NOT_COMPILED_ITSELF)
COMPILED_ONLY = (
    "tests/access", "tests/describe", "tests/driver", "tests/management", "tests/operations", "tests/ranges",
)  # fmt: skip
"""Tests of compiled packages that only count with machine integers; the long run and `make unit` have them interpreted
as well.
"""
MACHINE_INTEGER = re.compile(r"\b[iu](8|16|32|64)\b")
"""How a module names a type of machine integers. Such arithmetic may differ between Python and C, so the short run has
tests of such a module in both forms. The long run and `make unit` have tests of all compiled modules interpreted.
"""
SMOKE = (
    "tests/server/test_server.py",
    "tests/server/test_confirms.py",
    "tests/server/test_transactions.py",
    "tests/server/test_durability.py",
    "tests/server/http/test_app_node.py",
    "tests/clients/test_pika_flow.py",
    "tests/clients/test_pika_delivery.py",
    "tests/clients/test_aio_pika.py",
)
"""Those of them that run interpreted as well."""
LONG = ("--hypothesis-profile=nightly", "--timeout=900")
"""What pytest is told for the long run; see tests/profiles.py."""
SECOND = ("--hypothesis-profile=second",)
"""What it is told for tests of the interpreted form that run compiled as well; those marked `once` are left out."""
LIMIT, LIMIT_LONG = 20 * 60.0, 6 * 3600.0
"""Seconds that a check may take, and one of the long run. No test takes so long; what hangs outside of tests does."""
ABORTED = -signal.SIGABRT
MEMORY, MEMORY_BYTES = Path("/dev/shm"), 4 << 30
"""Where files of tests are if there is so much room: on a disk they wait for what others synchronise. Smoke tests and
the long run have theirs on a disk all the same, and each broker of the long run begins anew.
"""
SLOWEST = 10
"""Tests in the list of the slowest ones."""
SLOW_S, SLOW, CPU = 3.0, "slow", "cpu"
"""Seconds of processor time that a test of the short run may take without the mark; the mark and the processor time are
properties of a test in the report (tests/conftest.py). A longer test is named and fails nothing.
"""
INTERPRETED, COMPILED = "interpreted", "compiled"


@dataclass(frozen=True)
class Outcome:
    """How a check went: ``passed`` is None when it was skipped for the reason in ``note``."""

    name: str
    passed: bool | None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    note: str = ""
    slowest: tuple[tuple[float, str], ...] = ()
    """Its slowest tests: their seconds and names."""
    unmarked: tuple[tuple[float, str], ...] = ()
    """Its tests over SLOW_S without the mark."""

    def line(self) -> str:
        """Return the outcome as one line of the summary."""
        word = {True: "passed", False: "FAILED", None: "skipped"}[self.passed]
        return f"  {self.name:<28} {word:<8} {self.seconds:6.1f} s, CPU {self.cpu_seconds:6.1f} s  {self.note}".rstrip()


@dataclass(frozen=True)
class Part:
    """Tests that run in one process: those below ``paths`` that carry the marks, in one form of Penstock."""

    name: str
    form: str
    paths: tuple[str, ...]
    marks: str = "not spark"
    second: bool = False
    """Its tests run in the other form as well, and may try less in this one."""


Check = Callable[[IO[str]], Outcome]


def run(
    words: list[str], output: IO[str], environment: dict[str, str] | None = None, limit: float = LIMIT
) -> tuple[int, float, float]:
    """Run a program to its end; return its exit code, the seconds and the CPU seconds that it and its children took.

    After `limit` seconds it is aborted: Python then writes what each of its threads does, and its exit code is ABORTED.
    """
    start = time.monotonic()
    process = subprocess.Popen(words, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    alarm = Timer(limit, os.kill, (process.pid, signal.SIGABRT))
    alarm.start()
    try:
        _, status, usage = os.wait4(process.pid, 0)
    finally:
        alarm.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, time.monotonic() - start, usage.ru_utime + usage.ru_stime


def command(name: str, *words: str) -> Check:
    """Return the check that a tool of the environment exits with 0."""

    def check(output: IO[str]) -> Outcome:
        code, seconds, cpu_seconds = run([str(BIN / words[0]), *words[1:]], output)
        return Outcome(name, code == 0, seconds, cpu_seconds)

    return check


def lint() -> list[Check]:
    """Return the checks that only read the sources."""
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


def slowest_tests(report: Path) -> tuple[tuple[float, str], ...]:
    """Return the seconds and the names of a part's slowest tests, from pytest's JUnit report."""
    if not report.exists():
        return ()
    cases = ElementTree.parse(report).iter("testcase")
    return tuple(sorted(((float(case.get("time", "0")), case_name(case)) for case in cases), reverse=True)[:SLOWEST])


def unmarked_tests(report: Path) -> tuple[tuple[float, str], ...]:
    """Return the tests of a part that took more than SLOW_S of processor time and have no mark that says so."""
    if not report.exists():
        return ()
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        properties = {each.get("name", ""): each.get("value", "") for each in case.iterfind("properties/property")}
        cpu_seconds = float(properties.get(CPU, "0"))
        if cpu_seconds > SLOW_S and SLOW not in properties:
            found.append((cpu_seconds, case_name(case)))
    return tuple(found)


def case_name(case: ElementTree.Element) -> str:
    """Return the file and the name of a test in a JUnit report."""
    return f"{case.get('classname', '').removeprefix('tests.')}::{case.get('name', '')}"


def title(part: Part) -> str:
    """Return what a part is called in the output."""
    return f"tests {part.form}: {part.name}"


def scratch() -> Path | None:
    """Return a new folder in memory for files of tests; None where there is no room, or no program may be loaded."""
    if not os.access(MEMORY, os.W_OK):
        return None
    found = os.statvfs(MEMORY)
    fits = found.f_bavail * found.f_frsize >= MEMORY_BYTES and not found.f_flag & os.ST_NOEXEC
    if not fits:
        return None
    folder = Path(tempfile.mkdtemp(prefix="p-", dir=MEMORY))
    folder.chmod(0o1777)  # As /tmp: some tests and servers are not the superuser.
    return folder


def tests(part: Part, long: bool, folder: Path | None) -> Check:
    """Return the check that a part passes, with its files in a folder; None is where they usually are.

    The interpreted form is that of the sources, not what is installed.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # Hundreds of brokers start; each would compile the sources anew.
    environment["PENSTOCK_EXPECT"] = part.form
    if part.form == INTERPRETED:
        environment["PYTHONPATH"] = str(SOURCES)
    if long:
        environment["PENSTOCK_COLD"] = "1"
    elif folder is not None and part.name != SMOKE_TEST:
        environment["TMPDIR"] = str(folder)
    profile = LONG if long else SECOND if part.second else ()
    marks = part.marks
    if not long:
        marks += " and not long and not once" if part.second else " and not long"

    def check(output: IO[str]) -> Outcome:
        with tempfile.TemporaryDirectory() as made:
            report = Path(made, "report.xml")
            words = [sys.executable, "-m", "pytest", "-q", "-m", marks, f"--junitxml={report}", "--durations=10"]
            words += ["-p", "no:cacheprovider", "-o", "tmp_path_retention_policy=failed", *profile, *part.paths]
            if part.form == COMPILED:
                words += ["-o", "pythonpath=."]
            code, seconds, cpu_seconds = run(words, output, environment, LIMIT_LONG if long else LIMIT)
            note = "aborted, for it did not end" if code == ABORTED else counts(report)
            unmarked = () if long else unmarked_tests(report)
            return Outcome(title(part), code == 0, seconds, cpu_seconds, note, slowest_tests(report), unmarked)

    return check


def all_files() -> set[str]:
    """Return the paths of all files of tests."""
    return {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}


def below(files: Iterable[str], places: Iterable[str]) -> set[str]:
    """Return those of the files that are below one of these folders, or whose path has one of these patterns."""
    return {file for file in files if any(fnmatch(file, place) or file.startswith(f"{place}/") for place in places)}


def machine_integers(file: str) -> bool:
    """Tell whether the module that a file of tests mirrors has machine integers."""
    path = Path(file)
    module = SOURCES / "penstock" / path.parent.relative_to("tests") / path.name.removeprefix("test_")
    return module.is_file() and MACHINE_INTEGER.search(module.read_text()) is not None


def in_both_forms(files: Iterable[str], long: bool) -> set[str]:
    """Return the files that run interpreted although they run compiled: in the long run all of compiled modules."""
    files = set(files)
    once = (*ONCE, *NOTHING_COMPILED) if long else (*ONCE, *NOTHING_COMPILED, *COMPILED_ONLY)
    both = files - below(files, once)
    return both if long else {file for file in both if machine_integers(file)}


def parts(form: str, paths: Iterable[str]) -> list[Part]:
    """Cut what is below these paths into parts."""
    left = set(paths)
    found: list[Part] = []
    for name, patterns in GROUPS:
        here = {str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)}
        if here and here <= left:
            found.append(Part(name, form, tuple(sorted(here))))
            left -= here
    rest = [Part(REST, form, tuple(sorted(left)))] if left else []
    return [*found, *rest]


def all_parts(form: str, long: bool = False) -> list[Part]:
    """Return the parts of a whole run where this form is installed, longest first."""
    every = all_files()
    if not long:
        every -= below(every, LONG_ONLY)
    found = [Part(SPARK, form, ("tests/spark",), "spark")]
    if form == INTERPRETED:
        found += parts(INTERPRETED, every)
    else:
        found += parts(COMPILED, every - below(every, NOTHING_COMPILED))
        found += parts(INTERPRETED, below(every, NOTHING_COMPILED))
        found.append(Part(BOTH_FORMS, INTERPRETED, tuple(sorted(in_both_forms(every, long))), second=True))
        found.append(Part(SMOKE_TEST, INTERPRETED, SMOKE))
    names = [name for name, _ in GROUPS]
    return sorted(found, key=lambda part: names.index(part.name))


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


def not_compiled() -> Outcome:
    """Say why nothing runs compiled; with a C compiler that works nobody may do without, unless it was asked for."""
    if os.environ.get("PENSTOCK_PURE") == "1":
        return Outcome("tests compiled", None, note="PENSTOCK_PURE=1 asks for the interpreted form")
    if not compiler_works():
        return Outcome("tests compiled", None, note="there is no C compiler that can build extensions of this Python")
    note = "the C compiler works, and yet the installed penstock is interpreted"
    return Outcome("tests compiled", False, note=note)


def provide() -> None:
    """Install what tests need of the distribution, as far as that may be done: a JDK, and AMQP clients."""
    for script in ("jdk.sh", "clients.sh"):
        subprocess.run([str(ROOT / "scripts" / script)], stdout=subprocess.DEVNULL, check=False)


def run_all(checks: list[Check], at_once: int) -> list[Outcome]:
    """Run checks, some at the same time; show what each says, in one piece, when it has ended."""
    showing = Lock()

    def show(check: Check) -> Outcome:
        with tempfile.TemporaryFile("w+") as output:
            outcome = check(output)
            with showing:
                print(f"\n=== {outcome.line().strip()}")
                output.seek(0)
                shutil.copyfileobj(output, sys.stdout)
                sys.stdout.flush()
        return outcome

    with ThreadPoolExecutor(at_once) as beside:
        return list(beside.map(show, checks))


def summary(outcomes: list[Outcome], seconds: float) -> int:
    """Print how everything went; return the exit code."""
    print("\n=== Summary")
    print("\n".join(outcome.line() for outcome in outcomes))
    slowest = sorted((test for outcome in outcomes for test in outcome.slowest), reverse=True)[:SLOWEST]
    if slowest:
        print("\nSlowest tests")
        print("\n".join(f"  {duration:6.1f} s  {name}" for duration, name in slowest))
    unmarked = sorted((test for outcome in outcomes for test in outcome.unmarked), reverse=True)
    if unmarked:
        print(f"\nOver {SLOW_S:g} s of CPU without the mark `{SLOW}`")
        print("\n".join(f"  {duration:6.1f} s  {name}" for duration, name in unmarked))
    failed = [outcome.name for outcome in outcomes if outcome.passed is False]
    verdict = f"FAILED: {', '.join(failed)}" if failed else "All checks passed"
    print(f"{verdict} ({seconds:.0f} s).", flush=True)
    return 1 if failed else 0


def main() -> int:
    """Run what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lint", action="store_true", help="only the checks that read the sources")
    parser.add_argument("--long", action="store_true", help="all random examples and rounds instead of a part")
    arguments = parser.parse_args()
    start = time.monotonic()
    checks, others, folder = lint(), [], None
    if not arguments.lint:
        provide()
        form = installed_form()
        print("Several checks run at the same time; what each says is shown when it has ended.", flush=True)
        folder = scratch()
        checks += [tests(part, arguments.long, folder) for part in all_parts(form, arguments.long)]
        others = [] if form == COMPILED else [not_compiled()]
    code = None
    try:
        code = summary(run_all(checks, AT_ONCE) + others, time.monotonic() - start)
    finally:
        if folder is not None and code:
            print(f"Files of the tests that failed: {folder}")
        elif folder is not None:  # Nor does an interrupted run leave anything in memory.
            shutil.rmtree(folder, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
