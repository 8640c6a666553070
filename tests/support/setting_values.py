"""Settings of queues: names by the kind of their values, and thresholds as they are resolved."""

from __future__ import annotations

from penstock.core.queue.queue_settings import Settings, resolve
from penstock.core.settings.limits import Defaults
from penstock.flow.level import UNLIMITED, Level, Thresholds
from penstock.settings.read import read_arguments
from penstock.settings.table import ALIASES

TEXTS: dict[str, object] = {
    "overflow": "reject",
    "page-full-policy": "drop-new",
    "slow-consumer-policy": "notify",
    "cursor-max-lag-policy": "detach",
    "dead-letter-exchange": "dlx",
    "dead-letter-routing-key": "key",
    "dead-letter-strategy": "at-least-once",
    "auto-create": "true",
    "group-by": "group-id",
    "consumer-window-adaptive": "true",
    "max-age": "7D",
    "retain-time": "7D",
}
"""What is no number."""


NUMBERS = sorted(name for name, ours in ALIASES.items() if ours not in TEXTS)


def in_bytes(capacity: int, stop: int, resume: int) -> Thresholds:
    return Thresholds(Level(UNLIMITED, capacity), Level(UNLIMITED, stop), Level(UNLIMITED, resume))


def settings_of(arguments: dict[str, object], defaults: Defaults | None = None) -> Settings:
    return resolve("q", read_arguments("q", arguments), defaults or Defaults())


Marks = tuple[int | None, int | None, int | None]


def marks(arguments: dict[str, object], unit: str, defaults: Defaults | None = None) -> Marks:
    """Capacity, stop and resume in one unit; None is no limit."""
    found = settings_of(arguments, defaults).thresholds
    return found.capacity.as_dict()[unit], found.stop.as_dict()[unit], found.resume.as_dict()[unit]
