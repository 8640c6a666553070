"""A carrier in the foreground: until it ends by itself, or a signal ends it in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Final, Protocol

from penstock.bridges.state import State
from penstock.texts import counted

TELL_S: Final = 1.0
"""Seconds between two lines of progress."""


class Carrying(Protocol):
    """A carrier, by messages or by blocks."""

    @property
    def state(self) -> State:
        """Return its state, which changes while it runs."""

    @property
    def underway(self) -> int:
        """Return the number of messages that may be in both queues."""

    async def run(self) -> State:
        """Carry until its terms are met, or `stop`."""

    def stop(self) -> None:
        """Let it end in order."""


def carry(carrier: Carrying, tell: Callable[[str], None]) -> bool:
    """Run a carrier; `tell` gets a line of progress each second. Returns whether SIGINT or SIGTERM has ended it."""
    return asyncio.run(_carried(carrier, tell))


async def _carried(carrier: Carrying, tell: Callable[[str], None]) -> bool:
    loop, interrupted = asyncio.get_running_loop(), False

    def stop() -> None:
        nonlocal interrupted
        interrupted = True
        carrier.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    telling = asyncio.ensure_future(_tell(carrier, tell))
    try:
        await carrier.run()
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)
    return interrupted


async def _tell(carrier: Carrying, tell: Callable[[str], None]) -> None:
    loop, state = asyncio.get_running_loop(), carrier.state
    before, at = state.carried, loop.time()
    while True:
        await asyncio.sleep(TELL_S)
        now = loop.time()
        rate, before, at = (state.carried - before) / (now - at), state.carried, now
        words = f"{counted(state.carried, 'message')} carried, {rate:,.0f} a second, {state.sentence(now)}"
        tell(words if not state.refused else f"{words}; {state.refused:,} refused")
