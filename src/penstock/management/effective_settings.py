"""Effective settings of a queue or another scope, complete with defaults, each with its source or the rule for it."""

from __future__ import annotations

from typing import Final

from penstock.content.properties import answers_control
from penstock.core.broker import Broker
from penstock.core.gates.registry import MEMORY_PERCENT
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import LENGTH_BYTES, Settings, limiting
from penstock.core.queue.types import QUEUE_TYPE
from penstock.core.settings.limits import (
    Defaults,
    Limits,
    absolute,
    cut,
    has_one_mark,
    is_explicit,
    number_or_none,
    opens_below,
)
from penstock.describe.table import or_none
from penstock.flow.level import UNLIMITED, Level
from penstock.flow.work import Steps
from penstock.settings.table import (
    ALARM_DEFAULTS,
    ARGUMENT,
    BROKER,
    BY_NAME,
    CREDITS,
    DEFAULT,
    FOR_STREAMS,
    JAVAS_CAPACITY,
    LENGTHS,
    OF_STREAMS,
    PATTERN,
    POLICY,
    RATE,
    SCOPES,
    WITH_FIELD,
    SettingValue,
    shown,
)

MARKS: Final[tuple[str, ...]] = ("capacity", "stop", "resume")
NO_LIMIT: Final = "no limit"
FOLLOWS: Final = "follows from the capacity"
ROOM: Final = "the capacity less room for what is in flight, by default; at least half of it"
HIDDEN_WORK: Final = 20
"""Units of work to look for settings of a queue that have no effect."""


def queue_settings(broker: Broker, queue: Queue) -> list[dict[str, object]]:
    """Return a queue's settings: each with its value (None is no limit, or for ever), and its source.

    The `hides` of a row are the weaker sources, each with its value. Features of the declaration are last.
    """
    rows = _settings_of(broker, queue)
    settings = queue.settings
    sources = [settings.given]
    for policy in (settings.policies.operator, settings.policies.policy):
        sources += [] if policy is None else [policy.values]
    sources.append(broker.table.resolve("queue", queue.name, queue.vhost))
    for row in rows:
        found = [source[str(row["setting"])] for source in sources if row["setting"] in source]
        hides: list[dict[str, object]] = [
            {"value": shown(value.raw), "from": source_of(value)}
            for value in found
            if value.origin != row["origin"]
            or (value.pattern, value.by, value.vhost) != (row.get("pattern", ""), row.get("by", ""), row.get("vhost"))
        ]
        if hides:
            row["hides"] = hides
    return rows + _features_of(queue)


def _features_of(queue: Queue) -> list[dict[str, object]]:
    features = queue.features
    return [
        {
            "setting": argument.removeprefix("x-"),
            "value": value,
            "origin": ARGUMENT if argument in queue.arguments else DEFAULT,
            "from": f"argument {argument}={shown(queue.arguments[argument])}"
            if argument in queue.arguments
            else "default",
        }
        for argument, value in (
            (QUEUE_TYPE, features.type.name),
            ("x-max-priority", features.max_priority or None),
            ("x-single-active-consumer", features.single_active),
        )
    ]


def _settings_of(broker: Broker, queue: Queue) -> list[dict[str, object]]:
    settings = queue.settings
    values = broker.table.resolve_queue(queue.vhost, queue.name, settings.given, settings.policies)
    rows: list[dict[str, object]] = []
    if queue.features.type.retains:
        retained = None if settings.log_bytes == UNLIMITED else int(settings.log_bytes)
        rows.append(_row(LENGTH_BYTES, retained, values.get(LENGTH_BYTES), "no limit"))
        return rows + _rows_of_fields(queue, values)
    values, _ = limiting(queue.name, values)
    for unit in ("messages", "bytes"):
        rows += _thresholds(values, unit, queue, broker.defaults)
    for name, unit in (("max-length", "messages"), (LENGTH_BYTES, "bytes")):
        if name in values:
            row = _row(name, settings.length.as_dict()[unit], values[name], "no limit")
            rows.append({**row, "from": f"{row['from']}; of what is ready; beyond, {settings.at_length.name}"})
    rows.append(_overflow(queue, values.get("overflow")))
    if queue.overflow.pages:
        for name, unit in (("page-limit-messages", "messages"), ("page-limit-bytes", "bytes")):
            rows.append(_row(name, settings.page_limit.as_dict()[unit], values.get(name), "no limit"))
        full = values.get("page-full-policy")
        rows.append(_row("page-full-policy", "block" if full is None else full.text, full, "default"))
    return rows + _rows_of_fields(queue, values)


