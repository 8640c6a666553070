"""Progress on standard error: on a terminal, with the option elsewhere, and otherwise none."""

from __future__ import annotations

import os

import pytest

from penstock.cli import progress
from penstock.cli.cells import width
from penstock.cli.progress import Progress


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(progress, "time", found)
    return found


def terminal(monkeypatch: pytest.MonkeyPatch, err: bool, out: bool = False) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: err)
    monkeypatch.setattr("sys.stdout.isatty", lambda: out)


def test_progress_is_a_line_a_second(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(monkeypatch, err=False)
    shown = Progress(wanted=True)
    for number in range(11):
        shown.tell(f"{number} printed")
        clock.now += 0.25
    shown.end()
    assert capsys.readouterr().err == "penstock: 4 printed\npenstock: 8 printed\n"


def test_progress_on_a_terminal_replaces_its_line(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(monkeypatch, err=True)
    shown = Progress(wanted=False)
    shown.show("1 printed")
    shown.show("2 printed")
    shown.end()
    shown.end()
    assert capsys.readouterr().err == "\r1 printed\r2 printed\n"


def test_progress_line_of_a_terminal_is_cut_and_leaves_nothing_of_a_longer_one(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal(monkeypatch, err=True)
    monkeypatch.setattr("os.get_terminal_size", lambda descriptor: os.terminal_size((20, 24)))
    monkeypatch.setattr("sys.stderr.fileno", lambda: 2)
    shown = Progress(wanted=False)
    shown.show("12,000 published, 11,000 confirmed")
    shown.show("注文 is full")
    shown.show("done")
    shown.end()
    lines = capsys.readouterr().err.rstrip("\n").split("\r")[1:]
    assert lines == ["12,000 published, …", "注文 is full       ", "done        "]
    assert all(width(line) < 20 for line in lines), "a line that is full begins the next one"


@pytest.mark.parametrize(("err", "out"), [(False, False), (True, True)])
def test_progress_is_not_shown_in_files_and_between_messages(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], err: bool, out: bool
) -> None:
    terminal(monkeypatch, err, out)
    shown = Progress(wanted=False, mixed=True)
    clock.now += 5
    shown.tell("1 printed")
    shown.end()
    assert capsys.readouterr().err == ""
