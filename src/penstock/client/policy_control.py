"""Control operations on policies, and the import of definitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from penstock.client.control import ControlClient
from penstock.client.errors import ClientError


def set_policy(control: ControlClient, name: str, fields: Mapping[str, object], operator: bool) -> dict[str, Any]:
    """Set a policy of the connection's virtual host, with RabbitMQ's keys: pattern, definition, priority, apply-to.

    Return it with the numbers of queues and exchanges that it applies to, and `sentences` for people. Raises
    `ControlError` 406 for an invalid one.
    """
    return _object(control, "policy.set", {**fields, "name": name, "operator": operator})


def clear_policy(control: ControlClient, name: str, operator: bool) -> dict[str, Any]:
    """Remove a policy of the connection's virtual host. Raises `ControlError` 404."""
    return _object(control, "policy.clear", {"name": name, "operator": operator})


def list_policies(control: ControlClient, operator: bool, everywhere: bool) -> list[dict[str, Any]]:
    """Return the policies of the connection's virtual host, or of all, by name."""
    found = _object(control, "policy.list", {"operator": operator, "everywhere": everywhere})
    return cast("list[dict[str, Any]]", found["policies"])


def import_definitions(
    control: ControlClient,
    text: str,
    *,
    everywhere: bool = True,
    skip: Iterable[str] = (),
    skip_refused: bool = False,
    streams_as_queues: bool = False,
    dry_run: bool = False,
) -> dict[str, Any]:
    """Import definitions; with `dry_run` return what would differ, and change nothing.

    `skip` has kinds, and KIND:NAME for single entries; `skip_refused` leaves out what the broker refuses. What cannot
    be made without a skipped entry is skipped as well. `streams_as_queues` makes durable queues of streams. See
    `ControlClient.import_definitions`.
    """
    fields = {
        "definitions": text,
        "everywhere": everywhere,
        "skip": list(skip),
        "skip_refused": skip_refused,
        "streams_as_queues": streams_as_queues,
        "dry_run": dry_run,
    }
    return _object(control, "definitions.import", fields)


def _object(control: ControlClient, operation: str, fields: Mapping[str, object]) -> dict[str, Any]:
    answer = control.request(operation, fields)
    if isinstance(answer, memoryview):
        raise ClientError(f"the broker answered {operation} with a block where an object was due")
    return answer
