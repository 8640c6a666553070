"""Choice between the two carriers of a bridge: by blocks, exactly once, or by messages, at least once.

The first attempt asks both ends, over connections of its own, whether a carrier by blocks could work, and the answer
stays as long as the definition does: a bridge that changed its carrier in between could carry messages twice.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from typing import Final

from penstock.bridges.block_carrier import BlockCarrier, Known, block_obstacle
from penstock.bridges.carrier import CLOSE_S, NOUNS, Carrier, EndLost, Terms
from penstock.bridges.ends import End
from penstock.bridges.state import State
from penstock.client.aio import Connection
from penstock.client.errors import ClientError, ConnectError, WrongProtocol
from penstock.client.options import Options
from penstock.errors import ConfigError, PenstockError

AUTO: Final = "auto"
EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
Pair = tuple[Options, Options]
"""Options of the connections to the source and the target."""


class Choice:
    """Delivery that a definition wants, and the one that the ends can."""

    def __init__(self, wanted: str, name: str, by_messages: Pair, by_blocks: Pair) -> None:
        """`name` is that of the bridge in the names of its cursor and its query."""
        self.wanted = wanted
        self.name = name
        self.by_messages = by_messages
        self.by_blocks = by_blocks
        self.found = wanted if wanted == AT_LEAST_ONCE else ""
        """EXACTLY_ONCE or AT_LEAST_ONCE; empty until the ends were asked."""
        self.known = Known()
        """Knowledge of the carriers by blocks about the target."""

    @property
    def delivery(self) -> str:
        """Return the delivery in words."""
        return (self.found or AT_LEAST_ONCE).replace("-", " ")

    async def find(self, source: End, terms: Terms) -> None:
        """Ask the ends, once. Raises `EndLost`, and `ConfigError` if exactly once is wanted and cannot be."""
        if self.found:
            return
        async with AsyncExitStack() as stack:
            try:
                new = await _opened(1, self.by_blocks[1], stack)
                old = await _opened(0, self.by_blocks[0], stack)
            except _Foreign as error:
                obstacle = str(error)
            else:
                obstacle = await block_obstacle(old, new, source, terms, self.name)
        if obstacle and self.wanted == EXACTLY_ONCE:
            raise ConfigError(f"delivery=exactly-once is impossible: {obstacle}")
        self.found = AT_LEAST_ONCE if obstacle else EXACTLY_ONCE


class ChosenCarrier:
    """Carrier of a bridge, which is made once its kind is known."""

    def __init__(self, choice: Choice, source: End, target: End, terms: Terms, state: State) -> None:
        self.state = state
        self._choice = choice
        self._ends = source, target
        self._terms = terms
        self._carrier: Carrier | BlockCarrier | None = None
        self._is_stopping = False

    @property
    def lag(self) -> int | None:
        """Return the messages in the source; None if unknown."""
        return None if self._carrier is None else self._carrier.lag

    @property
    def why(self) -> list[str]:
        """Return what the target says of its gates, while it holds."""
        return [] if self._carrier is None else self._carrier.why

    def stop(self) -> None:
        """End in order."""
        self._is_stopping = True
        if self._carrier is not None:
            self._carrier.stop()

    async def run(self) -> State:
        """Carry until the end. Raises as the carriers do, and as `Choice.find`."""
        source, target = self._ends
        await self._choice.find(source, self._terms)
        if self._is_stopping:
            return self.state
        if self._choice.found == EXACTLY_ONCE:
            name, known = self._choice.name, self._choice.known
            self._carrier = BlockCarrier(source, target, *self._choice.by_blocks, self._terms, name, self.state, known)
        else:
            self._carrier = Carrier(source, target, *self._choice.by_messages, self._terms, self.state)
        return await self._carrier.run()


class _Foreign(ClientError):
    """An end that does not speak AMQP 0-9-1."""


async def _opened(index: int, options: Options, stack: AsyncExitStack) -> Connection:
    connection = Connection(options)

    async def close() -> None:
        with suppress(PenstockError):
            await connection.close(CLOSE_S)

    try:
        await connection
    except WrongProtocol as error:
        raise _Foreign(f"{NOUNS[index]} does not speak AMQP 0-9-1") from error
    except ConnectError as error:
        raise EndLost(f"{NOUNS[index]} cannot be reached: {error}") from error
    stack.push_async_callback(close)
    return connection
