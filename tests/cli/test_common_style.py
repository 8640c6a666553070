"""Colours: on a terminal, and nowhere else."""

from __future__ import annotations

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


def test_error_has_its_name_in_colour() -> None:
    with in_terminal("status", "--url", "http://x") as terminal:
        assert terminal.ended() == 1
        assert b"\x1b[31m\x1b[1mpenstock:\x1b[0m --url: a broker's URL" in terminal.octets
