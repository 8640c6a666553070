"""Errors, output and help that all commands share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.common import control_session, wrapped
from penstock.errors import PenstockError
from tests.support.brokers import PATIENCE, BrokerProcess, penstock_command
from tests.support.commands import run
from tests.support.terminals import in_terminal


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("declare", "queue", "q", "capacity-bytes"), "'capacity-bytes' is not NAME=VALUE"),
        (("declare", "queue", "q", "a=1", "a=2"), "'a' is given twice: give it once"),
        (("declare", "queue", "q", "capacity-bites=1"), "did you mean capacity-bytes?"),
        (("declare", "exchange", "e", "--type", "odd"), "unknown exchange type 'odd'; known are direct, fanout, topic"),
        (("declare", "exchange", "e", "--type", "topics"), "unknown exchange type 'topics'; did you mean 'topic'?"),
        (("bind", "no-such-exchange", "q"), "404"),
        (("consume", "no-such-queue"), "404"),
    ],
)
def test_invalid_command_line_is_refused_in_one_sentence(
    broker: BrokerProcess, words: tuple[str, ...], says: str
) -> None:
    refused = run(broker, *words, code=1)
    assert says in refused
    assert refused.startswith("penstock: ")
    assert len(refused.splitlines()) == 1


@pytest.mark.parametrize(
    "words",
    [("list", "exchanges"), ("list", "exchanges", "--json"), ("status",), ("status", "--json"), ("why",), ("settings",),
     ("show", "broker"), ("definitions", "export"), ("get", "QUEUE"), ("get", "QUEUE", "--json")],
    ids=" ".join,
)  # fmt: skip
def test_full_output_is_one_sentence_and_closed_output_is_silent(
    broker: BrokerProcess, name: str, words: tuple[str, ...]
) -> None:
    run(broker, "declare", "queue", name)
    run(broker, "publish", name, "x")
    given = [name if word == "QUEUE" else word for word in words]
    command = [sys.executable, "-m", "penstock", *given, "--url", broker.url]
    assert into_full_device(command) == (1, "penstock: cannot write the output: No space left on device\n")
    reading, closed = os.pipe()
    os.close(reading)
    with os.fdopen(closed, "w") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (1, ""), "a reader such as head wants no more"
    assert broker.depth(name) == 1, "what could not be printed is in the queue still"


@pytest.mark.parametrize(
    "words",
    [("--help",), ("list", "--help"), ("--version",),
     ("serve", "--listen", "127.0.0.1:0", "--memory", "--quiet")],
    ids=" ".join,
)  # fmt: skip
def test_help_and_the_line_that_says_ready_need_an_output_as_well(words: tuple[str, ...]) -> None:
    done = into_full_device([sys.executable, "-m", "penstock", *words])
    assert done == (1, "penstock: cannot write the output: No space left on device\n")


def into_full_device(command: list[str]) -> tuple[int, str]:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    return done.returncode, done.stderr


def test_invalid_url_is_refused_in_one_sentence() -> None:
    done = penstock_command("list", "queues", "--url", "http://127.0.0.1")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "penstock: --url: a broker's URL starts with amqp:// or amqps://, not with http://\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three", ["one two three"]),
        ("one two three four five", ["one two three four", "  five"]),
        ("exactly twenty chars", ["exactly twenty chars"]),
        ("amqp://127.0.0.1:5672/a-long-host is there", ["amqp://127.0.0.1:5672/a-long-host", "  is there"]),
        ("no-space-anywhere-in-this-word", ["no-space-anywhere-in-this-word"]),
        ("  indented text is kept so", ["  indented text is", "  kept so"]),
        ("first\nsecond line that is long", ["first", "second line that is", "  long"]),
        ("", [""]),
    ],
)
def test_wrapped_sentence_has_lines_of_its_terminal(text: str, lines: list[str]) -> None:
    found = wrapped(text, 20)
    assert found.split("\n") == lines
    assert found.split() == text.split(), "no word is lost"


def test_wrapped_sentence_of_a_tiny_terminal_is_one_line() -> None:
    assert wrapped("one two three four five", 5) == "one two three four five"


def test_connection_that_breaks_after_an_interrupt_is_no_error(broker: BrokerProcess) -> None:
    def broken() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise PenstockError("the rest of a frame is missing")

    with pytest.raises(KeyboardInterrupt), control_session(broker.url):
        broken()
    with pytest.raises(PenstockError), control_session(broker.url) as connection:
        connection.request("list", kind="nonsense")


def test_sentence_is_wrapped_in_a_terminal_alone(broker: BrokerProcess, name: str) -> None:
    words = ("queues", "declare", name, "capacity-messages=20")
    sentence = run(broker, *words).rstrip()
    assert len(sentence) > 60
    assert "\n" not in sentence
    with in_terminal(*words, "--url", broker.url, columns=60, lines=24) as terminal:
        assert terminal.ended() == 0
        lines = [line.rstrip() for line in terminal.screen.display if line.strip()]
    assert "\n".join(lines) == wrapped(sentence, 60)
