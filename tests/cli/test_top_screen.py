"""`penstock top` in a real pseudo-terminal, against a real broker."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.support.brokers import GRACE, BrokerProcess, eventually, serving
from tests.support.commands import run, started
from tests.support.terminals import Terminal, in_terminal

WIDE = "ж" * 100
"""Queue whose name is far wider than its column."""
SPARKLINES = re.compile(r"^ ?full .* 1  +[▁-█]*█  .* [▁-█]*█ *$", re.MULTILINE)
"""Histories of a queue that is full, behind its blocked producer, and whose gate was closed for a whole sample."""


def rows(terminal: Terminal) -> list[str]:
    """Return the names of the queues on the screen, from top to bottom."""
    lines = terminal.text().splitlines()
    heads = next((number for number, line in enumerate(lines) if line.split()[:2] == ["queue", "fill"]), len(lines))
    return [line.split()[0] for line in lines[heads + 1 : -1] if line[1:2].strip()]


@pytest.fixture
def busy(own_broker: BrokerProcess) -> BrokerProcess:
    """A broker with a queue that is full, one that is deeper, and one with an odd name."""
    run(own_broker, "declare", "queue", "deep", "capacity-messages=100")
    run(own_broker, "declare", "queue", "full", "capacity-messages=4", "hold-deadline=600")
    run(own_broker, "declare", "queue", WIDE, "capacity-messages=100")
    run(own_broker, "publish", "deep", *"abcdefgh")
    return own_broker


def test_screen_shows_blocked_queues_first_and_obeys_its_keys(busy: BrokerProcess) -> None:
    publisher = started(busy, "publish", "full", *"abcdef")
    eventually(lambda: "is blocked" in busy.why("full"), "its publisher is blocked, so the cursor begins there")
    with in_terminal("top", "--url", busy.url, "--interval", "1", columns=120, lines=24) as terminal:
        terminal.wait(lambda text: "queue full blocks 1 producer; start a consumer" in text, "the blocked gate")
        terminal.wait(lambda _: rows(terminal)[:2] == ["full", "deep"], "the blocked queue first")
        terminal.wait(lambda text: "vhost /: 3 queues (1 closed), 12 messages" in text, "the sums")
        terminal.wait(lambda text: re.search(r"full +█{10} 100 % +closed ", text), "the bar")
        terminal.wait(lambda text: "ж" * 35 + "…" in text, "a long name is cut")
        terminal.wait(lambda text: "q Quit" in text.splitlines()[-1], "the keys")
        terminal.press("o")
        terminal.wait(lambda text: "by fill" in text, "the next order")
        terminal.press("o")
        terminal.wait(lambda _: rows(terminal)[:2] == ["deep", "full"], "the deepest first")
        terminal.press("\r")  # The cursor has followed its queue to the second row.
        terminal.wait(lambda text: "queue full has no consumer" in text, "the answer of why")
        terminal.press("\x1b")
        terminal.wait(lambda text: "has no consumer" not in text, "it is closed")
        terminal.press("/")
        terminal.wait(lambda text: "names that begin with" in text, "the field")
        terminal.press("de\r")
        terminal.wait(lambda text: "names that begin with de" in text and rows(terminal) == ["deep"], "one queue")
        terminal.press("p")
        terminal.wait(lambda text: "paused" in text, "it stands still")
        terminal.resize(70, 12)
        terminal.wait(lambda text: "q Quit" in text.splitlines()[-1], "the smaller screen")
        terminal.press("q")
        assert terminal.ended() == 0
    publisher.kill()
    publisher.communicate()


@pytest.mark.slow
def test_wide_screen_and_printed_top_have_sparklines_of_depth_and_gate(busy: BrokerProcess) -> None:
    publisher = started(busy, "publish", "full", *"abcdef")
    eventually(lambda: "is blocked" in busy.why("full"), "its publisher is blocked")
    with in_terminal("top", "--url", busy.url, "--interval", "0.2", columns=210, lines=24) as terminal:
        terminal.wait(lambda text: re.search(r"blocked +depth \d min +messages .* closed \d min", text), "the heads")
        terminal.wait(lambda text: SPARKLINES.search(text), "it is full, and closed")
        with in_terminal("top", "--once", "--url", busy.url, columns=240) as printed:
            assert printed.ended() == 0
            assert SPARKLINES.search(printed.text())
        assert "depth" not in run(busy, "top"), "none where it does not print on a terminal"
        terminal.resize(80, 24)
        narrow = lambda text: "depth 1 min" in text and not re.search(r"closed \d min", text)  # noqa: E731
        terminal.wait(lambda text: narrow(text) and rows(terminal)[:1] == ["full"], "room for one of them")
        terminal.resize(210, 24)
        terminal.wait(lambda text: re.search(r"closed \d min", text) and rows(terminal)[:1] == ["full"], "room again")
        terminal.press("q")
        assert terminal.ended() == 0
    publisher.kill()
    publisher.communicate()


def test_screen_of_80_columns_shows_a_queue_that_the_operator_holds(busy: BrokerProcess) -> None:
    run(busy, "queues", "block", "deep", "--reason", "upgrade")
    with in_terminal("top", "--url", busy.url, "--interval", "0.2", columns=80, lines=24) as terminal:
        terminal.wait(lambda _: rows(terminal)[:1] == ["deep"], "the held queue first")
        line = terminal.line("held by the operator")
        assert re.match(r" deep +8 % +held by the operator +0 ", line)
        heads = terminal.line("blocked  depth").split()
        assert heads[:4] == ["queue", "fill", "gate", "blocked"]
        terminal.wait(lambda text: "a wider terminal has 8 more columns" in text, "the number of columns left out")
        terminal.press("q")
        assert terminal.ended() == 0


def test_top_of_a_dumb_terminal_is_printed_once_without_control_characters(busy: BrokerProcess) -> None:
    with in_terminal("top", "--url", busy.url, columns=80, TERM="dumb") as terminal:
        assert terminal.ended() == 0
        assert b"\x1b" not in terminal.octets
        assert "columns left out: " in terminal.text()


def test_screen_reports_a_lost_broker_and_goes_on_when_the_broker_is_back(tmp_path: Path) -> None:
    with serving(tmp_path, "--data", str(tmp_path / "data")) as broker:
        run(broker, "declare", "queue", "kept", "--durable")
        with in_terminal("top", "--url", broker.url, "--interval", "0.2") as terminal:
            terminal.wait(lambda _: rows(terminal) == ["kept"], "the queue")
            port = broker.port
            assert broker.stop() == 0
            terminal.wait(lambda text: "no answer, asking again: " in text, "the loss")
            terminal.wait(lambda _: rows(terminal) == ["kept"], "the last picture stays")
            with serving(tmp_path, "--data", str(tmp_path / "data"), listen=(f"127.0.0.1:{port}",)) as again:
                terminal.wait(lambda text: "no answer" not in text, "the broker is back")
                run(again, "declare", "queue", "new")
                terminal.wait(lambda _: rows(terminal) == ["kept", "new"], "what is new there")
                terminal.press("\x03")
                assert terminal.ended() == 130


def test_screen_ends_when_its_terminal_has_gone_without_a_signal(busy: BrokerProcess) -> None:
    with in_terminal("top", "--url", busy.url, "--interval", "0.1", controlling=False) as terminal:
        terminal.wait(lambda _: "deep" in rows(terminal), "the queues")
        terminal.close()
        assert terminal.process.wait(GRACE) == 1


def test_top_without_textual_names_the_package_to_install(broker: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "textual").mkdir()
    (tmp_path / "textual" / "__init__.py").write_text("raise ImportError('gone', name='textual')")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with in_terminal("top", "--url", broker.url, columns=200, PYTHONPATH=paths) as terminal:
        assert terminal.ended() == 1
        assert "needs the package textual: pip install 'penstock[terminal]'; `penstock top --once`" in terminal.text()
    with in_terminal("top", "--once", "--url", broker.url, columns=200, PYTHONPATH=paths) as terminal:
        assert terminal.ended() == 0
        assert "no producer is blocked" in terminal.text()
