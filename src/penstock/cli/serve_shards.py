"""Program of a node with shards, from its start to its end: `penstock serve --shards N`.

The zygote comes first, before this process has threads or an event loop. The node ends at SIGTERM or Ctrl-C, and with
an error if the zygote is lost, because all shards are lost with it.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from penstock.cli.serving import begin, first, reload_at_hangup, say_ready
from penstock.cluster.parent import Parent
from penstock.cluster.shard_process import main_of
from penstock.cluster.shard_watch import SERVING
from penstock.cluster.zygote import Zygote
from penstock.server.freed_memory import unmap_start_pages
from penstock.server.logs import logging_to_stderr, without_log
from penstock.server.node import whole_machine
from penstock.server.process_limits import cores
from penstock.server.service_manager import ServiceManager
from penstock.server.turn_loop import new_loop
from penstock.settings.config import Settings
from penstock.settings.start import AUTO_SHARDS, SHARDS_MOST


def serve_node(settings: Settings, quiet: bool) -> None:
    """Run a node until SIGTERM or Ctrl-C. Raises StartError, StoreError, ConfigError, and NodeLost."""
    zygote = Zygote.begin(main_of(settings, quiet))
    try:
        with (
            without_log() if quiet else logging_to_stderr(settings.log_level, settings.log_format),
            asyncio.Runner(loop_factory=new_loop) as runner,
        ):
            runner.run(_serve(zygote, settings))
    finally:
        zygote.stop()


def shards_of(settings: Settings) -> int:
    """Return the number of shards that settings ask for."""
    return min(cores(), SHARDS_MOST) if settings.shards == AUTO_SHARDS else int(settings.shards)


async def _serve(zygote: Zygote, settings: Settings) -> None:
    stopped = begin()
    assert settings.data is not None
    node = Parent(zygote, settings, Path(settings.data), shards_of(settings), whole_machine())
    manager = ServiceManager(os.environ, os.getpid())
    watch = asyncio.ensure_future(manager.watch(lambda: _status(node)))
    try:
        if not await first(node.start(), stopped.wait()):
            return
        try:
            reload_at_hangup(node.reload.request, manager)
            _say_ready(node)
            manager.ready()
            unmap_start_pages()
            lost = asyncio.ensure_future(node.wait_lost())
            if await first(lost, stopped.wait()):
                raise await lost
        finally:
            manager.stopping()
            await node.stop()
    finally:
        watch.cancel()
        manager.close()


def _status(node: Parent) -> str:
    """Return a line for `systemctl status`."""
    watches = node.supervision.watches()
    serving = sum(1 for watch in watches if watch.state == SERVING)
    return f"{serving} of {len(watches)} shards serve"


def _say_ready(node: Parent) -> None:
    """Print the line with the addresses and the location of durable data."""
    listeners = [("amqp", *address) for address in node.front.addresses]
    listeners += [("amqps", *address) for address in node.front.tls_addresses]
    listeners += [("http", *address) for address in node.http.http_addresses]
    listeners += [("https", *address) for address in node.http.https_addresses]
    shards = len(node.supervision.watches())
    say_ready(
        listeners,
        f"durable data in {node.data}, {shards} {'shard' if shards == 1 else 'shards'}",
        node.http.console_problem,
    )
