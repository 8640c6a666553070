"""Settings of an incoming link's credit: its own, else those of its queues, else the broker's."""

from __future__ import annotations

from typing import Any

from mypy_extensions import i64

from penstock.core.publish.credit_window import CreditWindow
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import stored
from penstock.core.settings.table import SettingsTable
from penstock.settings.table import BY_NAME, CREDITS
from penstock.settings.value import BROKER, SettingValue


class CreditSettings:
    """The window and the idle time of one link, as they are when it attaches.

    `queues` are those of its road; where they differ, the smallest window and the shortest time count. `words` are the
    properties of the link (`read_link_properties`).
    """

    def __init__(self, table: SettingsTable, queues: list[Queue], words: dict[str, SettingValue]) -> None:
        common = table.resolve(BROKER, "")
        outer: dict[str, Any] = {}
        for name in CREDITS:
            setting = BY_NAME[name]
            outer[name] = stored(setting, common, setting.default)
            if queues:
                outer[name] = min([getattr(queue.settings, setting.field) for queue in queues])
        own = {name: stored(BY_NAME[name], words, outer[name]) for name in CREDITS}
        self.messages: i64 = own["credit-window-messages"]
        self.bytes: i64 = own["credit-window-bytes"]
        """Most credit, the smaller of both; UNLIMITED for no limit."""
        self.idle_s: float = min(own["credit-idle"], outer["credit-idle"])
        """Seconds after which credit is taken back if others wait; infinity for never. A link only shortens it."""

    def window(self, message_octets: i64 = 0) -> CreditWindow:
        """Return the window; `message_octets` is `penstock:message-bytes` of the link, 0 without."""
        return CreditWindow(self.messages, self.bytes, message_octets)
