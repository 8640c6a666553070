"""One object on one screen of 80 columns and 24 lines: a label a line, and what is left out is counted."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from typing import Any

import pytest

from penstock.operations.command_info import INFOS, LINES_MOST
from penstock.sync import connect
from tests.support.brokers import PATIENCE, BrokerProcess
from tests.support.commands import run, told
from tests.support.shared_brokers import broker

__all__ = ["broker"]
COLUMNS, LINES = 80, 24


def lines_of(noun: str, answer: dict[str, Any]) -> list[str]:
    (row,) = [each for each in INFOS if each.path == f"{noun} info"]
    assert callable(row.says)
    return list(row.says({}, answer))


def labels(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines if not line.startswith(" ")]


def queue_answer(**more: Any) -> dict[str, Any]:
    own = {
        "road": {"open": True, "held_by": None, "blocked": 0, "closed_for_s": None},
        "fill_percent": None, "capacity": {"messages": None, "bytes": None}, "overflow": "block",
        "depth": {"messages": 0, "bytes": 0}, "oldest_s": None, "rates": {"publish": 0.0, "deliver_get": 0.0},
        "dropped": 0, "expired": 3, "refused": 0, "dead_lettered": 0,
    }  # fmt: skip
    row = {
        "type": "quorum", "durable": True, "auto_delete": True, "exclusive": False, "policy": "short", "messages": 0,
        "messages_ready": 0, "messages_unacknowledged": 0, "messages_paged_out": 7, "penstock": own,
    }  # fmt: skip
    lists = {"consumers": [], "senders": [], "blocked": [], "bindings": []}
    counts = {f"more_{name}": 0 for name in lists}
    return {
        "name": "q",
        "vhost": "/",
        "row": row,
        "sentences": ["nothing waits"],
        "settings": [],
        **lists,
        **counts,
        **more,
    }


def test_queue_without_anything_says_so() -> None:
    lines = lines_of("queues", queue_answer())
    assert lines[0] == "queue q in virtual host /: quorum, durable, auto-delete, policy short"
    assert labels(lines[1:]) == ["gate", "depth", "oldest", "rates", "why", "settings", "consumers", "bindings"]
    assert "depth       0 messages: 0 ready, 0 unacknowledged, 7 on the disk; 0 B" in lines
    assert "rates       in 0.0/s, out 0.0/s, 3 expired" in lines
    assert "settings    all by default; `penstock queues show q` shows these" in lines


def test_long_lists_of_a_queue_are_cut_and_counted() -> None:
    senders = [f"link{number}" for number in range(10)]
    lines = lines_of("queues", queue_answer(senders=senders, more_senders=90, blocked=[{"producer": "link3"}]))
    at = next(number for number, line in enumerate(lines) if line.startswith("producers"))
    assert [line.strip() for line in lines[at : at + LINES_MOST + 1]] == [
        *("producers   link3 (blocked)", "link0", "link1", "link2", "and 96 more"),
    ]


def test_settings_are_shown_with_their_sources_and_defaults_are_not() -> None:
    settings = [
        {"setting": "hold-deadline", "value": 5000, "unit": "ms", "origin": "pattern", "from": "pattern 'q'"},
        {"setting": "capacity-bytes", "value": 1 << 20, "unit": "bytes", "origin": "default", "from": "default"},
    ]
    lines = lines_of("queues", queue_answer(settings=settings))
    assert [line for line in lines if "hold-deadline" in line] == ["settings    hold-deadline 5 s (pattern 'q')"]
    assert not any("capacity-bytes" in line for line in lines)


def on_a_terminal(broker: BrokerProcess, *words: str) -> list[str]:
    """Run a command on a terminal; return its lines."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "penstock", *words, "--url", broker.url]
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": str(LINES), "NO_COLOR": "1", "TERM": "dumb"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=theirs, env=environment) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # The terminal is closed.
                break
            if not part:
                break
            written += part
        assert process.wait(PATIENCE) == 0, written
    os.close(ours)
    return written.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("noun", ["queues", "exchanges", "connections", "users"])
def test_ordinary_object_fits_on_a_screen(broker: BrokerProcess, noun: str) -> None:
    with connect(broker.url, name=f"info-of-{noun}") as connection:
        queue = connection.declare_queue(f"info-{noun}", capacity_messages=1000, hold_deadline=30)
        connection.declare_exchange(f"info-{noun}", "topic", alternate_exchange="amq.fanout")
        for key in ("eu.de", "eu.fr", "us.#"):
            connection.bind(queue, f"info-{noun}", key)
        connection.publisher(routing_key=queue).send_many([b"x"] * 20)
        receivers = [connection.receiver(queue, prefetch=3) for _ in range(2)]
        for receiver in receivers:
            assert receiver.receive(PATIENCE) is not None
        name = {"connections": f"info-of-{noun}", "users": "guest"}.get(noun, f"info-{noun}")
        lines = on_a_terminal(broker, noun, "info", name)
        answer = told(broker, noun, "info", name)
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    assert re.match(r"(queue|exchange|connection|user) ", lines[0])
    assert answer["kind"] == noun.removesuffix("s")
    said = run(broker, noun, "info", f"info-{noun}x", code=1)
    assert said.startswith("penstock: no ")
