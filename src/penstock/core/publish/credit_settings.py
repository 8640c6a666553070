"""Settings of an incoming link's credit: its own, else those of its queues, else the broker's."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.publish.credit_window import CreditWindow
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import (
    CREDIT_IDLE_S,
    CREDIT_WINDOW_BYTES,
    CREDIT_WINDOW_MESSAGES,
    credit_bytes,
    credit_idle_s,
    credit_messages,
)
from penstock.core.settings.table import SettingsTable
from penstock.setting_names import BROKER, SettingValue


class CreditSettings:
    """The window and the idle time of one link, as they are when it attaches.

    `queues` are those of its road; where they differ, the smallest window and the shortest time count. `words` are the
    properties of the link (`read_link_properties`).
    """

    def __init__(self, table: SettingsTable, queues: list[Queue], words: dict[str, SettingValue]) -> None:
        common = table.resolve(BROKER, "")
        messages = credit_messages(common, CREDIT_WINDOW_MESSAGES)
        size = credit_bytes(common, CREDIT_WINDOW_BYTES)
        idle_s = credit_idle_s(common, CREDIT_IDLE_S)
        if queues:
            settings = [queue.settings for queue in queues]
            messages = min([each.credit_window_messages for each in settings])
            size = min([each.credit_window_bytes for each in settings])
            idle_s = min([each.credit_idle_s for each in settings])
        self.messages: i64 = credit_messages(words, messages)
        self.bytes: i64 = credit_bytes(words, size)
        """Most credit, the smaller of both; UNLIMITED for no limit."""
        self.idle_s: float = min(credit_idle_s(words, idle_s), idle_s)
        """Seconds after which credit is taken back if others wait; infinity for never. A link only shortens it."""

    def window(self, message_octets: i64 = 0) -> CreditWindow:
        """Return the window; `message_octets` is `penstock:message-bytes` of the link, 0 without."""
        return CreditWindow(self.messages, self.bytes, message_octets)
