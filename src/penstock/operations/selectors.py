"""The field `filter` of a request: a message selector, whose parsing is charged as work."""

from __future__ import annotations

from typing import Final

from penstock.connections.control_request import ControlRequest
from penstock.content.selector.selector import LETTERS_A_UNIT, Selector, parse_selector
from penstock.errors import InvalidField
from penstock.management.node import Node

FILTER: Final = "filter"


def selector_of(node: Node, request: ControlRequest) -> Selector | None:
    """Return the selector of a request; None for an absent or empty one, which matches all messages.

    Raises InvalidField (406) for a text that is no selector.
    """
    text = request.text(FILTER, "")
    node.broker.work.done += len(text) // LETTERS_A_UNIT
    try:
        return parse_selector(text)
    except InvalidField as error:
        raise InvalidField(f"'{FILTER}' is not a selector: {error}") from None
