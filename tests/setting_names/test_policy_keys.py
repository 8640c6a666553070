"""Keys of policies: each has one meaning."""

from __future__ import annotations

from penstock.setting_names.policy_keys import KEYS_WITHOUT_EFFECT, OF_OPERATORS, SMALLEST
from penstock.setting_names.setting_names import ALIASES, SCOPES


def test_keys_of_policies_are_settings_or_have_no_effect() -> None:
    assert SCOPES["queue"].keys() >= SMALLEST
    assert SCOPES["queue"].keys() >= set(OF_OPERATORS)
    assert KEYS_WITHOUT_EFFECT.isdisjoint(SCOPES["queue"])
    assert KEYS_WITHOUT_EFFECT.isdisjoint(ALIASES)
