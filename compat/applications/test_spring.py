"""Spring AMQP and reactor-rabbitmq: what applications with them rely on (spring/Checks.java)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from compat.applications import programs
from tests.support.client_hold import java_compiles
from tests.support.fetched_clients import ClientMissingError, framework_jars

HERE = Path(__file__).parent / "spring"
CHECKS = re.findall(r'^        check\("(.+?)",', (HERE / "Checks.java").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def found(url: str) -> dict[str, str]:
    if shutil.which("java") is None or not java_compiles():
        pytest.skip("a JDK is not installed")
    try:
        jars = framework_jars()
    except ClientMissingError as missing:
        pytest.skip(str(missing))
    return programs.run(["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", "Checks.java", url], HERE)


@pytest.mark.parametrize("check", CHECKS)
def test_spring(found: dict[str, str], check: str) -> None:
    programs.verdict(found, check)
