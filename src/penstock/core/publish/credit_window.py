"""Window of a link: the most credit of its sender, and the expected size of its messages.

Each message of credit is charged with the largest of the last 64 messages, or with an assumption before the first one.
The window has two bounds, messages and bytes; the smaller one counts. One message may always be granted, however large.

Few senders announce the size of their messages. The credit of the others begins small and is at most twice the number
of messages that have arrived (decision 52). So the size is known soon, and the assumption is wrong for few messages.
The same holds for a link whose idle room was revoked. An announced size counts until the first message.

Senders do not announce either whether their messages are persistent. A link counts as storing if one of its last 64
messages was stored, so that a disk gate stops no sender of transient messages.
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import stored
from penstock.core.settings.table import SettingsTable
from penstock.flow.level import OVERHEAD, UNLIMITED
from penstock.settings.table import BROKER, BY_NAME, CREDIT_WINDOW_BYTES, CREDIT_WINDOW_MESSAGES, CREDITS, SettingValue

SHARE: Final = 4
"""A grant takes at most this part (a quarter) of the free room: the less there is, the smaller the grants."""
GRANT_MAX: Final = 65_536
"""Most messages of one grant, whatever the sender wants."""
FIRST_GRANT: Final = 64
"""Most messages of the first grant."""
TRIAL_OCTETS: Final = 1_048_576
"""Size for a first grant to a sender that announced no message size: as many messages of this size must have room."""
GROWTH: Final = 2
"""Credit of such a sender for each message that has arrived."""
FIRST_MESSAGE_OCTETS: Final = 1152
"""Assumed bytes of a message before the first message: a body of 1 KiB, with its sections."""
LOOK_BACK: Final = 64
"""Number of last messages by which the next are judged."""


class CreditWindow:
    """Bounds of one link's credit, and the charge of a message of credit."""

    __slots__ = (
        "messages",
        "bytes",
        "charge",
        "is_size_known",
        "_grows",
        "_limit",
        "_largest",
        "_largest_before",
        "_seen",
        "_seen_in_all",
        "_transient",
        "_has_stored",
        "_is_new",
    )

    def __init__(
        self,
        messages: i64 = CREDIT_WINDOW_MESSAGES,
        bytes: i64 = CREDIT_WINDOW_BYTES,
        message_octets: i64 = 0,
    ) -> None:
        """Open the window. `message_octets` is the message size that the sender announced; 0 if it announced none."""
        self.messages: i64 = messages if messages > 0 else 1
        self.bytes: i64 = bytes
        """Bytes (charges) of the window."""
        self.is_size_known: bool = message_octets > 0
        """True if the size of messages is known: the sender announced it, or enough messages have arrived to estimate
        it."""
        self._grows: bool = message_octets <= 0
        """True while credit is limited by the number of messages received since the beginning or the last revocation of
        room."""
        self.charge: i64 = (message_octets if message_octets > 0 else FIRST_MESSAGE_OCTETS) + OVERHEAD
        """Bytes that the next granted message reserves."""
        self._largest: i64 = 0
        self._largest_before: i64 = 0
        """Largest charges: of the messages since the last change of the block, and in the block before."""
        self._seen: i64 = 0
        self._seen_in_all: i64 = 0
        """Messages since the last change of the block; all messages while the window grows, else a few."""
        self._transient: i64 = 0
        """Messages since the last stored one."""
        self._has_stored: bool = False
        self._is_new: bool = True
        self._limit: i64 = 0
        self._update_limit()

    def wanted(self, unused: i64, most: i64 = UNLIMITED) -> i64:
        """Return how many messages may be granted in addition to so many unused messages; 0 if half of the window is
        unused.

        The window is at most `most`.
        """
        limit = self._limit if self._limit < most else most
        return limit - unused if unused * 2 < limit else 0

    def on_granted(self) -> None:
        """End the caution of the first grant."""
        if self._is_new:
            self._is_new = False
            self._update_limit()

    def restart(self) -> None:
        """Restart with a small window, because idle room was revoked. It grows again with the messages that arrive."""
        self._grows = True
        self._seen_in_all = 0
        self._update_limit()

    def is_unproven(self) -> bool:
        """Return whether no message has arrived since the beginning, or since room was last revoked."""
        return self._seen_in_all == 0

    def is_unseen(self) -> bool:
        """Return whether no message has arrived yet."""
        return self._transient == 0 and not self._has_stored

    def stores(self) -> bool:
        """Return whether the messages count as stored, so that disk gates stop the link's credit; True at first."""
        return self._transient < LOOK_BACK if self._has_stored else self._transient == 0

    def count(self, messages: i64, largest: i64, stored: bool = False) -> None:
        """Count messages that arrived, with their largest charge; `stored`: at least one message was stored."""
        if messages <= 0:
            return
        if stored:
            self._has_stored = True
            self._transient = 0
        else:
            self._transient += messages
        if largest > self._largest:
            self._largest = largest
        self._seen += messages
        grows = self._grows
        if grows or self._seen_in_all == 0:
            self._seen_in_all += messages
        if self._seen >= LOOK_BACK:
            self._largest_before = self._largest
            self._largest = 0
            self._seen = 0
        charge = self._largest if self._largest > self._largest_before else self._largest_before
        if charge != self.charge or grows:
            self.charge = charge
            self._update_limit()

    def _update_limit(self) -> None:
        limit = self.bytes // self.charge
        if limit > self.messages:
            limit = self.messages
        if self._is_new:
            limit = limit if limit < FIRST_GRANT else FIRST_GRANT
        elif self._grows:
            most = GROWTH * self._seen_in_all
            self._grows = most < limit
            self.is_size_known = self.is_size_known or not self._grows
            limit = limit if limit < most else most
        self._limit = limit if limit > 0 else 1


class CreditSettings:
    """The window and the idle time of one link, as of its attach.

    `queues` are the queues of its road; if they differ, the smallest window and the shortest time count. `words` are
    the properties of the link (`read_link_properties`).
    """

    def __init__(self, table: SettingsTable, queues: list[Queue], values: dict[str, SettingValue]) -> None:
        common = table.resolve(BROKER, "")
        outer: dict[str, Any] = {}
        for name in CREDITS:
            setting = BY_NAME[name]
            outer[name] = stored(setting, common, setting.default)
            if queues:
                outer[name] = min([getattr(queue.settings, setting.field) for queue in queues])
        own = {name: stored(BY_NAME[name], values, outer[name]) for name in CREDITS}
        self.messages: i64 = own["credit-window-messages"]
        self.bytes: i64 = own["credit-window-bytes"]
        """Most credit in messages and bytes, the smaller of the two; UNLIMITED for no limit."""
        self.idle_s: float = min(own["credit-idle"], outer["credit-idle"])
        """Seconds after which idle credit is revoked if others wait; infinity for never. A link only shortens the
        time.
        """

    def window(self, message_octets: i64 = 0) -> CreditWindow:
        """Return the window; `message_octets` is `penstock:message-bytes` of the link, 0 without one."""
        return CreditWindow(self.messages, self.bytes, message_octets)
