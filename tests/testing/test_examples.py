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
TESTS = {"celery": 3, "faststream": 3, "django": 4}
"""Numbers of tests by framework."""
OPTIONS = (
    *("-c", os.devnull, "--rootdir", ".", "-q", "-p", "no:cacheprovider"),
    *("-p", "no:penstock", "-p", "penstock.testing.plugin"),
    *("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"),
)


def flat(text: str) -> str:
    """Return a program without blank lines, imports and leading comments, as a page may leave them out."""
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


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


@pytest.mark.clients
def test_first_program_of_the_page_passes(tmp_path: Path) -> None:
    found = re.search(r'```python title="test_orders.py"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert found is not None
    (tmp_path / "test_orders.py").write_text(found[1])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS], cwd=tmp_path, capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_every_example_is_run() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.is_dir()} == set(TESTS)


def test_snippets_of_the_page_are_parts_of_the_examples() -> None:
    snippets = re.findall(r'```python title="examples/testing/([\w/.]+)"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert {path.partition("/")[0] for path, _ in snippets} == set(TESTS)
    strange = [
        f"{path}: {part.splitlines()[0]}"
        for path, snippet in snippets
        for part in re.split(r"\n\n\n+", snippet.strip())
        if flat(part) not in flat((FOLDER / path).read_text())
    ]
    assert strange == []
