"""Resolution of the settings of streams: limits of what they retain, instead of limits of their depth.

A stream has no capacity. Its depth is what the store has not written yet, which its log bounds; the disk gates bound
the rest. Its `max-length-bytes` and `max-age` are limits of retained messages. Patterns and defaults for the depth,
expiry and dead letters of queues do not apply to streams.
"""

from __future__ import annotations

from typing import Final

from penstock.core.queue.overflow.block import Block
from penstock.core.queue.overflow.page import PagePolicy
from penstock.core.queue.queue_settings import Settings, resolve
from penstock.core.queue.types import STREAM
from penstock.core.settings.limits import Defaults
from penstock.flow.level import Level, Thresholds
from penstock.settings.table import FOR_STREAMS, SettingValue


class AppendPolicy(PagePolicy):
    """The policy of streams: append to the log; a publish waits until earlier messages are written."""

    name = "append"


APPEND: Final = AppendPolicy(Block())


def resolve_type(queue: str, values: dict[str, SettingValue], defaults: Defaults, kind: str) -> Settings:
    """Resolve the settings of a queue, or of a stream; `kind` is the `apply_to` of its type.

    Raises PreconditionFailed (406) as `resolve` does.
    """
    return resolve_stream(values, defaults) if kind == STREAM.apply_to else resolve(queue, values, defaults)


def resolve_stream(values: dict[str, SettingValue], defaults: Defaults) -> Settings:
    """Resolve the settings of a stream; settings that do not apply to streams are left out."""
    own = {name: value for name, value in values.items() if name in FOR_STREAMS}
    settings = Settings(Thresholds(Level(), Level(), Level()), APPEND, own)
    settings.set_common(own, defaults)
    return settings
