"""CloudAMQP's JavaScript client: what programs with it rely on (cloudamqp/checks.js).

The package of npm carries no tests, so these are our own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from compat.applications import programs

HERE = Path(__file__).parent / "cloudamqp"
CHECKS = re.findall(r'^  "?([^":{}]+?)"?: async \(', (HERE / "checks.js").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def found(url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("cloudamqp")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder)
    words = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("npm could not fetch @cloudamqp/amqp-client")
    library = folder / "node_modules" / "@cloudamqp" / "amqp-client"
    return programs.run([node, "checks.js", url, str(library)], HERE)


@pytest.mark.parametrize("check", CHECKS)
def test_cloudamqp(found: dict[str, str], check: str) -> None:
    programs.verdict(found, check)
