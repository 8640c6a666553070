"""Commands on what may not be there: exit code 1, or 0 with --if-exists."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import click

from penstock.cli.common import counted, print_result

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


def print_deleted(as_json: bool, kind: str, name: str, if_exists: bool, act: Callable[[], dict[str, object]]) -> None:
    """Delete an object and print the outcome with the result of `act`. Exit with 1 if it does not exist."""
    from penstock.client.errors import ChannelClosed, ControlError

    try:
        answer = act()
    except (ChannelClosed, ControlError) as error:
        if error.code != NOT_FOUND or not if_exists:
            raise
        print_result(as_json, {kind: name, "deleted": False}, f"{kind} {name} does not exist")
        return
    messages = answer.get("messages")
    with_them = f" with {counted(messages, 'message')}" if isinstance(messages, int) else ""
    print_result(as_json, {kind: name, "deleted": True, **answer}, f"{kind} {name} is deleted{with_them}")
