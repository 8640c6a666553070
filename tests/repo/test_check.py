"""`make test` runs every file of tests, each in the forms that it is for, and none twice."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from tests import conftest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check.py"


@pytest.fixture(scope="module")
def check() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("check", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check"] = module  # A dataclass looks for its module there.
    spec.loader.exec_module(module)
    return module


def runs(check: ModuleType, installed: str, long: bool) -> Counter[tuple[str, str]]:
    """Count how often each file runs in each form, the run with Spark left out."""
    parts = [part for part in check.all_parts(installed, long) if part.marks == "not spark"]
    return Counter((part.form, path) for part in parts for path in part.paths)


def test_files_and_folders_of_the_tables_exist(check: ModuleType) -> None:
    named = (*check.SMOKE, *check.ONCE, *check.NOTHING_COMPILED, *check.LONG_ONLY)
    root = SCRIPT.parents[1]
    assert [path for path in named if not [*root.glob(path)]] == []


def files_of(check: ModuleType, long: bool) -> set[str]:
    """Return the files that a run has: all, or all but those of the long run."""
    files: set[str] = check.all_files()
    return files if long else files - check.below(files, check.LONG_ONLY)


@pytest.mark.parametrize("long", [False, True])
def test_files_run_once_interpreted_where_nothing_is_compiled(check: ModuleType, long: bool) -> None:
    assert runs(check, "interpreted", long) == Counter(("interpreted", path) for path in files_of(check, long))


@pytest.mark.parametrize("long", [False, True])
def test_files_run_in_their_forms(check: ModuleType, long: bool) -> None:
    files = files_of(check, long)
    same = check.below(files, check.NOTHING_COMPILED)
    compiled = {("compiled", path) for path in files - same}
    interpreted = {("interpreted", path) for path in check.in_both_forms(files, long) | same | set(check.SMOKE)}
    assert runs(check, "compiled", long) == Counter(compiled | interpreted)


@pytest.mark.parametrize(
    ("file", "short", "long"),
    [
        ("tests/flow/test_gate.py", True, True),
        ("tests/wire/amqp10/test_frames.py", True, True),
        ("tests/flow/test_lost_wakeups.py", False, True),
        ("tests/ranges/test_columns.py", False, True),
        ("tests/server/test_server.py", False, False),
        ("tests/store/test_store.py", False, False),
    ],
    ids=["machine-integers", "folder-below", "no-module-of-its-name", "compiled-only", "whole-broker", "not-compiled"],
)
def test_tests_of_modules_with_machine_integers_run_in_both_forms(
    check: ModuleType, file: str, short: bool, long: bool
) -> None:
    assert (file in check.in_both_forms([file], False), file in check.in_both_forms([file], True)) == (short, long)


def test_folders_of_the_long_run_have_tests(check: ModuleType) -> None:
    assert all(check.below(check.all_files(), [folder]) for folder in check.LONG_ONLY)


def test_parts_are_not_empty(check: ModuleType) -> None:
    """Pytest would run everything in the place of an empty one."""
    assert all(part.paths for form in ("compiled", "interpreted") for part in check.all_parts(form))


def test_check_that_does_not_end_is_aborted_with_its_stack(check: ModuleType, tmp_path: Path) -> None:
    program = "import faulthandler, threading\nfaulthandler.enable()\n"
    program += "def waits_for_ever(): threading.Event().wait()\nwaits_for_ever()"
    output = tmp_path / "output"
    with output.open("w") as file:
        code, _, _ = check.run([sys.executable, "-c", program], file, limit=1.0)
    assert code == check.ABORTED
    assert "waits_for_ever" in output.read_text()


def test_summary_names_the_slowest_tests_of_all_parts(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.xml"
    cases = "".join(
        f'<testcase classname="tests.core.test_vhost" name="t{number}" time="{number}"/>' for number in range(30)
    )
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    slowest = check.slowest_tests(report)
    assert len(slowest) == check.SLOWEST
    outcomes = [check.Outcome("one", True, slowest=slowest), check.Outcome("two", True, slowest=((29.5, "other"),))]
    assert check.summary(outcomes, 1.0) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index("Slowest tests") + 1 :][:2] == ["    29.5 s  other", "    29.0 s  core.test_vhost::t29"]
    assert check.slowest_tests(tmp_path / "none") == ()


def test_summary_names_tests_over_the_limit_without_the_mark_and_fails_nothing(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.xml"
    took = '<properties><property name="cpu" value="{}" /></properties>'
    marked = '<properties><property name="slow" value="" /><property name="cpu" value="9" /></properties>'
    report.write_text(
        "<testsuites><testsuite>"
        f'<testcase classname="tests.core.test_vhost" name="waits" time="9">{took.format(2.9)}</testcase>'
        f'<testcase classname="tests.core.test_vhost" name="unmarked" time="9">{took.format(3.5)}</testcase>'
        f'<testcase classname="tests.core.test_vhost" name="marked" time="9">{marked}</testcase>'
        "</testsuite></testsuites>"
    )
    unmarked = check.unmarked_tests(report)
    assert unmarked == ((3.5, "core.test_vhost::unmarked"),)
    assert check.unmarked_tests(tmp_path / "none") == ()
    assert check.summary([check.Outcome("one", True, unmarked=unmarked)], 1.0) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[lines.index("Over 3 s of CPU without the mark `slow`") + 1 :][0]
        == "     3.5 s  core.test_vhost::unmarked"
    )


def test_processor_time_of_a_test_has_that_of_its_ended_processes() -> None:
    before = conftest.cpu_s()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True)
    assert conftest.cpu_s() - before >= 0.2


@pytest.mark.slow
def test_slow_mark_is_a_property_in_the_report_of_the_test(check: ModuleType, request: pytest.FixtureRequest) -> None:
    assert request.node.user_properties == [(check.SLOW, "")]
