"""Policies, parameters and settings of a file: compared, set, and taken back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.core.settings.policies import CLASS_WORK
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError
from penstock.operations.definitions_import import ImportOptions
from tests.support.at_once import import_definitions
from tests.support.driven_connection import make_driver

POLICY = {"name": "p", "pattern": "^q", "definition": {"max-length": 5, "ha-mode": "all"}, "priority": 1}
OPERATOR = {"component": "operator_policy", "name": "o", "value": {"pattern": "^q", "definition": {"max-length": 3}}}
SHOVEL = {
    "component": "shovel", "name": "s",
    "value": {"src-uri": "amqp://u:secret@h", "src-queue": "q", "dest-uri": "amqp://"},
}  # fmt: skip
OTHER = {**SHOVEL["value"], "src-uri": "amqp://u:other-secret@h"}
SETTINGS = {"scope": "queue", "pattern": "q.#", "settings": {"hold-deadline": 7}}
ALL: dict[str, object] = {
    "policies": [POLICY], "parameters": [OPERATOR, SHOVEL], "settings": [SETTINGS],
    "global_parameters": [{"name": "cluster_name", "value": "c"}],
}  # fmt: skip


def imported(driver: BrokerDriver, dry_run: bool = False, skip: list[str] | None = None, **given: object) -> Any:
    return import_definitions(driver, given, options=ImportOptions(skip or []), dry_run=dry_run)


def test_policies_of_a_file_are_created_changed_or_unchanged() -> None:
    driver = make_driver()
    queue = driver.broker.vhosts["/"].declare_queue("q", {}, False, False, None, None)
    assert [each["change"] for each in imported(driver, True, **ALL)["differences"]] == ["created"] * 5
    found = imported(driver, **ALL)
    made = {"policies": 1, "operator_policies": 1, "parameters": 1, "global_parameters": 1, "settings": 1}
    assert (found["made"], found["changed"]) == (made, {})
    idle = "ha-mode has no effect here; kept, and exported again; it does not apply to quorum queues because of ha-mode"
    assert f"policy 'p' of vhost '/': {idle}" in found["notes"]
    assert queue.settings.policies.definition() == {"max-length": 3, "ha-mode": "all"}
    assert queue.settings.hold_deadline_s == 7
    again = imported(driver, True, **ALL)
    assert (again["differences"], again["unchanged"]) == ([], made)
    more: dict[str, Any] = {
        "policies": [{**POLICY, "priority": 2, "definition": {"max-length": 6}}],
        "settings": [{**SETTINGS, "settings": {"hold-deadline": 8, "expires": 5000}}],
        "parameters": [{**SHOVEL, "value": OTHER}],
    }
    told = {each["kind"]: each for each in imported(driver, True, **more)["differences"]}
    assert [told[kind]["change"] for kind in ("policies", "settings", "parameters")] == ["changed"] * 3
    assert told["policies"]["details"] == [
        {"key": "priority", "from": "1", "to": "2"},
        {"key": "definition.max-length", "from": "5", "to": "6"},
        {"key": "definition.ha-mode", "from": '"all"', "to": "absent"},
    ]
    assert told["settings"]["details"] == [
        {"key": "hold-deadline", "from": "7", "to": "8"},
        {"key": "expires", "from": "absent", "to": "5000"},
    ]
    assert "secret" not in json.dumps(told), "the values of parameters hold passwords"
    assert imported(driver, **more)["changed"] == {"policies": 1, "settings": 1, "parameters": 1}


def test_import_that_fails_puts_policies_parameters_and_settings_back() -> None:
    driver = make_driver()
    queue = driver.broker.vhosts["/"].declare_queue("q", {}, False, False, None, None)
    imported(driver, **ALL)
    changed: dict[str, Any] = {
        "vhosts": [{"name": "new"}],
        "policies": [{**POLICY, "definition": {"max-length": 1}}, {**POLICY, "vhost": "new", "name": "n"}],
        "parameters": [{**SHOVEL, "value": OTHER}, {**SHOVEL, "name": "t"}],
        "settings": [{**SETTINGS, "settings": {"hold-deadline": 9}}],
        "queues": [{"name": "q", "durable": True}],
    }
    with pytest.raises(BrokerError, match="inequivalent arg 'durable'"):
        imported(driver, **changed)
    assert (queue.settings.policies.definition()["max-length"], queue.settings.hold_deadline_s) == (3, 7)
    table = driver.broker.table
    policy = table.policies.get("/", "p", False)
    assert policy.definition == POLICY["definition"]
    assert [(each.name, each.value) for each in table.parameters.of()] == [("s", SHOVEL["value"])]
    assert (table.policies.count, list(driver.broker.vhosts)) == (2, ["/"])


def test_policy_that_contradicts_a_queue_is_named_with_its_line() -> None:
    driver = make_driver()
    driver.broker.vhosts["/"].declare_queue("q", {"stop-messages": 9}, False, False, None, None)
    wrong = {"name": "tight", "pattern": "^q", "definition": {"capacity-messages": 5}, "priority": 5}
    with pytest.raises(BrokerError) as caught:
        imported(driver, policies=[POLICY, wrong, {**wrong, "name": "other", "pattern": "x"}])
    assert str(caught.value).startswith(
        "line 1, policies[1]: queue 'q': stop-messages=9 is above the capacity of 5 mess"
    )
    assert "(capacity-messages=5, policy 'tight')" in str(caught.value)
    assert driver.broker.table.policies.count == 0


def test_entry_that_is_defined_twice_with_different_values_is_refused() -> None:
    driver = make_driver()
    assert imported(driver, policies=[POLICY, POLICY])["made"] == {"policies": 1}
    with pytest.raises(BrokerError, match=r"policies\[1\]: policy 'p' of vhost '/' is defined twice in the file"):
        imported(driver, policies=[POLICY, {**POLICY, "priority": 3}])


def test_kinds_are_skipped_one_by_one() -> None:
    driver = make_driver()
    found = imported(driver, False, ["operator_policies", "settings"], **ALL)
    assert found["made"] == {"policies": 1, "parameters": 1, "global_parameters": 1}
    assert found["not_imported"] == {"operator_policies": 1, "settings": 1}


def test_policy_counts_the_work_to_compile_its_pattern() -> None:
    def spent(pattern: str) -> int:
        driver = make_driver()
        imported(driver, policies=[{**POLICY, "pattern": pattern}])
        return int(driver.broker.work.done)

    assert spent(r"\pL" * 10) - spent("abc" * 10) == 10 * CLASS_WORK
    assert spent("a" * 2_000) - spent("a" * 1_000) == 500
    with pytest.raises(BrokerError, match="is longer than 4,096 bytes"):
        spent("a" * 5_000)
