"""Ready line, and the wait for the first of two tasks, which a broker and a node have in common."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cli.serving import first, say_ready
from penstock.errors import StartError


async def fail() -> None:
    raise StartError("no port")


async def test_first_task_ends_the_other() -> None:
    ended = asyncio.Event()

    async def last() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    assert await first(asyncio.sleep(0), last())
    assert ended.is_set()
    assert not await first(last(), asyncio.sleep(0))


async def test_error_of_the_first_task_is_raised() -> None:
    with pytest.raises(StartError, match="no port"):
        await first(fail(), asyncio.Event().wait())


def test_ready_line_names_addresses_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    say_ready([("amqp", "127.0.0.1", 5672), ("amqps", "::1", 5671)], "in memory", "its port is in use")
    said = capsys.readouterr()
    assert said.out == "ready amqp://127.0.0.1:5672 amqps://[::1]:5671 (in memory)\n"
    assert said.err == "no console: its port is in use; `--http 127.0.0.1:0` takes a free port\n"
