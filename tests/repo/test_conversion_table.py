"""docs/amqp10.md shows what crosses between protocols as the broker does it."""

from __future__ import annotations

from tests.support.conversion_table import COMMAND, FILE, generated


def test_table_of_conversions_agrees_with_the_broker() -> None:
    assert FILE.read_text() == generated(), f"look at the difference, then rewrite it: {COMMAND}"
