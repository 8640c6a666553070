"""All settings of a scope, defaults included."""

from __future__ import annotations

import pytest

from penstock.management.effective_settings import scope_settings
from penstock.settings.table import SCOPES
from tests.support.broker_fixture import House


def rows(house: House, scope: str, name: str) -> dict[str, tuple[object, object]]:
    return {str(row["setting"]): (row["value"], row["from"]) for row in scope_settings(house.broker, scope, name)}


@pytest.mark.parametrize("scope", sorted(SCOPES.keys() - {"queue"}))
def test_settings_in_effect_are_all_of_a_scope_in_the_order_of_the_documentation(scope: str) -> None:
    assert list(rows(House(), scope, "" if scope == "broker" else "x")) == list(SCOPES[scope])


def test_settings_in_effect_of_a_virtual_host_come_from_the_broker_where_it_has_none() -> None:
    house = House()
    assert rows(house, "vhost", "/")["stop-percent"] == (80, "default")
    house.set("broker", "", stop_percent=60)
    assert rows(house, "vhost", "/")["stop-percent"] == (60, "the broker's: stop-percent=60")


def test_settings_in_effect_of_a_user_without_a_rate_have_no_burst() -> None:
    house = House()
    assert rows(house, "user", "alice")["burst-messages"] == (None, "there is no rate")
    house.set("user", "alice", rate_messages=50)
    assert rows(house, "user", "alice")["burst-messages"] == (
        1,
        "one more than the rate in any second",
    )
