"""NestJS microservices over RabbitMQ's transport: requests, events, wildcards, refusals (nestjs/checks.js)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from compat.applications import programs
from tests.support.fetched_clients import HERE as CLIENTS
from tests.support.fetched_clients import ClientMissingError, nest_packages

HERE = Path(__file__).parent / "nestjs"
CHECKS = re.findall(r'^  "([^":{}]+?)": async \(', (HERE / "checks.js").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def found(url: str) -> dict[str, str]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    try:
        packages = nest_packages()
    except ClientMissingError as missing:
        pytest.skip(str(missing))
    framework = CLIENTS / "node" / "nest" / "framework.js"
    return programs.run([node, "checks.js", url, str(framework), str(packages)], HERE)


@pytest.mark.parametrize("check", CHECKS)
def test_nestjs(found: dict[str, str], check: str) -> None:
    programs.verdict(found, check)
