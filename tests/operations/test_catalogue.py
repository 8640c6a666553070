"""Catalogue of settings and of keys of policies."""

from __future__ import annotations

import json
from typing import Any

from penstock.access.permission import MANAGEMENT, MONITORING
from penstock.core.settings.policy_reader import read_policy
from penstock.driver.driver import BrokerDriver
from penstock.settings.start import NAMES, RELOADABLE
from penstock.settings.table import SETTINGS
from tests.support.access_of import access_of
from tests.support.operation_calls import ask

START = [{"setting": "frame-max", "value": 131072, "default": 131072, "from": "default"},
         {"setting": "log-level", "value": "info", "default": "info", "from": "default"}]  # fmt: skip
EXAMPLES: dict[str, object] = {"alternate-exchange": "x"}
"""Values of keys that a number does not suit."""


def asked(driver: BrokerDriver, user: str = "guest") -> Any:
    return ask(driver, "GET /penstock/settings/catalogue", {}, access=access_of(driver.broker, user))


def keys(driver: BrokerDriver) -> Any:
    return ask(driver, "GET /penstock/policy-keys", {})


def test_catalogue_has_each_setting_with_meaning_and_values(driver: BrokerDriver) -> None:
    rows = asked(driver)["settings"]
    assert [row["setting"] for row in rows] == [setting.name for setting in SETTINGS]
    assert all(row["meaning"] and row["values"] and row["scopes"] for row in rows)
    json.dumps(rows, allow_nan=False)


def test_start_settings_say_whether_a_reload_suffices(driver: BrokerDriver) -> None:
    assert NAMES["log-level"] in RELOADABLE
    driver.start_settings.rows = [dict(row) for row in START]
    found = {row["setting"]: row for row in asked(driver)["start"]}
    assert (found["frame-max"]["takes_effect"], found["log-level"]["takes_effect"]) == ("restart", "reload")
    assert all(row["values"] for row in found.values())


def test_start_settings_are_for_administrators(driver: BrokerDriver) -> None:
    driver.start_settings.rows = [dict(row) for row in START]
    driver.broker.access.put_user("user", None, [MANAGEMENT, MONITORING])
    assert asked(driver, "user")["start"] == []
    assert len(asked(driver)["start"]) == len(START)


def test_policy_key_has_the_effect_that_the_catalogue_says(driver: BrokerDriver) -> None:
    for row in keys(driver)["keys"]:
        if row["effect"] and row["key"] not in EXAMPLES:
            continue  # Each setting has tests of its own.
        fields: dict[str, object] = {
            "pattern": ".*", "definition": {row["key"]: EXAMPLES.get(row["key"], 1)}, "apply-to": row["apply_to"][0]
        }  # fmt: skip
        policy = read_policy("/", "p", fields, False)
        assert (row["key"] not in policy.idle) == row["effect"], row["key"]


def test_operator_policies_take_the_keys_that_say_so(driver: BrokerDriver) -> None:
    found = {row["key"]: row["operator"] for row in keys(driver)["keys"]}
    assert (found["max-length"], found["hold-deadline"], found["alternate-exchange"]) == (True, False, False)
