"""`penstock serve`: a broker until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.common import main, report_errors, writing

if TYPE_CHECKING:
    from penstock.config import Settings

SWITCH_S = 0.0005
"""Seconds that the store's thread waits for the interpreter while the loop is busy, at each of its calls of the disk,
instead of Python's 0.005: a page is read back with a few such calls."""
COLLECT_AFTER = (2_000, 5, 2_000)
"""New objects between two looks at the new ones for cycles, such looks between two at those that outlived one, and
of those between two at everything. A look at n objects takes up to n/4 microseconds, in which nobody is served: with
50,000 a burst of declarations or of dead letters had looks of 10 ms and more."""


@main.command()
@click.option(
    "--listen",
    metavar="HOST:PORT",
    multiple=True,
    help="Where to accept connections; may be repeated; port 0 picks one.",
)
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Directory in which durable queues and their persistent messages outlive the broker; default: this user's, "
    "which the first line says.",
)
@click.option(
    "--store",
    metavar="URL",
    help="Keep it in a PostgreSQL database instead: postgresql://HOST/DATABASE (docs/postgres.md).",
)
@click.option("--standby", is_flag=True, help="Wait until the broker that has the store is gone, then take over.")
@click.option("--memory", is_flag=True, help="Keep nothing: everything is gone when the broker stops.")
@click.option("--http", metavar="HOST:PORT", help="Serve the HTTP API there (docs/http.md); without it none is served.")
@click.option("--config", metavar="FILE", type=click.Path(path_type=Path), help="Settings file (TOML).")
@click.option(
    "--flow-log",
    metavar="DIR",
    help="Record what becomes of every gate there (docs/flow-log.md); default: in the data directory; `off`: nowhere.",
)
@click.option("--quiet", is_flag=True, help="Write no log of gates, blocks and refusals to standard error.")
def serve(
    listen: tuple[str, ...],
    data: Path | None,
    store: str | None,
    standby: bool,
    memory: bool,
    http: str | None,
    config: Path | None,
    flow_log: str | None,
    quiet: bool,
) -> None:
    """Run a broker until it is told to stop (SIGTERM or Ctrl-C).

    Prints one line when it accepts connections: `ready`, the addresses, and where it keeps what is durable. Without
    --listen it listens on 127.0.0.1:5672, where guest/guest may log in.
    """
    from penstock.config import Settings, load
    from penstock.server.logs import logging_to_stderr
    from penstock.store.directory import default_directory

    with report_errors():
        settings = Settings() if config is None else load(config)
        if listen:
            settings = replace(settings, listen=list(listen))
        if memory + (data is not None) + (store is not None) > 1:
            raise click.UsageError("--data, --store and --memory say where what is durable is kept: give one of them")
        if memory or store is not None:
            settings = replace(settings, data=None, store=store)
        elif data is not None or (settings.data is None and settings.store is None):
            settings = replace(settings, data=str(data or default_directory()), store=None)
        if standby and settings.store is None:
            raise click.UsageError("--standby waits for a store that brokers share: give --store")
        if http is not None:
            settings = replace(settings, http=http)
        if flow_log is not None:
            settings = replace(settings, flow_log=flow_log)
        with contextlib.nullcontext() if quiet else logging_to_stderr():
            asyncio.run(_serve(settings, standby))


async def _serve(settings: Settings, standby: bool) -> None:
    from penstock.server.broker import Broker
    from penstock.server.host_memory import keep_freed_memory

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopped.set)
    _calm_the_collector()
    sys.setswitchinterval(SWITCH_S)
    keep_freed_memory()
    broker = Broker(settings=settings, standby=standby)
    if not await _first(broker.start(), stopped.wait()):
        return  # It was told to stop while it stood by.
    try:
        loop.add_signal_handler(signal.SIGHUP, broker.reload)
        listeners = [("amqp", *address) for address in broker.addresses]
        listeners += [("http", *address) for address in broker.http_addresses]
        urls = [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}" for scheme, host, port in listeners]
        kept = f"keeps what is durable in {broker.kept_in}" if broker.kept_in else "keeps nothing that must outlive it"
        with writing():
            print(f"ready {' '.join(urls)} {kept}", flush=True)
        lost = asyncio.ensure_future(broker.wait_lost())
        if await _first(lost, stopped.wait()):
            raise await lost
    finally:
        await broker.stop()


async def _first(one: Awaitable[object], other: Awaitable[object]) -> bool:
    """Tell whether the one is done before the other, which is told to end then; raises what it has raised."""
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


def _calm_the_collector() -> None:
    """Look for cycles seldom: a broker makes few, and a look walks over every queued message of the interpreted form.

    In a program of one's own the collector is that program's business.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
