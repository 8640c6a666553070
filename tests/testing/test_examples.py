"""The programs in examples/testing, with their own tests; those of a framework that is not installed are skipped."""

from __future__ import annotations

import importlib.util
import os
import re
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
    *("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"),
)


@pytest.mark.clients
@pytest.mark.parametrize("framework", TESTS)
def test_example_passes_its_own_tests(framework: str) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS], cwd=FOLDER / framework, capture_output=True, text=True,
        timeout=2 * PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{TESTS[framework]} passed" in done.stdout


def test_example_programs_are_all_run() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} == set(TESTS)


def test_page_has_a_program_of_each_example() -> None:
    assert set(re.findall(r"\.\./examples/testing/(\w+)/", PAGE.read_text())) == set(TESTS)
