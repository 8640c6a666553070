"""Settings of a consumer: its windows, its rate limit and the slow-consumer threshold."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from penstock.core.queue.queue_settings import Settings, stored
from penstock.flow.credit import UNBOUNDED
from penstock.settings.table import CONSUMERS
from penstock.settings.value import SettingValue

CANCEL: Final = "cancel"


class ConsumerSettings:
    """The arguments of basic.consume, with the queue's settings at that moment as defaults."""

    def __init__(self, settings: Settings, words: dict[str, SettingValue]) -> None:
        own: dict[str, Any] = {}
        for setting in CONSUMERS:
            own[setting.name] = stored(setting, words, getattr(settings, setting.field))
        self.window_bytes: i64 = own["consumer-window-bytes"]
        """Unsettled bytes (charges) that it may have; 0 is one message at a time, -1 unbounded."""
        self.max_rate: float = own["consumer-max-rate"]
        """Most messages a second; -1 for no limit."""
        self.slow_rate: float = own["slow-consumer-rate"]
        """Messages a second below which it is slow; -1 for never."""
        self.slow_period_s: float = own["slow-consumer-period"]
        self.slow_policy: str = own["slow-consumer-policy"]
        """Action on a slow one: notify or cancel."""
        self.adaptive: bool = settings.consumer_window_adaptive
        """True if its deliveries are narrowed to what it needs; only the queue's settings say so, with the bounds."""
        self.window_least: i64 = settings.consumer_window_min
        self.window_most: i64 = settings.consumer_window_max
        """Bounds of the adaptive window, in messages; UNLIMITED for no upper one."""

    def narrower_window(self, prefetch_bytes: i64) -> i64:
        """Return its byte window beside a prefetch in bytes (basic.qos prefetch-size; 0 is none): the narrower one."""
        if prefetch_bytes == 0:
            return self.window_bytes
        if self.window_bytes == UNBOUNDED or prefetch_bytes < self.window_bytes:
            return prefetch_bytes
        return self.window_bytes
