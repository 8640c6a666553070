"""`penstock serve`: runs a broker until SIGTERM or Ctrl-C."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from penstock.cli.common import say
from penstock.cli.parameters import command, option, parameter
from penstock.errors import StartError
from penstock.settings.kind import Choices
from penstock.settings.start import DEFAULTS, NAMES, RULES, read_start

if TYPE_CHECKING:
    from penstock.server.server import Server
    from penstock.settings.config import Settings

COMMAND_LINE = "command line"
"""Source of a setting from an option of `penstock serve`."""


# fmt: off
OPTIONS: Final = {
    "listen": ("HOST:PORT", "Accept connections at this address, or at unix:PATH; may be repeated; port 0 picks a "
               "free port."),
    "listen-tls": ("HOST:PORT", "Accept connections with TLS at this address, usually with port 5671; needs [tls] in "
                                "the settings file."),
    "http": ("HOST:PORT", "Serve the console and the HTTP API at this address; default: 127.0.0.1:15672 if it is free; "
                          "`off`: nowhere."),
    "http-tls": ("HOST:PORT", "Serve them with TLS at this address; default: off."),
    "metrics-listen": ("HOST:PORT", "Serve metrics and probes without a login at this address."),
    "flow-log": ("DIR", "Write the flow log to this directory (docs/flow-log.md); default: in the data directory; "
                        "`off`: none."),
    "audit-log": ("DIR", "Write the audit log to this directory (docs/audit-log.md); default: in the data directory; "
                         "`off`: none."),
    "definitions": ("PATH", "Import the definitions of this file, or of the files *.json of this folder, at the start "
                            "if they differ from what is there (docs/definitions.md)."),
    "shards": ("N", "Share the virtual hosts among so many processes, or `auto`: one for each core "
                    "(docs/how-to/shards.md)."),
    "log-level": (None, "Log records from this level on to standard error (docs/logs.md); default: info."),
    "log-format": (None, "Write the log as text, as a JSON object a line, or in the Java broker's form; default: "
                           "text."),
}
# fmt: on
"""Start-up settings that are options too, each with the placeholder of its value and its help."""


def with_settings(made: click.Command) -> click.Command:
    """Add the options of `OPTIONS` to a command before its own; choices and repetition follow the settings."""
    first = click.Command(None)
    for name, (metavar, text) in OPTIONS.items():
        kind, many = RULES[NAMES[name]].kind, isinstance(getattr(DEFAULTS, NAMES[name]), list)
        words = tuple(kind.words) if isinstance(kind, Choices) else ()
        parameter(option(text, metavar or "", name=name, many=many, choices=words))(first)
    made.params[:0] = first.params
    return made


DATA: Final = (
    "Store durable queues and persistent messages in this directory; default: the user's data directory, printed in "
    "the first line."
)
STORE: Final = "Store them in a PostgreSQL database instead: postgresql://HOST/DATABASE (docs/postgres.md)."


@with_settings
@command()
def serve(
    data: Annotated[Path | None, option(DATA, "DIR")],
    store: Annotated[str | None, option(STORE, "URL")],
    standby: Annotated[bool, "Wait until the broker with the lease on the store has stopped, then take over."],
    memory: Annotated[bool, "Store nothing: all data is lost when the broker stops."],
    config: Annotated[Path | None, option("Read settings from this TOML file; SIGHUP reads it again.", "FILE")],
    quiet: Annotated[bool, "Write no log to standard error."],
    check: Annotated[bool, "Check the settings and exit: no port is opened, and no store."],
    **options: Any,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    Prints one line when it accepts connections: `ready`, the addresses, and the location of durable data. Without
    --listen it listens on 127.0.0.1:5672, where guest/guest may log in; the console is at http://127.0.0.1:15672.
    For example: penstock serve --data ./data
    """
    import asyncio  # This import takes a third of the start of a command, and other commands do not need it.

    from penstock.server.logs import logging_to_stderr, without_log
    from penstock.server.turn_loop import new_loop
    from penstock.settings.config import Settings, load, with_environment

    given = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items() if value}
    if "shards" in given:
        given["shards"] = read_start("shards", given["shards"], typed=False)
    settings = with_environment(Settings() if config is None else load(config), os.environ)
    settings = with_options(settings, given)
    settings = _stored(settings, data, store, memory)
    if standby and settings.store is None:
        raise click.UsageError("--standby needs a store that brokers share: add --store URL")
    if settings.shards:
        _check_shards(settings)
    if check:
        _check(settings)
        return
    if settings.shards:
        from penstock.cli.serve_shards import serve_node

        serve_node(settings, quiet)
        return
    dissolving = _was_node(settings)
    with (
        without_log() if quiet else logging_to_stderr(settings.log_level, settings.log_format),
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        runner.run(_serve(settings, standby, dissolving))


def _stored(settings: Settings, data: Path | None, store: str | None, memory: bool) -> Settings:
    """Return the settings with the location of durable data: from the options, from the settings, or the user's
    default."""
    from penstock.store.directory import default_directory

    if memory + (data is not None) + (store is not None) > 1:
        raise click.UsageError(
            "--data, --store and --memory exclude each other: each sets the location of durable data"
        )
    if memory or store is not None:
        return with_options(settings, {"data": None, "store": store})
    if data is not None:
        return with_options(settings, {"data": str(data), "store": None})
    if settings.data is None and settings.store is None:
        return replace(settings, data=str(default_directory()))
    return settings


def _check_shards(settings: Settings) -> None:
    """Refuse shards without a data directory. Raises StartError."""
    if settings.data is None:
        where = "--memory stores nothing" if settings.store is None else "--store names a database"
        raise StartError(f"shards need a data directory, and {where}: use --data DIR, or no shards")


def _was_node(settings: Settings) -> bool:
    """Return whether the data directory is that of a node with one shard. Raises StoreError if it has several."""
    from penstock.store.node_folder import check_alone, is_node

    if settings.data is None:
        return False
    check_alone(Path(settings.data))
    return is_node(Path(settings.data))


def _check(settings: Settings) -> None:
    """Check the settings, and print that they are valid. Raises ConfigError and StartError."""
    from penstock.server.logs import logging_to_stderr
    from penstock.server.server import Server

    with logging_to_stderr("warning"):
        Server(settings=settings).check()
    say(f"the settings are valid: {settings.file}" if settings.file else "the settings are valid; there is no file")


def with_options(settings: Settings, given: dict[str, Any]) -> Settings:
    """Return the settings with values of the command line, which later reloads keep."""
    sources = settings.sources | dict.fromkeys(given, COMMAND_LINE)
    return replace(settings, sources=sources, **given)


async def _serve(settings: Settings, standby: bool, dissolving: bool) -> None:
    import asyncio

    from penstock.cli.serving import begin, first, reload_at_hangup
    from penstock.server.collector import FREEZER
    from penstock.server.freed_memory import unmap_start_pages
    from penstock.server.server import Server
    from penstock.server.service_manager import ServiceManager, status_of

    stopped = begin()
    if dissolving:
        from penstock.cluster.dissolution import dissolve

        await dissolve(Path(settings.data or ""))
    broker = Server(settings=settings, standby=standby)
    manager = ServiceManager(os.environ, os.getpid())
    watch = asyncio.ensure_future(manager.watch(lambda: status_of(broker.driver.connections.values())))
    if standby:
        manager.ready()  # Waiting for the store is its work; units that wait for this unit may start.
    try:
        if not await first(broker.start(), stopped.wait()):
            return  # Stopped as a standby.
        FREEZER.start(broker.driver.broker.work.done)
        reload_at_hangup(broker.reload, manager)
        try:
            _say_ready(broker)
            manager.ready()
            unmap_start_pages()
            lost = asyncio.ensure_future(broker.wait_lost())
            if await first(lost, stopped.wait()):
                raise await lost
        finally:
            manager.stopping()
            await broker.stop()
    finally:
        watch.cancel()
        manager.close()


def _say_ready(broker: Server) -> None:
    """Print the line with the addresses and the location of durable data."""
    from penstock.cli.serving import say_ready

    listeners = [("amqp", *address) for address in broker.addresses]
    listeners += [("amqps", *address) for address in broker.tls_addresses]
    listeners += [("http", *address) for address in broker.http_addresses]
    listeners += [("https", *address) for address in broker.https_addresses]
    stored = (
        f"durable data in {broker.storage_location}"
        if broker.storage_location
        else "in memory: nothing is kept after it stops"
    )
    say_ready(listeners, stored, broker.console_problem)
