"""Configuration of a broker, as it is in effect: every setting with its source, without secrets (`penstock config`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.settings.table import SettingsEntry
from penstock.flow.work import Steps
from penstock.management.control_request import ControlRequest
from penstock.management.settings_in_effect import settings_in_effect
from penstock.setting_names.setting_value import DEFAULT, SettingValue

if TYPE_CHECKING:
    from penstock.management.node import Node

ROW_WORK: Final = 3
"""Units of work per pattern and per setting of one."""
RUN_TIME: Final = "run-time change"
"""Source of a setting by `penstock set`, an import of definitions, or the HTTP API."""


def show(node: Node, request: ControlRequest) -> Steps[dict[str, object]]:
    """Answer config.show: the start-up settings, those of the broker, and all patterns."""
    return (yield from rows_steps(node))


def rows_steps(node: Node) -> Steps[dict[str, object]]:
    """Return the configuration: `start` and `broker` have all settings, `patterns` those that are set."""
    file = node.start_settings.file
    patterns: list[dict[str, object]] = []
    work = node.broker.work
    of_broker: SettingsEntry | None = None
    for entry in node.broker.table.entries():
        work.done += ROW_WORK * (1 + len(entry.command) + len(entry.file))
        if work.used_up():
            yield
        if entry.scope == "broker":
            of_broker = entry
            continue
        for name, word in entry.file.items():
            if name not in entry.command:
                patterns.append(_row(entry, name, word, _position(file, word)))
        for name, word in entry.command.items():
            patterns.append(_row(entry, name, word, RUN_TIME))
    return {
        "file": file or None,
        "start": node.start_settings.rows,
        "broker": _of_broker(node, of_broker),
        "patterns": patterns,
    }


def _of_broker(node: Node, entry: SettingsEntry | None) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for row in settings_in_effect(node.broker, "broker", ""):
        name, source = str(row["setting"]), str(row["from"])
        if entry is not None and name in entry.command:
            source = RUN_TIME
        elif entry is not None and name in entry.file:
            source = _position(node.start_settings.file, entry.file[name])
        elif row["origin"] == DEFAULT:
            source = DEFAULT
        rows.append({"setting": name, "value": row["value"], "from": source})
    return rows


def _row(entry: SettingsEntry, name: str, word: SettingValue, source: str) -> dict[str, object]:
    return {"scope": entry.scope, "pattern": entry.pattern, "setting": name, "value": word.raw, "from": source}


def _position(file: str, word: SettingValue) -> str:
    """Return the position of a setting in the settings file: FILE:LINE."""
    return f"{file}:{word.place.removeprefix(' line ')}" if word.place else file


class StartSettings:
    """Start-up settings of a broker as rows, which the server provides: `setting`, `value`, `default` and `from`."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []
        self.file: str = ""
        """Path of the settings file; empty without one."""
