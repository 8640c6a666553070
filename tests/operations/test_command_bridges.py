"""Sentences of the commands of bridges."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.operations.command_bridges import BRIDGES
from tests.support.access_of import access_of
from tests.support.operation_calls import ask

ROWS = {row.path.removeprefix("bridges "): row for row in BRIDGES}
DECLARED = {"name": "b", "source": "orders", "target": "amqp://u:s3cret@far?queue=c"}


def said(driver: BrokerDriver, verb: str, **given: Any) -> list[str]:
    """Return the sentences of a command."""
    row = ROWS[verb]
    answer = ask(driver, row.asks, given, None, "/", access_of(driver.broker))
    if isinstance(row.says, str):
        return [row.says.format(**given)]
    return [*row.says(given, answer)]


def test_life_of_a_bridge_is_told_in_sentences(driver: BrokerDriver) -> None:
    ends = "queue orders of this broker -> queue c of amqp://far/"
    assert said(driver, "declare", **DECLARED) == [f"bridge b is declared: {ends}"]
    assert said(driver, "declare", **DECLARED) == [f"bridge b is changed: {ends}"]
    assert said(driver, "restart", name="b") == ["bridge b is restarted"]
    assert said(driver, "pause", name="b") == ["bridge b is paused"]
    assert said(driver, "resume", name="b") == ["bridge b is resumed, with the rights of guest"]
    assert said(driver, "delete", name="b") == ["bridge b is deleted"]


def test_bridge_is_shown_on_one_screen(driver: BrokerDriver) -> None:
    said(driver, "declare", **DECLARED, prefetch=5)
    report = {
        "state": "held", "reason": "queue c is full", "carried": 1200, "bytes": 2048, "refused": 1, "again": 2,
        "lag": 3, "delivery": "at least once", "why": ["one", "two"],
    }  # fmt: skip
    driver.bridges.report("bridge:/:b", report, 1.0)
    assert said(driver, "show", name="b") == [
        "bridge b in virtual host /, with the rights of guest",
        "source      queue orders of this broker",
        "target      queue c of amqp://far/",
        "state       held: queue c is full",
        "moved       1,200 messages carried, 2.0 KiB, 1 refused, 2 redelivered; 3 in the source",
        "delivery    at least once",
        "why         one",
        "            two",
        'value       {"source": "amqp:///?queue=orders", "target": "amqp://u:s3cret@far?queue=c", "prefetch": 5}',
    ]


@pytest.mark.parametrize("row", BRIDGES, ids=lambda row: row.path)
def test_help_of_a_command_ends_with_an_example(row: Any) -> None:
    assert f"For example: penstock {row.path} " in " ".join(row.help.split())