def _rows_of_fields(queue: Queue, values: dict[str, SettingValue]) -> list[dict[str, object]]:
    """Return the rows of settings with a field of their own, as far as they apply to the type of the queue."""
    settings, retains = queue.settings, queue.features.type.retains
    rows: list[dict[str, object]] = []
    for setting in WITH_FIELD:
        if setting.name not in FOR_STREAMS if retains else setting.name in OF_STREAMS:
            continue
        value, otherwise = setting.shown(getattr(settings, setting.field)), "default"
        if setting.name == "delivery-limit":
            value = setting.shown(int(queue.delivery_limit()))
            otherwise = f"default of {queue.features.type.name} queues"
        rows.append(_row(setting.name, value, values.get(setting.name), otherwise))
    return rows


def _overflow(queue: Queue, chosen: SettingValue | None) -> dict[str, object]:
    """Return the row of the overflow policy at the capacity, which may differ from the configured one."""
    policy = queue.settings.overflow
    if chosen is None or chosen.text == policy.name:
        row = _row("overflow", policy.name, chosen, "default")
    elif queue.settings.length.unlimited():
        row = _row("overflow", policy.name, None, f"the capacity is not beside {source_of(chosen)}")
    else:
        row = _row("overflow", policy.name, None, f"{source_of(chosen)} is of the length")
    return row if queue.settings.length.unlimited() else {**row, "from": f"{row['from']}; at the capacity"}


def hidden_steps(broker: Broker, queues: list[Queue], values: dict[str, SettingValue]) -> Steps[list[str]]:
    """Return sentences on settings of these queues that have no effect, each with the stronger source.

    A setting that only more specific patterns hide is reported if they hide it for all queues.
    """
    hidden_values: dict[tuple[str, str], list[str]] = {}
    of_patterns: set[str] = set()
    queues = [queue for queue in queues if not answers_control(queue.name)]
    for queue in queues:
        if broker.work.spend(HIDDEN_WORK):
            yield
        for setting, other in hidden(broker, queue, queue.settings, values):
            hidden_values.setdefault((setting, source_of(other)), []).append(queue.name)
            if other.origin == PATTERN and other.override == values[setting].override:
                of_patterns.add(source_of(other))
    return [
        hidden_sentence(values[setting], source, names)
        for (setting, source), names in hidden_values.items()
        if source not in of_patterns or len(names) == len(queues)
    ]


def hidden(
    broker: Broker, queue: Queue, settings: Settings, values: dict[str, SettingValue]
) -> list[tuple[str, SettingValue]]:
    """Return the settings that another value overrides at a queue, each with the value in effect."""
    effective = broker.table.resolve_queue(queue.vhost, queue.name, settings.given, settings.policies)
    effective, _ = limiting(queue.name, effective)
    rows: list[tuple[str, SettingValue]] = []
    for setting, value in values.items():
        other = effective.get(setting, effective.get(LENGTHS.get(setting, "")))
        mark, _, unit = setting.partition("-")
        if unit == "percent":
            other = _instead(effective, mark, settings.thresholds.stop) or other
        if (
            other is not None
            and other.value() != value.value()
            and (other.alias, other.raw) != (value.alias, value.raw)
        ):
            rows.append((setting, other))
    return rows


def _instead(values: dict[str, SettingValue], mark: str, limit: Level) -> SettingValue | None:
    """Return the number in effect instead of a percentage; None if the percentage is in effect in any limited unit."""
    share, value = values.get(f"{mark}-percent"), None
    for unit in ("messages", "bytes"):
        if limit.as_dict()[unit] is not None:
            value = values.get(f"{mark}-{unit}")
            if value is None or (share is not None and share.rank < value.rank):
                return None
    return value


