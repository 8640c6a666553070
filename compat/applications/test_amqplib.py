"""node's amqplib: confirms, `drain`, returns and what else programs for node rely on (node/checks.js)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compat.applications import programs

HERE = Path(__file__).parent / "node"
MODULES = Path(__file__).resolve().parents[2] / "tests" / "clients" / "node" / "node_modules"
CHECKS = (
    "confirms in order", "drain", "a message is returned", "a refused publish is an error", "get and acknowledge all",
    "reply-to and correlation", "headers and types", "prefetch", "nack and redelivery",
    "a queue is deleted under a consumer",
    "a missing queue closes the channel", "an unequal declaration closes the channel", "a large message", "recover",
)  # fmt: skip


@pytest.fixture(scope="module")
def found(url: str) -> dict[str, str]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not (MODULES / "amqplib").is_dir():
        pytest.skip("amqplib is not installed in tests/clients/node: npm was not found by `make setup`")
    return programs.run([node, "checks.js", url, str(MODULES / "amqplib")], HERE)


@pytest.mark.parametrize("check", CHECKS)
def test_amqplib(found: dict[str, str], check: str) -> None:
    programs.verdict(found, check)
