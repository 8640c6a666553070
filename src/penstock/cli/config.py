"""`penstock config`: the settings in effect, with their sources."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from penstock.cli.common import JSON, URL, control_session, main, report_errors, say_json, table


@main.command()
@click.option(
    "--config",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Show what a broker would have that starts with this settings file here, instead of asking one.",
)
@click.option("--changed", is_flag=True, help="Show only settings that have no default.")
@JSON
@URL
def config(file: Path | None, changed: bool, as_json: bool, url: str) -> None:
    """Show the settings of a broker in effect, each with its source, without secrets.

    A source is FILE:LINE, an environment variable, the command line, a run-time change (`penstock set`), or the
    default. For example: penstock config --changed
    """
    with report_errors():
        found = _asked(url) if file is None else _of_file(file)
        if changed:
            for part in ("start", "broker"):
                found[part] = [row for row in found[part] if row["from"] != "default"]
        if as_json:
            say_json(found)
            return
        rows = [(row["setting"], _shown(row["value"]), row["from"]) for row in (*found["start"], *found["broker"])]
        rows += [
            (f'{row["scope"]} "{row["pattern"]}" {row["setting"]}', _shown(row["value"]), row["from"])
            for row in found["patterns"]
        ]
        table(("setting", "value", "from"), rows)


def _asked(url: str) -> dict[str, Any]:
    with control_session(url) as control:
        return control.request("config.show")


def _of_file(file: Path) -> dict[str, Any]:
    """Return the configuration of a broker that is not started. Raises ConfigError."""
    from penstock.config import load, with_environment
    from penstock.flow.work import finish
    from penstock.operations.settings import config_steps
    from penstock.server.server import Server

    return finish(config_steps(Server(settings=with_environment(load(file), os.environ)).driver))


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, dict):
        return " ".join(f"{name}={item}" for name, item in value.items()) or "none"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
