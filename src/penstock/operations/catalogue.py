"""The settings and the keys of policies that there are, with what each means and which values it takes.

They are the rows of the table of settings (settings/table.py) and of the settings at the start, for the console's
dialogs and other tools.
"""

from __future__ import annotations

from typing import Final

from penstock.access.permission import ADMINISTRATOR, MANAGEMENT
from penstock.connections.control_request import ControlRequest
from penstock.core.queue.types import TYPES
from penstock.core.settings.policies import (
    ALL,
    ALTERNATE,
    EXCHANGES,
    OF_OPERATORS,
    UPSTREAM,
    UPSTREAM_PATTERN,
    UPSTREAM_SET,
)
from penstock.core.settings.policy_reader import apply_to_words
from penstock.describe.table import Row
from penstock.management.node import Node
from penstock.management.operation import NODE, Operation, Route, looking
from penstock.settings.kind import Number
from penstock.settings.read import KEYS_WITHOUT_EFFECT
from penstock.settings.start import NAMES, RULES
from penstock.settings.table import BY_NAME, OURS, SETTINGS, WITHOUT_FIELD, Setting


def _row(setting: Setting) -> Row:
    kind = setting.kind
    return {
        "setting": setting.name,
        "scopes": setting.scopes.split(),
        "meaning": setting.meaning.replace("`", ""),
        "values": kind.values.replace("`", ""),
        "unit": kind.unit if isinstance(kind, Number) else "",
        "default": None if setting.default == WITHOUT_FIELD else setting.shown(setting.default),
        "types": setting.types.split(),
    }


def settings(node: Node, request: ControlRequest) -> Row:
    """Answer all settings by pattern; for an administrator also those at the start, with their values."""
    start: list[Row] = []
    if request.access.rules.has_tag(ADMINISTRATOR):
        for row in node.start_settings.rows:
            rule = RULES[NAMES[str(row["setting"])]] if row["setting"] in NAMES else None
            words = "" if rule is None else rule.kind.values or f"{rule.kind.rule()}"
            reloaded = rule is not None and rule.reloadable
            start.append({**row, "values": words.replace("`", ""), "takes_effect": "reload" if reloaded else "restart"})
    return {
        "settings": [_row(setting) for setting in SETTINGS],
        "start": start,
        "file": node.start_settings.file or None,
    }


def policy_keys(node: Node, request: ControlRequest) -> Row:
    """Answer all keys that a policy may have: those of settings of queues, of exchanges, and those without effect."""
    keys: list[Row] = []
    for key in OURS:
        setting = BY_NAME[key]
        keys.append(
            _key(
                key,
                setting.meaning.replace("`", ""),
                setting.kind.values.replace("`", ""),
                True,
                setting.name in OF_OPERATORS,
            )
        )
    keys.append(
        _key(ALTERNATE, "exchange that takes messages without a route", "a name", True, False, (EXCHANGES, ALL))
    )
    keys += [
        _key(UPSTREAM, "upstream of federation from which messages come", "a name", True, False, FEDERATED),
        _key(UPSTREAM_SET, "set of these upstreams; all has each", "a name", True, False, FEDERATED),
        _key(UPSTREAM_PATTERN, "upstreams by their names", "an expression", True, False, FEDERATED),
    ]
    keys += [_key(key, "no effect here; kept, and exported again", "", False, True) for key in KEYS_WITHOUT_EFFECT]
    return {"keys": sorted(keys, key=lambda row: (not row["effect"], str(row["key"]))), "apply_to": apply_to_words()}


QUEUE_WORDS: Final[tuple[str, ...]] = ("queues", *[row.apply_to for row in TYPES.values()], ALL)
FEDERATED: Final[tuple[str, ...]] = tuple(apply_to_words())


def _key(
    key: str, meaning: str, values: str, effect: bool, of_operators: bool, apply_to: tuple[str, ...] = QUEUE_WORDS
) -> Row:
    return {
        "key": key,
        "meaning": meaning,
        "values": values,
        "effect": effect,
        "operator": of_operators,
        "apply_to": list(dict.fromkeys(apply_to)),
    }


OPERATIONS: Final[tuple[Operation, ...]] = (
    looking("", settings, tag=MANAGEMENT, asks=NODE, routes=(
        Route("GET /penstock/settings/catalogue", "List the settings that there are: scopes, meaning, values, default; "
              "for administrators also those at the start, with the value and whether a reload suffices."),
    )),
    looking("", policy_keys, tag=MANAGEMENT, asks=NODE, routes=(
        Route("GET /penstock/policy-keys", "List the keys that a policy may have, with meaning, values, and whether "
              "they have an effect."),
    )),
)  # fmt: skip
