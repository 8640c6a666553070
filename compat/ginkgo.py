"""Tests that are written with Ginkgo (Go): one test of `go test` with hundreds of specs.

`python -m compat.ginkgo WORDS` runs `go test` with these words and writes a line for each spec (compat/reporting.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compat.reporting import FILE

OUTCOMES = {"passed": "passed", "skipped": "skipped", "pending": "skipped"}
"""Outcomes by Ginkgo's states; all others are failures."""


def outcomes(report: list[dict[str, Any]]) -> Iterator[dict[str, str]]:
    """Return what became of each spec of Ginkgo's report; a name that occurs again gets a number."""
    seen: Counter[str] = Counter()
    for spec in (spec for suite in report for spec in suite["SpecReports"] or ()):
        state = spec["State"]
        name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
        if spec["LeafNodeType"] != "It":
            if state == "passed":
                continue  # what is done before and after
            name = spec["LeafNodeType"]
        seen[name] += 1
        if seen[name] > 1:
            name = f"{name} ({seen[name]})"
        message = spec.get("Failure", {}).get("Message", "").strip()
        why = " ".join(line.strip() for line in message.splitlines()[:6])[:300]
        yield {"test": name, "outcome": OUTCOMES.get(state, "failed"), "why": why}


def main(words: list[str]) -> int:
    """Run `go test` with these words; return its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        told = ["-args", f"-ginkgo.json-report={report}", "-ginkgo.no-color"]
        code = subprocess.run(["go", "test", "-count=1", *words, *told], check=False).returncode
        found = list(outcomes(json.loads(report.read_text()))) if report.exists() else []
    with Path(os.environ[FILE]).open("a") as file:
        file.writelines(json.dumps(one) + "\n" for one in found)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