def hidden_sentence(value: SettingValue, source: str, queues: list[str]) -> str:
    """Return the sentence that a setting has no effect on queues, with the stronger source."""
    advice = "" if value.override or value.origin == POLICY else "; `set --override` is stronger than all"
    return f"{value.alias}={shown(value.raw)} has no effect on queue {some(queues)}: {source} is stronger{advice}"


NAMES_TOLD: Final = 3
"""Most names of a list in a sentence."""


def some(names: list[str], count: int = 0) -> str:
    """Return the first names of a list, and the number of further names; `count` counts all, if `names` lacks some."""
    more = (count or len(names)) - NAMES_TOLD
    return ", ".join(names[:NAMES_TOLD]) + (f" and {more:,} more" if more > 0 else "")


def matches_sentences(subject: str, scope: str, names: list[str], count: int) -> list[str]:
    """Return what a pattern matches: its first names, and the number of all."""
    if not count:
        return [f"{subject} matches no {scope} yet; it will apply to new ones"]
    return [f"{subject} matches {some(names, count)}"]


def source_of(value: SettingValue) -> str:
    """Return a value as given, preceded by its source."""
    given = f"{value.alias}={shown(value.raw)}"
    return f"argument {given}" if value.origin == ARGUMENT else f"{value.source()}: {given}"


def scope_settings(
    broker: Broker, scope: str, name: str, given: dict[str, SettingValue] | None = None, vhost: str | None = None
) -> list[dict[str, object]]:
    """Return all settings of a scope other than queue, for a name, in the order of the documentation.

    `given` are the settings of one connection; `vhost` is the virtual host of an exchange. Raises PreconditionFailed
    (406) if two sources contradict each other.
    """
    values = broker.table.resolve(scope, name, vhost) | (given or {})
    limits = broker.table.limits(scope, name, given, vhost)
    rows: list[dict[str, object]] = []
    for setting in SCOPES[scope]:
        setting_value = values.get(setting)
        value = None if setting_value is None or setting_value.none else setting_value.raw
        otherwise = FOLLOWS
        mark, _, unit = setting.partition("-")
        if limits.thresholds is not None and scope != BROKER and mark in MARKS and unit in ("messages", "bytes"):
            level: Level = getattr(limits.thresholds, mark)
            value = level.as_dict()[unit]
        if setting_value is None and value is None:
            value, otherwise = _default(broker, scope, setting, limits)
        rows.append(_row(setting, value, setting_value, otherwise))
    return rows


def _default(broker: Broker, scope: str, name: str, limits: Limits) -> tuple[object, str]:
    """Return the default of a setting, None for no limit or for ever, and the origin of the default."""
    if name == "capacity-bytes" and scope == BROKER:
        return broker.defaults.capacity_bytes, "default of a queue without a setting"
    if name.startswith("memory-"):
        return _memory(broker, name, limits)
    if name in ALARM_DEFAULTS:
        return ALARM_DEFAULTS[name], "default"
    if name == "min-disk-free":
        return int(limits.disk.free_bytes), "default"
    if name.startswith("disk-"):
        number = or_none(limits.disk.overfull if name == "disk-overfull" else limits.disk.underfull)
        return number, NO_LIMIT if number is None else "follows from disk-overfull"
    if name == "weight":
        return limits.weight, "default"
    if name == "overflow":
        return "block", "default"
    if name.startswith("burst-"):
        return _burst(name, limits)
    if name.endswith(("-messages", "-bytes")) and name not in CREDITS:
        return None, NO_LIMIT
    setting_value = broker.table.resolve(BROKER, "").get(name)
    if setting_value is not None:
        return None if setting_value.none else setting_value.raw, f"the broker's: {name}={shown(setting_value.raw)}"
    setting = BY_NAME[name]
    value = setting.shown(getattr(broker.defaults, setting.field, setting.default))
    return (value or None) if name == "hold-deadline" else value, "default"


