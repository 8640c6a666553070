"""Jobs of the broker for which coroutines wait: they run in steps, each in a turn's share of work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from penstock.errors import BrokerError
from penstock.flow.work import Steps

if TYPE_CHECKING:
    from penstock.server.event_loop import EventLoop

Told = TypeVar("Told")


def asked(event_loop: EventLoop, steps: Steps[Told]) -> asyncio.Future[Told]:
    """Start a job that reads much, beside the broker's other work; return a future for its result or error."""
    known: asyncio.Future[Told] = event_loop.loop.create_future()
    event_loop.driver.start_asking(_known_by(steps, known), onlooker=True)
    _begin(event_loop)
    return known


def changed(event_loop: EventLoop, steps: Steps[Told]) -> asyncio.Future[Told]:
    """Start a job that changes much, after other changes; it completes even if nobody waits any more."""
    known: asyncio.Future[Told] = event_loop.loop.create_future()
    event_loop.driver.start(_known_by(steps, known))
    _begin(event_loop)
    return known


def _begin(event_loop: EventLoop) -> None:
    event_loop.driver.begin(event_loop.loop.time())
    event_loop.schedule()


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
