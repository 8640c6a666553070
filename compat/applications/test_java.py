"""RabbitMQ's Java client: what programs in Java rely on (java/Checks.java)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from compat.applications import programs
from compat.suites import ROOT

HERE = Path(__file__).parent / "java"
JARS = Path("/usr/share/java")
CHECKS = (
    "a message is returned before it is confirmed", "a thousand confirms", "prefetch and redelivery in order", "rpc",
    "dead letters", "a consumer is told that its queue is gone", "errors close the channel only",
    "an unknown tag closes the channel", "transactions", "headers of all types",
    "recovery after the broker has closed the connection",
)  # fmt: skip


@pytest.fixture(scope="module")
def found(url: str) -> dict[str, str]:
    if not (JARS / "amqp-client.jar").exists():
        pytest.skip("librabbitmq-client-java is not installed")
    asked = subprocess.run([ROOT / "scripts" / "jdk.sh", "--no-install"], capture_output=True, text=True, check=False)
    if asked.returncode:
        pytest.skip(asked.stderr.strip())
    java = Path(asked.stdout.strip()) / "bin" / "java"
    if not java.with_name("javac").exists():
        pytest.skip("a JDK with a compiler is not installed")
    path = f"{JARS}/amqp-client.jar:{JARS}/slf4j-api.jar:{JARS}/slf4j-nop.jar"
    return programs.run([str(java), "-cp", path, "Checks.java", url], HERE)


@pytest.mark.parametrize("check", CHECKS)
def test_java(found: dict[str, str], check: str) -> None:
    programs.verdict(found, check)
