"""What changes between two passes of the event loop of a broker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def steps_of(look: Callable[[], int], *actions: Callable[[], object]) -> list[int]:
    """Do actions at the same time, in threads; return the changes of a number in single passes of the loop."""
    pending = {asyncio.ensure_future(asyncio.to_thread(action)) for action in actions}
    done, steps, before = pending, [], look()
    while not all(each.done() for each in done):
        await asyncio.sleep(0)
        now = look()
        if now != before:
            steps.append(now - before)
        before = now
    await asyncio.gather(*done)
    return steps
