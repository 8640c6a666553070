"""Jobs of the broker for which coroutines wait: they run in steps, each in a turn's share of work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from penstock.errors import BrokerError
from penstock.flow.work import Steps

if TYPE_CHECKING:
    from penstock.server.event_loop import EventLoop

Told = TypeVar("Told")


def result_of(event_loop: EventLoop, steps: Steps[Told], changes: bool = False) -> asyncio.Future[Told]:
    """Start a job; return a future for its result or error.

    One that changes something runs after other changes, and completes even if nobody waits any more. Others run beside
    the broker's other work.
    """
    known: asyncio.Future[Told] = event_loop.loop.create_future()
    job = _known_by(steps, known)
    if changes:
        event_loop.driver.start(job)
    else:
        event_loop.driver.start_asking(job, onlooker=True)
    event_loop.driver.begin(event_loop.loop.time())
    event_loop.schedule()
    return known


def _known_by(steps: Steps[Told], known: asyncio.Future[Told]) -> Steps[None]:
    """Run steps and set their result or error on a future; the waiter may be gone by then."""
    try:
        found = yield from steps
    except Exception as error:
        if not known.done():
            known.set_exception(error)
        elif not isinstance(error, BrokerError):
            raise
    else:
        if not known.done():
            known.set_result(found)
