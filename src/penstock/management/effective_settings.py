"""Effective settings of a queue or another scope, each with its source."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.broker import Broker
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import NO_RATE, UNBOUNDED, LagLimit, limiting
from penstock.core.settings.thresholds import (
    Defaults,
    absolute,
    cut,
    has_one_mark,
    is_explicit,
    number_or_none,
    opens_below,
)
from penstock.flow.level import UNLIMITED, Level
from penstock.flow.timers import NEVER
from penstock.setting_names import SettingValue
from penstock.setting_names.setting_names import JAVAS_CAPACITY, SCOPES
from penstock.setting_names.setting_value import ARGUMENT, DEFAULT, shown

ROOM: Final = "the capacity less room for what is in flight, by default; at least half of it"


def queue_settings(broker: Broker, queue: Queue) -> list[dict[str, object]]:
    """Return a queue's settings: each with its value (None is no limit, or for ever), and its source."""
    settings = queue.settings
    words = broker.table.resolve_queue(queue.vhost, queue.name, settings.given, settings.policies)
    rows: list[dict[str, object]] = []
    words = limiting(queue.name, words, settings.overflow)
    for unit in ("messages", "bytes"):
        rows += _thresholds(words, unit, queue, broker.defaults)
    for name, unit in (("max-length", "messages"), ("max-length-bytes", "bytes")):
        if name in words:
            row = _row(name, _level(settings.length, unit), words[name], "no limit")
            rows.append({**row, "from": f"{row['from']}; of what is ready"})
    policy = words.get("overflow")
    implied = "its length goes by RabbitMQ's name" if queue.overflow.name == "drop-head" else "default"
    rows.append(_row("overflow", queue.overflow.name, policy, implied))
    times: list[tuple[str, object]] = [
        ("hold-deadline", _or_none(settings.hold_deadline_s, NEVER)),
        ("message-ttl", None if settings.message_ttl_s == NEVER else round(settings.message_ttl_s * 1000)),
        ("expires", None if settings.expires_s == NEVER else round(settings.expires_s * 1000)),
        (
            "consumer-timeout",
            None if settings.consumer_timeout_s == NEVER else round(settings.consumer_timeout_s * 1000),
        ),
        ("consumer-window-bytes", _or_none(float(settings.consumer_window_bytes), float(UNBOUNDED))),
        ("consumer-window-adaptive", settings.consumer_window_adaptive),
        ("consumer-window-min", int(settings.consumer_window_min)),
        ("consumer-window-max", _or_unlimited(settings.consumer_window_max)),
        ("consumer-max-rate", _or_none(settings.consumer_max_rate, NO_RATE)),
        ("slow-consumer-rate", _or_none(settings.slow_consumer_rate, NO_RATE)),
        ("slow-consumer-period", settings.slow_consumer_period_s),
        ("slow-consumer-policy", settings.slow_consumer_policy),
        *_lag_limits(settings.lag_limit),
        ("credit-window-messages", _or_unlimited(settings.credit_window_messages)),
        ("credit-window-bytes", _or_unlimited(settings.credit_window_bytes)),
        ("credit-idle", _or_none(settings.credit_idle_s, NEVER)),
        ("auto-create", settings.auto_create),
    ]
    for name, value in times:
        rows.append(_row(name, value, words.get(name), "default"))
    return rows


def _lag_limits(limit: LagLimit | None) -> list[tuple[str, object]]:
    given = LagLimit(UNLIMITED, UNLIMITED, NEVER, False) if limit is None else limit
    return [
        ("cursor-max-lag-messages", _or_unlimited(given.messages)),
        ("cursor-max-lag-bytes", _or_unlimited(given.bytes)),
        ("cursor-max-lag-age", _or_none(given.age_s, NEVER)),
        ("cursor-max-lag-policy", "detach" if given.detaches else "tell"),
    ]


