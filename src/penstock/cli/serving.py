"""`penstock serve`: a broker until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.asking import main, one_sentence

if TYPE_CHECKING:
    from penstock.config import Settings

COLLECT_AFTER = 50_000
"""New objects between two looks for cycles, instead of Python's 700: a few MiB at most."""


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

    with one_sentence():
        settings = Settings() if config is None else load(config)
        if listen:
            settings = replace(settings, listen=list(listen))
        if memory:
            if data is not None:
                raise click.UsageError("--memory keeps nothing, and --data says where: give one of them")
            settings = replace(settings, data=None)
        elif data is not None or settings.data is None:
            settings = replace(settings, data=str(data or default_directory()))
        if http is not None:
            settings = replace(settings, http=http)
        if flow_log is not None:
            settings = replace(settings, flow_log=flow_log)
        with contextlib.nullcontext() if quiet else logging_to_stderr():
            asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    from penstock.server.broker import Broker
    from penstock.server.machine import keep_freed_memory

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, stopped.set)
    _calm_the_collector()
    keep_freed_memory()
    async with Broker(settings=settings) as broker:
        loop.add_signal_handler(signal.SIGHUP, broker.reload)
        listeners = [("amqp", *address) for address in broker.addresses]
        listeners += [("http", *address) for address in broker.http_addresses]
        urls = [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}" for scheme, host, port in listeners]
        kept = (
            "keeps nothing that must outlive it" if broker.data is None else f"keeps what is durable in {broker.data}"
        )
        print(f"ready {' '.join(urls)} {kept}", flush=True)
        await stopped.wait()


def _calm_the_collector() -> None:
    """Look for cycles seldom: a broker makes few, and a look walks over every queued message of the interpreted form.

    In a program of one's own the collector is that program's business.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 20)
