"""Programs of the guide on tests, copied from its page into an empty folder, pass their own tests there.

Those of a framework that is not installed are skipped.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "testing"
PAGE = ROOT / "docs" / "how-to" / "testing.md"
TESTS = {"pika": 2, "celery": 3, "faststream": 3, "django": 4}
"""Numbers of tests by framework."""
OPTIONS = (
    *("-c", os.devnull, "--rootdir", ".", "-q", "-p", "no:cacheprovider"),
    *("-p", "no:penstock", "-p", "penstock.testing.plugin"),
)


@pytest.mark.slow
@pytest.mark.clients
@pytest.mark.parametrize("framework", TESTS)
def test_example_copied_from_the_page_passes_its_own_tests(framework: str, tmp_path: Path) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    files = rf"^\[`[\w.]+`\]\((?:\.\./)*(examples/testing/{framework}/\w+\.py)\)$"
    links = re.findall(files, PAGE.read_text(), re.MULTILINE)
    assert links
    for link in links:
        shutil.copy(ROOT / link, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS], cwd=tmp_path, capture_output=True, text=True,
        timeout=2 * PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{TESTS[framework]} passed" in done.stdout


def test_example_programs_are_all_run() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} == set(TESTS)


def test_page_has_a_program_of_each_example() -> None:
    assert set(re.findall(r"\.\./examples/testing/(\w+)/", PAGE.read_text())) == set(TESTS)
