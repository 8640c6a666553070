"""Colours: on a terminal, and nowhere else."""

from __future__ import annotations

import pytest

from penstock.cli import common
from tests.support.brokers import BrokerProcess
from tests.support.commands import run
from tests.support.terminals import in_terminal


def test_output_has_colours_on_a_terminal_only(broker: BrokerProcess, name: str) -> None:
    run(broker, "declare", "queue", name)
    words = ("list", "queues", "--filter", f"name={name}", "--url", broker.url)
    assert "\x1b" not in run(broker, "list", "queues")
    with in_terminal(*words, columns=200) as terminal:
        assert terminal.ended() == 0
        assert b"\x1b[1mname\x1b[0m" in terminal.octets
        assert b"\x1b[32mopen\x1b[0m" in terminal.octets
        assert name in terminal.text()
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        with in_terminal(*words, columns=200, **environment) as terminal:
            assert terminal.ended() == 0
            assert b"\x1b" not in terminal.octets


def test_long_cells_are_cut_in_a_narrow_terminal(broker: BrokerProcess, name: str) -> None:
    long = f"{name} {'x' * 200}"
    run(broker, "declare", "queue", long)
    words = ("list", "queues", "--columns", "name,messages,gate", "--filter", f"name={long}", "--url", broker.url)
    with in_terminal(*words, columns=80) as terminal:
        assert terminal.ended() == 0
        line = terminal.line("…")
        assert line.startswith(name)
        assert line.rstrip().endswith("open")
    assert f"\n{long}  0" in run(broker, *words[:-2])


@pytest.mark.parametrize(
    ("widths", "columns", "found"),
    [
        ([10, 5], 80, [10, 5]),
        ([100, 5, 20], 80, [51, 5, 20]),
        ([100, 90], 80, [39, 39]),
        ([60, 12, 9], 20, [12, 12, 9]),
    ],
)
def test_widest_columns_get_narrower_first(widths: list[int], columns: int, found: list[int]) -> None:
    assert common.fitting(widths, columns) == found


def test_error_has_its_name_in_colour() -> None:
    with in_terminal("status", "--url", "http://x") as terminal:
        assert terminal.ended() == 1
        assert b"\x1b[31m\x1b[1mpenstock:\x1b[0m --url: a broker's URL" in terminal.octets


@pytest.mark.parametrize(
    ("column", "text", "found"),
    [("gate", "closed", "alarm"), ("gate", "open", "good"), ("blocked", "0", None), ("blocked", "2", "alarm"),
     ("fill", "79.9 %", None), ("fill", "80 %", "warning"), ("fill", "100 %", "alarm"), ("fill", "-", None),
     ("state", "running", None), ("state", "blocked", "alarm")],
)  # fmt: skip
def test_value_has_the_style_of_its_column(column: str, text: str, found: str | None) -> None:
    assert common.COLUMN_COLOURS[column](text) == found
