"""Effective settings of a queue or another scope, complete with defaults, each with its source or the rule for it."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.content.properties import answers_control
from penstock.core.broker import Broker
from penstock.core.gates.registry import MEMORY_PERCENT
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import Settings, limiting
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
from penstock.flow.level import UNLIMITED, Level
from penstock.flow.work import Steps
from penstock.settings.table import (
    ARGUMENT,
    BROKER,
    BY_NAME,
    CREDITS,
    DEFAULT,
    JAVAS_CAPACITY,
    LENGTHS,
    PATTERN,
    POLICY,
    RATE,
    SCOPES,
    WITH_FIELD,
    SettingValue,
    shown,
)

MARKS: Final = ("capacity", "stop", "resume")
NO_LIMIT: Final = "no limit"
FOLLOWS: Final = "follows from the capacity"
ROOM: Final = "the capacity less room for what is in flight, by default; at least half of it"
HIDDEN_WORK: Final = 20
"""Units of work to look for settings of a queue that have no effect."""


def queue_settings(broker: Broker, queue: Queue) -> list[dict[str, object]]:
    """Return a queue's settings: each with its value (None is no limit, or for ever), and its source.

    A row with `hides` has the weaker sources, each with the value that it gives. Features of the declaration are last.
    """
    rows = _settings_of(broker, queue)
    settings = queue.settings
    sources = [settings.given]
    for policy in (settings.policies.operator, settings.policies.policy):
        sources += [] if policy is None else [policy.words]
    sources.append(broker.table.resolve("queue", queue.name))
    for row in rows:
        found = [source[str(row["setting"])] for source in sources if row["setting"] in source]
        hides: list[dict[str, object]] = [
            {"value": shown(word.raw), "from": source_of(word)}
            for word in found
            if word.origin != row["origin"] or (word.pattern, word.by) != (row.get("pattern", ""), row.get("by", ""))
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
            ("x-queue-type", "quorum" if features.quorum else "classic"),
            ("x-max-priority", features.max_priority or None),
            ("x-single-active-consumer", features.single_active),
        )
    ]


def _settings_of(broker: Broker, queue: Queue) -> list[dict[str, object]]:
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
    if queue.overflow.pages:
        for name, unit in (("page-limit-messages", "messages"), ("page-limit-bytes", "bytes")):
            rows.append(_row(name, _level(settings.page_limit, unit), words.get(name), "no limit"))
        full = words.get("page-full-policy")
        rows.append(_row("page-full-policy", "block" if full is None else full.text, full, "default"))
    for setting in WITH_FIELD:
        value, otherwise = setting.kind.shown(getattr(settings, setting.field)), "default"
        if setting.name == "delivery-limit":
            value = setting.kind.shown(int(queue.delivery_limit()))
            otherwise = f"default of {'quorum' if queue.features.quorum else 'classic'} queues"
        rows.append(_row(setting.name, value, words.get(setting.name), otherwise))
    return rows


def hidden_steps(broker: Broker, queues: list[Queue], words: dict[str, SettingValue]) -> Steps[list[str]]:
    """Return sentences on settings of these queues that have no effect, each with the source that is stronger.

    A setting that only more specific patterns hide is reported if they hide it for all queues.
    """
    found: dict[tuple[str, str], list[str]] = {}
    of_patterns: set[str] = set()
    queues = [queue for queue in queues if not answers_control(queue.name)]
    for queue in queues:
        if broker.work.spend(HIDDEN_WORK):
            yield
        for setting, other in hidden(broker, queue, queue.settings, words):
            found.setdefault((setting, source_of(other)), []).append(queue.name)
            if other.origin == PATTERN and other.override == words[setting].override:
                of_patterns.add(source_of(other))
    return [
        hidden_sentence(words[setting], source, names)
        for (setting, source), names in found.items()
        if source not in of_patterns or len(names) == len(queues)
    ]


def hidden(
    broker: Broker, queue: Queue, settings: Settings, words: dict[str, SettingValue]
) -> list[tuple[str, SettingValue]]:
    """Return those of these settings that another value is in effect of at a queue, each with that value."""
    found = broker.table.resolve_queue(queue.vhost, queue.name, settings.given, settings.policies)
    found = limiting(queue.name, found, settings.overflow)
    rows: list[tuple[str, SettingValue]] = []
    for setting, word in words.items():
        other = found.get(setting, found.get(LENGTHS.get(setting, "")))
        mark, _, unit = setting.partition("-")
        if unit == "percent":
            other = _instead(found, mark, settings.thresholds.stop) or other
        if other is not None and other.value() != word.value() and (other.alias, other.raw) != (word.alias, word.raw):
            rows.append((setting, other))
    return rows


def _instead(words: dict[str, SettingValue], mark: str, limit: Level) -> SettingValue | None:
    """Return the number that is in effect instead of a percentage; None if that is, in any unit with a `limit`."""
    share, found = words.get(f"{mark}-percent"), None
    for unit in ("messages", "bytes"):
        if _level(limit, unit) is not None:
            found = words.get(f"{mark}-{unit}")
            if found is None or (share is not None and share.rank < found.rank):
                return None
    return found


def hidden_sentence(word: SettingValue, source: str, queues: list[str]) -> str:
    """Return the sentence that a setting has no effect on queues, with the source that is stronger."""
    advice = "" if word.override or word.origin == POLICY else "; `penstock set --override` is stronger than all"
    return f"{word.alias}={shown(word.raw)} has no effect on queue {some(queues)}: {source} is stronger{advice}"


def some(names: list[str]) -> str:
    """Return the first names of a list, and the number of the others."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def source_of(word: SettingValue) -> str:
    """Return a value as given, with its source before."""
    given = f"{word.alias}={shown(word.raw)}"
    return f"argument {given}" if word.origin == ARGUMENT else f"{word.source()}: {given}"


