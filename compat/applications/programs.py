"""A program in another language that checks many things in one run, as pytest sees it: one test for each of them.

It prints a line of JSON for each check: `{"check": NAME, "passed": true}`, else with `"why"`.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

LIMIT = 120.0
"""Seconds that the whole program may take."""


def run(words: list[str], folder: Path) -> dict[str, str]:
    """Run it to its end; for each check why it failed, or nothing."""
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False)
        printed, said = done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        printed, said = (late.stdout or b"").decode(), f"it took longer than {LIMIT:.0f} s"
    found = {}
    for line in printed.splitlines():
        if line.startswith("{"):
            check = json.loads(line)
            found[check["check"]] = "" if check["passed"] else check["why"]
    found[""] = said.strip()
    return found


def verdict(found: dict[str, str], check: str) -> None:
    """Fail with the program's words for a check that failed, or that it did not come to."""
    why = found.get(check, f"it did not come so far: {found['']}")
    if why:
        pytest.fail(why)