def scope_settings(broker: Broker, scope: str, name: str) -> list[dict[str, object]]:
    """Return the settings given for a scope other than queue, with their sources; others are omitted.

    Raises PreconditionFailed (406) if two sources contradict each other.
    """
    words = broker.table.resolve(scope, name)
    limits = broker.table.limits(scope, name)
    rows: list[dict[str, object]] = []
    thresholds = limits.thresholds
    for setting in SCOPES[scope]:
        word = words.get(setting)
        value = None if word is None or word.none else word.raw
        mark, _, unit = setting.partition("-")
        if thresholds is not None and scope != "broker" and unit in ("messages", "bytes"):
            levels = {"capacity": thresholds.capacity, "stop": thresholds.stop, "resume": thresholds.resume}
            if mark in levels:
                value = _level(levels[mark], unit)
        if word is not None or value is not None:
            rows.append(_row(setting, value, word, "follows from the capacity"))
    return rows


def _thresholds(words: dict[str, SettingValue], unit: str, queue: Queue, defaults: Defaults) -> list[dict[str, object]]:
    thresholds = queue.thresholds
    capacity_name = "capacity-" + unit
    capacity = words.get(capacity_name)
    given = number_or_none(words.get("capacity-messages"))
    if unit == "bytes" and given is not None and not is_explicit(capacity):
        capacity = None
    number = _level(thresholds.capacity, unit)
    default = "default" if number is not None else "no limit"
    rows = [_row(capacity_name, number, capacity, default)]
    if capacity is not None and capacity.alias in JAVAS_CAPACITY and number is not None:
        rows[0]["from"] = f"{rows[0]['from']}; derived, a quarter above the stop and at least 16 KiB"
    for mark, level, share in (
        ("stop", thresholds.stop, defaults.stop_percent),
        ("resume", thresholds.resume, defaults.resume_percent),
    ):
        name = f"{mark}-{unit}"
        word = absolute(words, mark, unit, number)
        value = _level(level, unit)
        if word is not None or value is None:
            rows.append(_row(name, value, word, "no limit"))
            continue
        percent = words.get(mark + "-percent")
        if number is None or (percent is not None and percent.none):
            rows.append(_row(name, value, percent, "the stop"))
            continue
        otherwise = f"{share:g} % of the capacity, by default"
        if mark == "resume" and value == _level(thresholds.stop, unit):
            otherwise = "the stop"
        elif mark == "stop" and has_one_mark(words, unit):
            otherwise = "the capacity: by this name the gate closes there"
        elif mark == "resume" and opens_below(words, unit, None) and value == cut(number, share) - 1:
            otherwise = f"{share:g} % of the capacity, by default; by this name the gate opens below"
        elif percent is None and value < cut(number, share):
            otherwise = ROOM if mark == "stop" else "seven eighths of the stop, which is lower than by default"
        elif mark == "stop" and value == _level(thresholds.resume, unit) and is_explicit(words.get(f"resume-{unit}")):
            otherwise = "the resume, to which the default gives way"
        rows.append(_row(name, value, percent, otherwise))
    return rows


def _row(setting: str, value: object, word: SettingValue | None, otherwise: str) -> dict[str, object]:
    """Return one line: a setting's source or, without one, the rule for its default."""
    if word is None:
        return {"setting": setting, "value": value, "origin": DEFAULT, "from": otherwise}
    given = f"{word.alias}={shown(word.raw)}"
    row: dict[str, object] = {
        "setting": setting,
        "value": value,
        "origin": word.origin,
        "from": f"argument {given}" if word.origin == ARGUMENT else f"{word.source()}: {given}",
        "name": word.alias,
        "given": shown(word.raw),
    }
    if word.origin != ARGUMENT:
        row["pattern"] = word.pattern
        row["by"] = word.by
    return row


def _level(level: Level, unit: str) -> int | None:
    number = int(level.messages) if unit == "messages" else int(level.bytes)
    return None if number == UNLIMITED else number


def _or_unlimited(number: i64) -> int | None:
    return None if number == UNLIMITED else int(number)


def _or_none(value: float, none: float) -> float | int | None:
    if value == none:
        return None
    return int(value) if value.is_integer() else value
