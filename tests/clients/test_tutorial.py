"""The tutorial works command by command; its part with Spark is in tests/spark/test_tutorial.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.walkthrough import Step, Walkthrough, shows, steps

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "first-hour.md").read_text()


@pytest.mark.slow
def test_first_hour_works_command_by_command(own_broker: BrokerProcess, tmp_path: Path) -> None:
    before_spark = steps(PAGE.partition("## A Spark query as the brake")[0])
    assert len(before_spark) > 10
    reader = Walkthrough(own_broker, tmp_path)
    try:
        for step in before_spark:
            reader.take(step)
        reader.end()
    finally:
        reader.kill()


def test_tutorial_blocks_are_all_run_except_the_installation() -> None:
    assert PAGE.count("\n```\n") == 1 + len(steps(PAGE)) + 1
    assert {step.title for step in steps(PAGE) if step.kind == "console"} == {
        "Terminal 1", "Terminal 2", "Terminal 3", "Spark",
    }  # fmt: skip


def test_tutorial_output_is_compared_without_times_bytes_and_connection_names() -> None:
    assert shows(["order 1", "order 2", "done"], ["order 1", "...", "done"])
    assert shows(["a", "b", "c"], ["b", "c"])
    assert shows(["con:4(guest@127.0.0.1:4/)/ch:1 for 1.0 s"], ["con:12(guest@127.0.0.1:40312/)/ch:1 for 12.5 s"])
    assert not shows(["order 1", "order 3"], ["order 1", "order 2"])
    assert not shows(["a", "x", "b"], ["a", "b"])
    assert not shows(["ab"], ["a"])


def test_commands_of_a_block_have_their_output() -> None:
    block = Step("console", "Terminal 3", "$ penstock why\nno producer is blocked\n$ penstock queues list\n")
    assert list(block.commands()) == [("penstock why", ["no producer is blocked"]), ("penstock queues list", [])]
    assert list(Step("console", "Terminal 2", "order 1\n").commands()) == [("", ["order 1"])]
