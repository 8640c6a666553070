"""Carrier of a bridge that carries exactly once where both ends can, and at least once elsewhere.

The choice is made at each attempt, with connections of its own: a queue may have got consumers or another type since.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from penstock.bridges.block_carrier import BlockCarrier, Known, block_obstacle
from penstock.bridges.carrier import CLOSE_S, Carrier, EndLost, Terms
from penstock.bridges.ends import End
from penstock.bridges.state import State
from penstock.client.aio import Connection
from penstock.client.errors import ClientError
from penstock.client.options import Options
from penstock.errors import PenstockError

EXACTLY_ONCE: Final = "exactly once"
AT_LEAST_ONCE: Final = "at least once"


class AutoCarrier:
    """Carrier by blocks, or by messages."""

    def __init__(
        self,
        source: End,
        target: End,
        by_messages: tuple[Options, Options],
        by_blocks: tuple[Options, Options],
        terms: Terms,
        name: str,
        state: State,
        known: Known,
    ) -> None:
        """The options are those of the connections to both ends, of a carrier of either kind."""
        self._ends = source, target
        self._by_messages = by_messages
        self._by_blocks = by_blocks
        self._terms = terms
        self._name = name
        self._known = known
        self._carrier: Carrier | BlockCarrier | None = None
        self._is_stopping = False
        self.state = state
        self.obstacle = ""
        """Why it carries at least once, as a sentence; empty otherwise."""

    @property
    def lag(self) -> int | None:
        """Return the messages in the source; None if unknown."""
        return None if self._carrier is None else self._carrier.lag

    @property
    def why(self) -> list[str]:
        """Return what the target says of its gates, while it holds."""
        return self._carrier.why if isinstance(self._carrier, BlockCarrier) else []

    @property
    def delivery(self) -> str:
        """Return how it carries."""
        return AT_LEAST_ONCE if isinstance(self._carrier, Carrier) else EXACTLY_ONCE

    def stop(self) -> None:
        """End in order."""
        self._is_stopping = True
        if self._carrier is not None:
            self._carrier.stop()

    async def run(self) -> State:
        """Choose, and carry until the end. Raises `PenstockError` as the chosen carrier does."""
        source, target = self._ends
        self.obstacle = await self._find_obstacle()
        if self.obstacle:
            self._carrier = Carrier(source, target, *self._by_messages, self._terms, self.state)
        else:
            old, new = self._by_blocks
            self._carrier = BlockCarrier(source, target, old, new, self._terms, self._name, self.state, self._known)
        if self._is_stopping:
            return self.state
        return await self._carrier.run()

    async def _find_obstacle(self) -> str:
        """Return why it cannot carry exactly once. Raises `EndLost` for an end that cannot be reached."""
        opened: list[Connection] = []
        try:
            for noun, options in zip(("the source", "the target"), self._by_blocks, strict=True):
                connection = Connection(options)
                try:
                    await connection
                except ClientError as error:
                    raise EndLost(f"{noun} cannot be reached: {error}") from error
                opened.append(connection)
            return await block_obstacle(opened[0], opened[1], self._ends[0], self._terms, self._name)
        except EndLost:
            raise
        except ClientError as error:  # The carrier by messages says what is wrong, if something is.
            return str(error)
        finally:
            for connection in opened:
                with suppress(PenstockError):
                    await connection.close(CLOSE_S)
