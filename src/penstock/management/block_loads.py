"""Blocks with large messages: their bodies are loaded first, for one block at a time.

The connection of the request is not read meanwhile. The cursor is checked again when the bodies are there.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64
from typing_extensions import override

from penstock.core.large_bodies import LargeBody
from penstock.core.large_content import body_of
from penstock.core.large_loading import BodyLoad, LoadListener
from penstock.core.message import Message
from penstock.errors import BrokerError, ContentTooLarge, InternalError

if TYPE_CHECKING:
    from penstock.management.control_request import ControlRequest
    from penstock.management.cursor_api import CursorApi

BLOCK_MESSAGE_MAX: Final = 1024 * 1024 * 1024
"""Most octets of the bodies in a block: a large message is alone in one, and its value has an offset of 31 bits."""


def large_bodies(messages: list[Message]) -> list[LargeBody]:
    """Return the bodies of the large messages. Raises ContentTooLarge (311) for more than a block may have."""
    found: list[LargeBody] = []
    total: i64 = 0
    for message in messages:
        body = body_of(message.content)
        if body is not None:
            found.append(body)
            total += body.octets
    if total > BLOCK_MESSAGE_MAX:
        raise ContentTooLarge(
            f"a message of {int(total):,} octets does not fit into a block, which has at most {BLOCK_MESSAGE_MAX:,}; "
            "consume it"
        )
    return found


class BlockLoad(LoadListener):
    """A block that waits for the bodies of its large messages."""

    def __init__(
        self, loads: BlockLoads, request: ControlRequest, messages: list[Message], bodies: list[LargeBody]
    ) -> None:
        self.request = request
        self.messages = messages
        self._loads = loads
        self._load = BodyLoad(loads.cursors.broker.large, bodies, self)
        if request.connection is not None:
            request.connection.busy += 1

    def begin(self) -> bool:
        """Begin to load. Return whether it is answered already: nothing was to be read."""
        if not self._load.begin():
            return False
        self._answer()
        return True

    @override
    def on_loaded(self) -> None:
        self._answer()
        self._loads.finished()

    def _answer(self) -> None:
        cursors = self._loads.cursors
        load = self._load
        try:
            if load.fault:
                raise InternalError(f"a large message cannot be read from the store: {load.fault}")
            cursors.check_holder(self.request)
            load.insert()
            try:
                cursors.reply_block(self.request, self.messages)
            finally:
                load.release()
        except BrokerError as error:
            cursors.control.fail(self.request, error)
        connection = self.request.connection
        if connection is not None:
            connection.busy -= 1
            connection.services.resume_input(connection)


class BlockLoads:
    """Blocks that wait for bodies, in order."""

    def __init__(self, cursors: CursorApi) -> None:
        self.cursors = cursors
        self._waiting: deque[BlockLoad] = deque()
        """The first one is being loaded."""

    def add(self, request: ControlRequest, messages: list[Message], bodies: list[LargeBody]) -> None:
        """Load the bodies of a block, after those of earlier blocks, and reply with it."""
        self._waiting.append(BlockLoad(self, request, messages, bodies))
        if len(self._waiting) == 1:
            self._begin()

    def finished(self) -> None:
        """Go on after the first one."""
        self._waiting.popleft()
        self._begin()

    def _begin(self) -> None:
        while self._waiting and self._waiting[0].begin():
            self._waiting.popleft()
