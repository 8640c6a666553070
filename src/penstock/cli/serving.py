"""Parts of `penstock serve` that one broker and a node with shards have in common."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Sequence

from penstock.cli.common import say
from penstock.server.addresses import listener_url
from penstock.server.prepared import prepare_process
from penstock.server.service_manager import ServiceManager


def say_ready(listeners: Sequence[tuple[str, str, int]], where: str, console_problem: str = "") -> None:
    """Print the addresses, each a scheme, a host and a port, and the location of durable data.

    A console that is not served is a second line, on standard error.
    """
    urls = [listener_url(*listener) for listener in listeners]
    say(f"ready {' '.join(urls)} ({where})")
    if console_problem:
        with contextlib.suppress(OSError):  # Standard error may have no reader.
            say(f"no console: {console_problem}; `--http 127.0.0.1:0` takes a free port", err=True)


def begin() -> asyncio.Event:
    """Prepare this process and its running loop; return the event that SIGTERM and Ctrl-C set."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopped.set)
    prepare_process()
    return stopped


def reload_at_hangup(request: Callable[[], asyncio.Task[None] | None], manager: ServiceManager) -> None:
    """Read the settings file again at SIGHUP, and notify the service manager of the beginning and the end.

    `request` begins a reload; it returns None if none begins.
    """
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _reload, request, manager)


def _reload(request: Callable[[], asyncio.Task[None] | None], manager: ServiceManager) -> None:
    manager.reloading()
    reloading = request()
    if reloading is None:
        manager.ready()
    else:
        reloading.add_done_callback(lambda _: manager.ready())


async def first(one: Awaitable[object], other: Awaitable[object]) -> bool:
    """Wait for either task and cancel the other; return whether the first is done, and raise its error."""
    both = [asyncio.ensure_future(one), asyncio.ensure_future(other)]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    done = both[0].done()
    for each in both:
        if not each.done():
            each.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await each
    if done:
        await both[0]
    return done
