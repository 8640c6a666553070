"""Programs with clients of AMQP 1.0 that check something against a broker and tell what they saw in lines of JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.fetched_clients import ClientMissingError


def available(find: Callable[[], Path]) -> Path:
    """Return the place of a client; the test is skipped if the client is missing."""
    try:
        return find()
    except ClientMissingError as missing:
        pytest.skip(str(missing))


def declare_with_dead_letters(channel: BlockingChannel, name: str, **arguments: object) -> None:
    """Declare a queue, and the queue of its dead letters: its name and `-dead`."""
    channel.queue_declare(f"{name}-dead", arguments={"x-expires": 600_000})
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"{name}-dead"}
    channel.queue_declare(name, arguments={"x-expires": 600_000, **dead, **arguments})


def lines_of(words: list[str], folder: Path | None = None, timeout_s: float = 200) -> list[Any]:
    """Run a program of checks, which has to succeed, and return what it has told."""
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
