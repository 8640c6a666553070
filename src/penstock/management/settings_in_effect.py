"""Effective settings of the broker, a virtual host, address, user, connection or producer, complete with defaults.

Given settings come with their sources (`origins`), the others with their default or the rule for it.
"""

from __future__ import annotations

from typing import Final

from penstock.core.broker import Broker
from penstock.core.gates.registry import MEMORY_PERCENT
from penstock.core.queue.queue_settings import (
    CREDIT_IDLE_S,
    CREDIT_WINDOW_BYTES,
    CREDIT_WINDOW_MESSAGES,
    DEFAULT_CONSUMER_TIMEOUT_S,
)
from penstock.core.settings.limits import Limits
from penstock.flow.level import UNLIMITED
from penstock.management.effective_settings import scope_settings
from penstock.setting_names import CREDITS
from penstock.setting_names.setting_names import SCOPES
from penstock.setting_names.setting_value import DEFAULT, shown

NO_LIMIT: Final = "no limit"
NOT_SAID: Final = "default"
OF_BROKER: Final = "the broker's"
FOLLOWS: Final = "follows from the capacity"


class _Default:
    """Default value of a setting; None is no limit, or for ever."""

    def __init__(self, value: object, source: str) -> None:
        self.value = value
        self.source = source


CREDIT_DEFAULTS: Final = {
    "credit-window-messages": _Default(CREDIT_WINDOW_MESSAGES, NOT_SAID),
    "credit-window-bytes": _Default(CREDIT_WINDOW_BYTES, NOT_SAID),
    "credit-idle": _Default(CREDIT_IDLE_S, NOT_SAID),
}


def settings_in_effect(broker: Broker, scope: str, name: str) -> list[dict[str, object]]:
    """Return all settings of a scope other than queue, for a name, in the order of the documentation.

    Raises PreconditionFailed (406) if two sources contradict each other.
    """
    given: dict[str, dict[str, object]] = {}
    for row in scope_settings(broker, scope, name):
        given[str(row["setting"])] = row
    limits = broker.table.limits(scope, name)
    rows: list[dict[str, object]] = []
    for setting in SCOPES[scope]:
        if setting in given:
            rows.append(given[setting])
            continue
        found = _of_broker(broker, setting, limits) if scope == "broker" else _of_other(broker, setting, limits)
        rows.append({"setting": setting, "value": found.value, "origin": DEFAULT, "from": found.source})
    return rows


def _of_broker(broker: Broker, setting: str, limits: Limits) -> _Default:
    if setting == "capacity-bytes":
        return _Default(broker.defaults.capacity_bytes, "default of a queue without a setting")
    if setting.startswith("memory-"):
        return _memory(broker, setting, limits)
    if setting == "min-disk-free":
        return _Default(int(limits.disk.free_bytes), NOT_SAID)
    if setting.startswith("disk-"):
        return _disk(setting, limits)
    if setting in CREDITS:
        return CREDIT_DEFAULTS[setting]
    return _common(broker, setting, False)


def _of_other(broker: Broker, setting: str, limits: Limits) -> _Default:
    if setting == "weight":
        return _Default(limits.weight, NOT_SAID)
    if setting == "overflow":
        return _Default("block", NOT_SAID)
    if setting.startswith("disk-"):
        return _disk(setting, limits)
    if setting.startswith("burst-"):
        return _burst(setting, limits)
    if setting.endswith(("-messages", "-bytes")):
        return _Default(None, NO_LIMIT)
    return _common(broker, setting, True)


def _common(broker: Broker, setting: str, inherited: bool) -> _Default:
    """Return the defaults of virtual hosts and addresses, which come from the broker."""
    word = broker.table.resolve("broker", "").get(setting) if inherited else None
    if word is not None:
        return _Default(None if word.none else word.raw, f"{OF_BROKER}: {setting}={shown(word.raw)}")
    if setting == "stop-percent":
        return _Default(_whole(broker.defaults.stop_percent), NOT_SAID)
    if setting == "resume-percent":
        return _Default(_whole(broker.defaults.resume_percent), NOT_SAID)
    if setting == "hold-deadline":
        return _Default(_whole(broker.defaults.hold_deadline_s) or None, NOT_SAID)
    assert setting == "consumer-timeout", setting
    return _Default(round(DEFAULT_CONSUMER_TIMEOUT_S * 1000), NOT_SAID)


def _memory(broker: Broker, setting: str, limits: Limits) -> _Default:
    pool = broker.gates.memory
    if pool is None:
        return _Default(None, "no limit: the memory of this machine is unknown")
    if setting != "memory-capacity":
        level = pool.thresholds.stop if setting == "memory-stop" else pool.thresholds.resume
        return _Default(_number(int(level.bytes)), FOLLOWS)
    if limits.thresholds is not None:
        return _Default(None, NO_LIMIT)
    capacity = int(pool.thresholds.capacity.bytes + pool.reserve)
    return _Default(capacity, f"{MEMORY_PERCENT} % of the machine's memory, by default")


def _disk(setting: str, limits: Limits) -> _Default:
    value = limits.disk.overfull if setting == "disk-overfull" else limits.disk.underfull
    number = _number(int(value))
    return _Default(number, NO_LIMIT if number is None else "follows from disk-overfull")


def _burst(setting: str, limits: Limits) -> _Default:
    in_messages = setting == "burst-messages"
    rate = limits.rate_messages if in_messages else limits.rate_bytes
    if rate is None:
        return _Default(None, "there is no rate")
    if in_messages:
        return _Default(1, "one more than the rate in any second")
    return _Default(_whole(limits.burst_bytes), "a second of the rate")


def _number(value: int) -> int | None:
    return None if value == UNLIMITED else value


def _whole(value: float) -> float | int:
    return int(value) if value.is_integer() else value
