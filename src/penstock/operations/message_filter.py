"""Choice of messages by people: a selector, a routing key, headers, a text in the body, and the reason of a death.

A selector reads properties only, and no names with hyphens. The other conditions look at what a person sees in a list
of messages. All must hold. Bodies that are stored in pieces are not searched: their text is not in the queue.
"""

from __future__ import annotations

from typing import Final

from typing_extensions import override

from penstock.connections.control_request import ControlRequest
from penstock.content.selector.selector import Selector
from penstock.core.consume.scan import MessageFilter
from penstock.core.large_content import is_large
from penstock.core.message import Message
from penstock.core.message_format import MessageFormats, UnreadableContent
from penstock.core.queue.queue import Queue
from penstock.errors import PreconditionFailed
from penstock.management.node import Node
from penstock.operations.selectors import selector_of
from penstock.texts import worded

FIELDS: Final[tuple[str, ...]] = ("filter", "key", "header", "body", "reason")
"""Fields of a request that chooses messages."""
CONDITION_CHARACTERS: Final = 1_000
"""Most characters of a condition: each message is compared with it."""
HEADERS_MOST: Final = 10
"""Most headers of one choice."""
POSITIONS_MOST: Final = 1_000
"""Most positions of one request: those of a page of browsing."""
POSITION_DIGITS: Final = 19
"""Digits beyond any position."""
READ_WORK: Final = 4
"""Units of work to read the headers of a message."""
SEARCHED_A_UNIT: Final = 4096
"""Bytes of a body that are searched with one unit of work."""
UNKNOWN_REASON: Final = "unknown"
"""Reason of messages without death headers."""
ANY: Final = "*"


class Conditions:
    """Conditions besides a selector."""

    def __init__(self, key: str, headers: list[tuple[str, str]], body: bytes, reason: str) -> None:
        self.key = key.split(ANY) if key else []
        """Parts of the routing key between asterisks; empty for any key."""
        self.headers = headers
        self.body = body
        self.reason = reason

    def are_any(self) -> bool:
        """Return whether there is a condition."""
        return bool(self.key or self.headers or self.body or self.reason)


class ChosenMessages(MessageFilter):
    """Filter of messages that a person chooses."""

    def __init__(self, formats: MessageFormats, selector: Selector | None, conditions: Conditions) -> None:
        super().__init__(formats, selector)
        self._conditions = conditions
        if conditions.headers or conditions.reason:
            self.work += READ_WORK

    @override
    def matches(self, message: Message) -> bool:
        self.searched = 0
        wanted, content = self._conditions, message.content
        if wanted.key and not fits(wanted.key, message.envelope.routing_key):
            return False
        if not super().matches(message):
            return False
        if not (wanted.headers or wanted.body or wanted.reason):
            return True
        message_format = self.formats.find(content)
        try:
            if wanted.reason:
                entries = message_format.death_entries(content)
                if (entries[0]["reason"] if entries else UNKNOWN_REASON) != wanted.reason:
                    return False
            if wanted.headers:
                headers = message_format.headers(content)
                if not all(name in headers and text_of(headers[name]) == value for name, value in wanted.headers):
                    return False
            if wanted.body:
                if is_large(content):
                    return False
                body = message_format.body(content)
                self.searched += len(body) // SEARCHED_A_UNIT
                return wanted.body in body
        except UnreadableContent:
            return False
        return True


def fits(parts: list[str], text: str) -> bool:
    """Return whether a text has these parts in order, the first at its beginning and the last at its end."""
    if len(parts) == 1:
        return text == parts[0]
    if not text.startswith(parts[0]):
        return False
    at = len(parts[0])
    for part in parts[1:-1]:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - at >= len(parts[-1]) and text.endswith(parts[-1])


def text_of(value: object) -> str:
    """Return the value of a header as a person writes it."""
    return value if isinstance(value, str) else worded(value, False)


def chosen_messages(node: Node, request: ControlRequest) -> ChosenMessages:
    """Read the choice of a request. Raises PreconditionFailed (406) for a condition that is invalid, or too long,
    InvalidField (406) for a text that is no selector.
    """
    conditions = Conditions(
        _text(request, "key"), _headers(request), _text(request, "body").encode(), _text(request, "reason")
    )
    return ChosenMessages(node.broker.formats, selector_of(node, request), conditions)


def chooses(request: ControlRequest) -> bool:
    """Return whether a request has a condition or a selector."""
    return any(request.fields.get(name) not in (None, "", []) for name in FIELDS)


def chosen_positions(request: ControlRequest, queue: Queue) -> set[int] | None:
    """Return the sequences of the messages at the field `positions`; None without it.

    In a query of HTTP the positions have commas. A position in a stream is its offset. Raises PreconditionFailed (406).
    """
    given = request.fields.get("positions")
    if given is None:
        return None
    if isinstance(given, str):
        given = [int(each) if each.isdecimal() and len(each) < POSITION_DIGITS else each for each in given.split(",")]
    most = f"1 to {POSITIONS_MOST:,} positions of messages"
    if not isinstance(given, list) or not 0 < len(given) <= POSITIONS_MOST:
        shown = f"{len(given):,} entries" if isinstance(given, list) else worded(given)
        raise PreconditionFailed(f"'positions' must be a list of {most}, not {shown}")
    offset = 1 if queue.features.type.retains else 0
    positions: set[int] = set()
    for each in given:
        if not isinstance(each, int) or isinstance(each, bool) or each + offset <= 0:
            raise PreconditionFailed(f"'positions' must be a list of {most}, and {worded(each)} is none")
        positions.add(each + offset)
    return positions


def _text(request: ControlRequest, name: str) -> str:
    text = request.text(name, "")
    if len(text) > CONDITION_CHARACTERS:
        raise PreconditionFailed(
            f"'{name}' has {len(text):,} characters; at most {CONDITION_CHARACTERS:,} are permitted"
        )
    return text


def _headers(request: ControlRequest) -> list[tuple[str, str]]:
    given = request.fields.get("header")
    if given is None:
        return []
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or len(texts) > HEADERS_MOST:
        raise PreconditionFailed(f"'header' must be at most {HEADERS_MOST} texts NAME=VALUE, not {worded(given)}")
    found: list[tuple[str, str]] = []
    for text in texts:
        name, separator, value = text.partition("=") if isinstance(text, str) else ("", "", "")
        if not name or not separator or len(text) > CONDITION_CHARACTERS:
            raise PreconditionFailed(f"'header' must have texts NAME=VALUE, not {worded(text)}")
        found.append((name, value))
    return found