def _memory(broker: Broker, name: str, limits: Limits) -> tuple[object, str]:
    pool = broker.gates.memory
    if pool is None:
        return None, "no limit: the memory of this machine is unknown"
    if name != "memory-capacity":
        level = pool.thresholds.stop if name == "memory-stop" else pool.thresholds.resume
        return level.as_dict()["bytes"], FOLLOWS
    if limits.thresholds is not None:
        return None, NO_LIMIT
    capacity = int(pool.thresholds.capacity.bytes + pool.reserve)
    return capacity, f"{MEMORY_PERCENT} % of the machine's memory, by default"


def _burst(name: str, limits: Limits) -> tuple[object, str]:
    in_messages = name == "burst-messages"
    if (limits.rate_messages if in_messages else limits.rate_bytes) is None:
        return None, "there is no rate"
    if in_messages:
        return 1, "one more than the rate in any second"
    return RATE.shown(limits.burst_bytes), "a second of the rate"


def _thresholds(
    values: dict[str, SettingValue], unit: str, queue: Queue, defaults: Defaults
) -> list[dict[str, object]]:
    thresholds = queue.thresholds
    capacity_name = "capacity-" + unit
    capacity = values.get(capacity_name)
    given = number_or_none(values.get("capacity-messages"))
    if unit == "bytes" and given is not None and not is_explicit(capacity):
        capacity = None
    number = thresholds.capacity.as_dict()[unit]
    default = "default" if number is not None else "no limit"
    rows = [_row(capacity_name, number, capacity, default)]
    if capacity is not None and capacity.alias in JAVAS_CAPACITY and number is not None:
        rows[0]["from"] = f"{rows[0]['from']}; derived, a quarter above the stop and at least 16 KiB"
    for mark, level, share in (
        ("stop", thresholds.stop, defaults.stop_percent),
        ("resume", thresholds.resume, defaults.resume_percent),
    ):
        name = f"{mark}-{unit}"
        setting_value = absolute(values, mark, unit, number)
        value = level.as_dict()[unit]
        if setting_value is not None or value is None:
            rows.append(_row(name, value, setting_value, "no limit"))
            continue
        percent = values.get(mark + "-percent")
        if number is None or (percent is not None and percent.none):
            rows.append(_row(name, value, percent, "the stop"))
            continue
        otherwise = f"{share:g} % of the capacity, by default"
        if unit == "messages" and percent is None and value == queue.settings.length.messages:
            otherwise = "the length, to which the default gives way"
        elif mark == "resume" and value == thresholds.stop.as_dict()[unit]:
            otherwise = "the stop"
        elif mark == "stop" and has_one_mark(values, unit):
            otherwise = "the capacity: by this name the gate closes there"
        elif mark == "resume" and opens_below(values, unit, None) and value == cut(number, share) - 1:
            otherwise = f"{share:g} % of the capacity, by default; by this name the gate opens below"
        elif percent is None and value < cut(number, share):
            otherwise = ROOM if mark == "stop" else "seven eighths of the stop, which is lower than by default"
        elif (
            mark == "stop" and value == thresholds.resume.as_dict()[unit] and is_explicit(values.get(f"resume-{unit}"))
        ):
            otherwise = "the resume, to which the default gives way"
        rows.append(_row(name, value, percent, otherwise))
    return rows


def _row(setting: str, value: object, setting_value: SettingValue | None, otherwise: str) -> dict[str, object]:
    """Return one line: a setting's source or, without one, the rule for its default."""
    if setting_value is None:
        return {"setting": setting, "value": value, "origin": DEFAULT, "from": otherwise}
    row: dict[str, object] = {
        "setting": setting,
        "value": value,
        "origin": setting_value.origin,
        "from": source_of(setting_value),
        "name": setting_value.alias,
        "given": shown(setting_value.raw),
    }
    if setting_value.origin != ARGUMENT:
        row["pattern"] = setting_value.pattern
        row["by"] = setting_value.by
        if setting_value.vhost is not None:
            row["vhost"] = setting_value.vhost
    return row
