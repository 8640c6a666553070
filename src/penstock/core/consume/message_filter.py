"""The messages that a consumer wants: by a selector, and not those of its own connection (no-local)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

from penstock.content.selector.fields import LIKE_WORK_MAX, PatternsTooCostly
from penstock.core.message import Message, OriginEnvelope
from penstock.core.message_format import MessageFormats, UnreadableContent
from penstock.errors import NotImplementedHere

if TYPE_CHECKING:
    from penstock.content.selector.selector import Selector
    from penstock.core.queue.queue import Queue

LOOK_WORK: Final = 1
"""Units of work to look at a message, besides those of a selector."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageFilter:
    """The filter of one consumer. Its result for a message never changes, but for `excluded`."""

    def __init__(self, formats: MessageFormats, selector: Selector | None = None, excluded_origin: i64 = 0) -> None:
        self.formats = formats
        self.selector = selector
        """None: every message."""
        self.excluded_origin: i64 = excluded_origin
        """Number of the connection that published the messages that it does not want; 0 for none."""
        self.excluded: set[int] = set()
        """Sequences of messages that it does not want any more; see undeliverable.py."""
        self.work: i64 = LOOK_WORK if selector is None else LOOK_WORK + selector.work
        """Units of work for each message, besides `searched`."""
        self.searched: i64 = 0
        """Units of work to search the texts of the last message for patterns."""

    def check(self, queue: Queue) -> None:
        """Raise NotImplementedHere (540) for no-local on a queue that pages: what was on the disk has no origin."""
        if self.excluded_origin != 0 and queue.overflow.pages:
            raise NotImplementedHere(
                f"no-local on queue '{queue.name}' in vhost '{queue.vhost}', whose overflow policy is page: messages "
                "that were on the disk do not tell which connection published them"
            )

    def memory(self) -> int:
        """Return the bytes of its selector."""
        return 0 if self.selector is None else self.selector.memory

    def matches(self, message: Message) -> bool:
        """Return whether a message is wanted.

        One that cannot be read matches no selector, nor does one whose texts are too long for the patterns together.
        """
        self.searched = 0
        if self.excluded_origin != 0:
            envelope = message.envelope
            if isinstance(envelope, OriginEnvelope) and envelope.origin == self.excluded_origin:
                return False
        if self.excluded and int(message.sequence) in self.excluded:
            return False
        selector = self.selector
        if selector is None:
            return True
        content = message.content
        try:
            fields = self.formats.of(content).selectable(content)
        except UnreadableContent:
            return False
        try:
            return selector.matches(fields)
        except (UnreadableContent, PatternsTooCostly):
            return False
        finally:
            self.searched = LIKE_WORK_MAX - fields.work_left

    def describe(self) -> str:
        """Return the obstacle of a consumer that has seen all messages, as a phrase."""
        if self.selector is not None:
            return "waits for a message that its selector matches"
        if self.excluded and self.excluded_origin == 0:
            return "waits for a message that it has not called undeliverable"
        return "waits for a message that its own connection has not published"
