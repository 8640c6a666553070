"""Tables: every column for programs, and on a terminal the first columns that fit."""

from __future__ import annotations

import json

import pytest

from penstock.cli.cells import width
from penstock.cli.tables import COLUMN_COLOURS, WIDE_HINT, Layout, fitting, left_out_line, table
from tests.support.brokers import BrokerProcess, some_name
from tests.support.commands import run, told
from tests.support.terminals import Terminal, in_terminal

HEADS = ("name", "state", "fill", "messages", "policy")


def shown(terminal: Terminal) -> list[str]:
    return [line.rstrip() for line in terminal.screen.display if line.strip()]


@pytest.mark.parametrize(
    ("widths", "columns", "found"),
    [
        ([10, 5, 4], 80, Layout([10, 5, 4])),
        ([100, 5, 20], 80, Layout([51, 5, 20])),
        ([100, 90], 80, Layout([39, 39])),
        ([60, 12, 9], 20, Layout([9, 9], ("fill",))),
        ([10, 10, 10, 10, 50], 80, Layout([10, 10, 10, 10, 32])),
        ([10, 10, 10, 10, 50], 40, Layout([10, 10, 10], ("messages", "policy"))),
        ([50], 10, Layout([10])),
    ],
)
def test_columns_that_fit_are_shown_from_the_left(widths: list[int], columns: int, found: Layout) -> None:
    assert fitting(HEADS[: len(widths)], widths, columns) == found


@pytest.mark.parametrize("columns", range(8, 200, 7))
def test_table_of_any_terminal_is_no_wider_than_it(columns: int) -> None:
    for widths in ([60, 40, 5, 8, 9, 9, 20], [8, 3, 3], [200, 1], [5] * 12):
        layout = fitting([str(number) for number in range(len(widths))], widths, columns)
        assert sum(layout.widths) + 2 * (len(layout.widths) - 1) <= columns
        assert all(found <= whole for found, whole in zip(layout.widths, widths, strict=False))


@pytest.mark.parametrize(
    ("names", "columns", "line"),
    [
        (("policy",), 80, "1 column left out: policy; --wide shows all"),
        (("in/s", "out/s"), 80, "2 columns left out: in/s, out/s; --wide shows all"),
        (("messages", "policy", "arguments"), 60, "3 columns left out: messages and 2 more; --wide shows all"),
        (("messages", "policy"), 40, "2 columns left out; --wide shows all"),
    ],
)
def test_left_out_columns_are_named_in_one_line(names: tuple[str, ...], columns: int, line: str) -> None:
    assert left_out_line(names, WIDE_HINT, columns) == line
    assert len(line) <= columns


@pytest.mark.parametrize(
    ("column", "text", "found"),
    [("gate", "closed", "alarm"), ("gate", "open", "good"), ("blocked", "0", None), ("blocked", "2", "alarm"),
     ("fill", "79.9 %", None), ("fill", "80 %", "warning"), ("fill", "100 %", "alarm"), ("fill", "-", None),
     ("state", "running", None), ("state", "blocked", "alarm"), ("state", "closed 18 s · 1 waiting", "alarm"),
     ("state", "1 waiting", "alarm"), ("state", "held by the operator 3 min", "alarm"), ("state", "open", "good"),
     ("state", "no consumer", "warning"), ("state", "closes in 33 s", None)],
)  # fmt: skip
def test_value_has_the_style_of_its_column(column: str, text: str, found: str | None) -> None:
    assert COLUMN_COLOURS[column](text) == found


def test_table_of_wide_characters_has_straight_columns(capsys: pytest.CaptureFixture[str]) -> None:
    table(("name", "n"), [("注文", "1"), ("e\u0301", "2"), ("orders", "3")])
    lines = capsys.readouterr().out.splitlines()
    assert [width(line[: line.index(digit)]) for line, digit in zip(lines[1:], "123", strict=True)] == [8, 8, 8]


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


@pytest.mark.parametrize(("columns", "heads"), [(80, ["name", "state", "fill", "messages"]), (40, ["name", "state"])])
def test_list_leaves_columns_out_from_the_right_of_a_terminal(
    own_broker: BrokerProcess, columns: int, heads: list[str]
) -> None:
    for name in ("x" * 60, "注文" * 15, "orders"):
        run(own_broker, "queues", "declare", name, "capacity-messages=100")
    words = ("queues", "list", "--url", own_broker.url)
    with in_terminal(*words, columns=columns, NO_COLOR="1") as terminal:
        assert terminal.ended() == 0
        lines = shown(terminal)
    assert lines[0].split()[: len(heads)] == heads
    assert len(lines) == 5, "no line is wrapped"
    assert "columns left out" in lines[-1]
    assert lines[-1].endswith("; --wide shows all")
    every = run(own_broker, "queues", "list").splitlines()
    assert every[0].split("  ")[0].strip() == "name"
    assert every[0].endswith("arguments"), "a program gets all columns"
    with in_terminal(*words, "--wide", columns=columns, TERM="dumb") as terminal:
        assert terminal.ended() == 0
        assert b"\x1b" not in terminal.octets
        assert b"arguments" in terminal.octets
        assert b"left out" not in terminal.octets


def test_list_has_the_state_of_a_queue_in_words(own_broker: BrokerProcess) -> None:
    held, unread = some_name("held"), some_name("unread")
    for name in (unread, held):
        run(own_broker, "queues", "declare", name)
    run(own_broker, "queues", "publish", unread, "x")
    run(own_broker, "queues", "block", held, "--reason", "upgrade")
    listed = ("queues", "list", "--columns", "name,state,penstock.state.group", "--sort", "state")
    lines = run(own_broker, *listed).splitlines()[1:]
    assert lines[0].split()[0] == held, "by its urgency, not by the letters of the words"
    assert "held by the operator" in lines[0]
    assert lines[1].split() == [unread, "no", "consumer", "unread"]
    found = told(own_broker, "queues", "list", "--filter", "state~operator", "--columns", "name,state")
    assert found["name"] == held
    assert json.dumps(found["state"]).startswith('"held by the operator')
