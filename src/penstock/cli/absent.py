"""Commands on what may not be there: exit code 1, or 0 with --if-exists."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import click

from penstock.cli.common import print_result

IF_EXISTS = click.option("--if-exists", is_flag=True, help="Accept that it does not exist: exit code 0.")
NOT_FOUND = 404


@contextlib.contextmanager
def maybe_absent(if_exists: bool, as_json: bool, answer: dict[str, object], sentence: str) -> Iterator[None]:
    """End the command with a sentence and success if the broker answers "not found" (404), with --if-exists."""
    from penstock.client.errors import ChannelClosed, ControlError

    try:
        yield
    except (ChannelClosed, ControlError) as error:
        if error.code != NOT_FOUND or not if_exists:
            raise
        print_result(as_json, {**answer, "existed": False}, sentence)
        raise click.exceptions.Exit(0) from None