def scope_settings(broker: Broker, scope: str, name: str) -> list[dict[str, object]]:
    """Return all settings of a scope other than queue, for a name, in the order of the documentation.

    Raises PreconditionFailed (406) if two sources contradict each other.
    """
    words = broker.table.resolve(scope, name)
    limits = broker.table.limits(scope, name)
    rows: list[dict[str, object]] = []
    for setting in SCOPES[scope]:
        word = words.get(setting)
        value = None if word is None or word.none else word.raw
        otherwise = FOLLOWS
        mark, _, unit = setting.partition("-")
        if limits.thresholds is not None and scope != BROKER and mark in MARKS and unit in ("messages", "bytes"):
            level: Level = getattr(limits.thresholds, mark)
            value = _level(level, unit)
        if word is None and value is None:
            value, otherwise = _default(broker, scope, setting, limits)
        rows.append(_row(setting, value, word, otherwise))
    return rows


def _default(broker: Broker, scope: str, name: str, limits: Limits) -> tuple[object, str]:
    """Return the value of a setting that was not given, None for no limit or for ever, and where it comes from."""
    if name == "capacity-bytes" and scope == BROKER:
        return broker.defaults.capacity_bytes, "default of a queue without a setting"
    if name.startswith("memory-"):
        return _memory(broker, name, limits)
    if name == "min-disk-free":
        return int(limits.disk.free_bytes), "default"
    if name.startswith("disk-"):
        number = _or_unlimited(limits.disk.overfull if name == "disk-overfull" else limits.disk.underfull)
        return number, NO_LIMIT if number is None else "follows from disk-overfull"
    if name == "weight":
        return limits.weight, "default"
    if name == "overflow":
        return "block", "default"
    if name.startswith("burst-"):
        return _burst(name, limits)
    if name.endswith(("-messages", "-bytes")) and name not in CREDITS:
        return None, NO_LIMIT
    word = broker.table.resolve(BROKER, "").get(name)
    if word is not None:
        return None if word.none else word.raw, f"the broker's: {name}={shown(word.raw)}"
    setting = BY_NAME[name]
    value = setting.kind.shown(getattr(broker.defaults, setting.field, setting.default))
    return (value or None) if name == "hold-deadline" else value, "default"


def _memory(broker: Broker, name: str, limits: Limits) -> tuple[object, str]:
    pool = broker.gates.memory
    if pool is None:
        return None, "no limit: the memory of this machine is unknown"
    if name != "memory-capacity":
        level = pool.thresholds.stop if name == "memory-stop" else pool.thresholds.resume
        return _level(level, "bytes"), FOLLOWS
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
    row: dict[str, object] = {
        "setting": setting,
        "value": value,
        "origin": word.origin,
        "from": source_of(word),
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
