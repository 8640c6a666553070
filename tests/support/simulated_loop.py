"""A deterministic asyncio loop: virtual time, no sockets, an order of ready callbacks that a seed decides.

When nothing is ready time leaps to the next timer; when there is no timer either, everybody waits for everybody and the
loop says so. After each pass it calls `after_pass`, where a test looks at what must hold at every moment.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from typing_extensions import override

HORIZON_S = 4000.0
"""Virtual seconds after which a simulation that goes on is going in circles: periodic timers never rest."""


class Deadlock(RuntimeError):
    """Nothing is ready and nothing ever will be."""


class NoSockets(selectors.BaseSelector):
    """Selects nothing; waiting for it moves the clock."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._map: dict[int, selectors.SelectorKey] = {}

    @override
    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._map[number] = selectors.SelectorKey(fileobj, number, events, data)
        return self._map[number]

    @override
    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._map.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set: all wait for each other")
        self._loop.advance(timeout)
        return []

    @override
    def close(self) -> None:
        self._map.clear()

    @override
    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._map


class SimLoop(asyncio.SelectorEventLoop):
    """The loop; `rng` is the only source of chance in a simulation."""

    def __init__(self, seed: int) -> None:
        self._now = 0.0
        self.rng = random.Random(seed)
        self.after_pass: Callable[[], None] | None = None
        super().__init__(NoSockets(self))
        self._clock_resolution = 1e-9

    @override
    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock; raises Deadlock beyond the horizon."""
        self._now += max(seconds, 0.0)
        if self._now > HORIZON_S:
            raise Deadlock(f"{HORIZON_S} s have passed and nothing comes of it")

    def rewind(self) -> None:
        """Give what is left a new horizon, to end in good order."""
        self._now = 0.0

    def _run_once(self) -> None:
        if len(self._ready) > 1:  # type: ignore[attr-defined]
            ready = list(self._ready)  # type: ignore[attr-defined]
            self.rng.shuffle(ready)
            self._ready.clear()  # type: ignore[attr-defined]
            self._ready.extend(ready)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]
        if self.after_pass is not None:
            self.after_pass()


def simulate(seed: int, main: Callable[[SimLoop], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine in a loop of its own and return what it returns."""
    loop = SimLoop(seed)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.after_pass = None
        loop.rewind()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.call_later(0.0, loop.stop)
        loop.run_forever()
        loop.close()
