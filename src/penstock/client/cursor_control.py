"""Control operations of the operator on cursors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.client.control import ControlClient
from penstock.client.errors import ClientError


def create_cursor(
    control: ControlClient, cursor: str, queues: Iterable[str], at: str | Mapping[str, int] = "earliest"
) -> dict[str, int]:
    """Create a cursor without a reader, at "earliest", "latest" or offsets by queue; returns where each queue begins.

    Raises `ControlError` 405 for a cursor that exists, or as `ControlClient.attach`.
    """
    fields = {"cursor": cursor, "queues": list(queues), "starting": at, "create": True}
    found: dict[str, int] = _object(control, "cursor.attach", fields)["initial"]
    return found


def show_cursor(control: ControlClient, cursor: str) -> dict[str, Any]:
    """Return a cursor with its lag by queue and its reader; for an administrator also the producers that wait.

    Raises `ControlError` 404 for a cursor that does not exist.
    """
    return _object(control, "cursor.show", {"cursor": cursor})


def move_cursor(
    control: ControlClient, cursor: str, to: str | Mapping[str, int], *, dry_run: bool = False, force: bool = False
) -> dict[str, Any]:
    """Move a cursor to "earliest", "latest" or offsets by queue; `dry_run` only tells what a move would do.

    `force` moves it while a reader uses it: the reader gets an error at its next request. Raises `ControlError` 404,
    405 for a cursor in use, and 406 for a place where it cannot go.
    """
    return _object(control, "cursor.move", {"cursor": cursor, "to": to, "dry_run": dry_run, "force": force})


def release_cursor(control: ControlClient, cursor: str, queues: Iterable[str]) -> None:
    """Give up the positions of a cursor on queues that its subscription no longer has.

    Raises `ControlError` 404 for a queue that it does not read, 406 for one to which it subscribes.
    """
    _object(control, "cursor.release", {"cursor": cursor, "queues": list(queues)})


def _object(control: ControlClient, operation: str, fields: Mapping[str, object]) -> dict[str, Any]:
    answer = control.request(operation, fields)
    if isinstance(answer, memoryview):
        raise ClientError(f"the broker answered {operation} with a block where an object was due")
    return answer
