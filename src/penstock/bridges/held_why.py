"""Why a target holds a bridge, in the words of the target's own broker.

The question goes over a connection of its own: a broker may read nothing from a connection whose publishes wait. It is
opened for the first question, and closed when messages move again. A user without the tag management hears at least
which gates hold the bridge's own connection. Other brokers than Penstock are not asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from penstock.client.aio import Connection
from penstock.client.errors import ClientError, ControlError
from penstock.client.options import Options
from penstock.errors import PenstockError

ANSWER_S: Final = 2.0
"""Most seconds for an answer, and for the connection to it."""
ASK_S: Final = 2.0
"""Seconds between two questions."""
SENTENCES_MOST: Final = 5
"""Most sentences of one answer."""

Connecting = Callable[[Options], Connection]
"""Function that makes a connection, which is not open."""


class HeldWhy:
    """Questions of one bridge about its target."""

    def __init__(self, options: Options, queue: str, connecting: Connecting = Connection) -> None:
        """`queue` is the target's queue; empty for an exchange."""
        self._options = options
        self._queue = queue
        self._connecting = connecting
        self._connection: Connection | None = None
        self.sentences: list[str] = []
        """Sentences of the last answer; none if messages move, or there was no answer."""
        self._asking: asyncio.Task[None] | None = None
        self._next_at = 0.0
        """Time from which on the next question may be asked."""

    def ask_beside(self, now: float) -> None:
        """Ask beside other work, unless a question is under way or was asked a moment ago."""
        if now >= self._next_at and (self._asking is None or self._asking.done()):
            self._next_at = now + ASK_S
            self._asking = asyncio.ensure_future(self.ask(str(self._options["name"])))

    async def ask(self, name: str) -> None:
        """Ask why the bridge is held; `name` is that of the connection over which it publishes."""
        try:
            async with asyncio.timeout(ANSWER_S):
                connection = await self._opened()
                self.sentences = await self._answer(connection, name)
        except (PenstockError, OSError, TimeoutError):
            await self._close()

    async def close(self) -> None:
        """End a question under way, close the connection, and forget the last answer."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._close()

    async def _close(self) -> None:
        connection, self._connection = self._connection, None
        self.sentences = []
        if connection is not None:
            with suppress(PenstockError, OSError):
                await connection.close(0)

    async def _opened(self) -> Connection:
        if self._connection is None:
            connection = self._connecting(self._options)
            await connection
            self._connection = connection
        if not self._connection.core().is_penstock():
            raise ClientError("only Penstock says why")
        return self._connection

    async def _answer(self, connection: Connection, name: str) -> list[str]:
        if self._queue:
            try:
                found = await connection.request("why", queue=self._queue)
                return _sentences(found.get("sentences"))
            except ControlError:  # The user may not ask, or the queue is gone.
                pass
        if not name:
            return []
        fields = {"application": "bridge", "task": name[:64], "cores": 0, "queue": self._queue, "connection": name}
        found = await connection.request("sink.waiting", **fields)
        state = found.get("connection")
        return _sentences(state.get("waits")) if isinstance(state, dict) else []


def _sentences(found: Any) -> list[str]:
    return [str(each) for each in found][:SENTENCES_MOST] if isinstance(found, list) else []
