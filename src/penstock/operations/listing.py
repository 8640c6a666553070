"""Lists of rows in steps, and the virtual hosts whose objects a requester may see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from penstock.describe.lists import seen_vhosts
from penstock.describe.table import Row
from penstock.flow.work import Steps
from penstock.management.node import Node
from penstock.protocols.common.control_request import ControlRequest

T = TypeVar("T")
ROW_WORK: Final = 5
"""Units of work per listed row."""


def rows_steps(node: Node, subjects: Iterable[T], row: Callable[[T], Row]) -> Steps[list[Row]]:
    """Return the rows of subjects in steps."""
    return lists_steps(node, subjects, lambda subject: [row(subject)])


def lists_steps(node: Node, subjects: Iterable[T], rows: Callable[[T], list[Row]]) -> Steps[list[Row]]:
    """Return the rows of subjects that have several, or none, in steps."""
    result: list[Row] = []
    for subject in subjects:
        its = rows(subject)
        if node.broker.work.spend(ROW_WORK * max(len(its), 1)):
            yield
        result += its
    return result


def entered(node: Node, request: ControlRequest) -> list[str]:
    """Return the virtual host that the path names, or else all that the user may enter; all for an administrator."""
    if "vhost" in request.fields:
        return [request.vhost.name]
    return [vhost.name for vhost in seen_vhosts(node, request.access.rules)]
