"""Words from tables that complete arguments."""

from __future__ import annotations

import pytest

from penstock.cli.offered_words import settings_of, words_of
from penstock.settings.table import SETTINGS


@pytest.mark.parametrize("scope", ["queue", "address", "vhost", "user", "connection", "broker"])
def test_settings_of_a_scope_are_all_offered_and_no_others(scope: str) -> None:
    assert settings_of(scope, "") == [f"{each.name}=" for each in SETTINGS if scope in each.scopes.split()]
    assert words_of(f"names of settings of {scope}", "") == [word[:-1] for word in settings_of(scope, "")]


def test_values_are_offered_behind_a_setting_with_a_choice() -> None:
    assert settings_of("queue", "overflow=drop-n") == ["overflow=drop-new"]
    assert settings_of("queue", "x-overflow=drop-n") == ["x-overflow=drop-new"], "by a name of another broker"
    assert settings_of("queue", "auto-create=") == ["auto-create=true", "auto-create=false"]
    assert settings_of("queue", "capacity-messages=") == [], "a number"
    assert settings_of("queue", "no-such-setting=") == []
    assert words_of("names of settings of queue", "overflow=") == []


def test_kinds_of_names_of_the_broker_are_no_words() -> None:
    assert words_of("queues", "a") is None
    assert words_of("limits", "max-q") == ["max-queues="]
    assert "administrator" in (words_of("tags", "") or [])
