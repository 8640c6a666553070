"""Names of other brokers' settings, and their meaning here."""

from __future__ import annotations

import pytest

from penstock.core.settings.policies import OF_OPERATORS
from penstock.flow.level import UNLIMITED
from penstock.settings.read import KEYS_WITHOUT_EFFECT, read_arguments
from penstock.settings.table import (
    ALIASES,
    ALL_ALIASES,
    BY_NAME,
    NUMBER_MAX,
    OURS,
    OVERFLOW_ALIASES,
    SCOPES,
    SMALLEST,
    WITH_FIELD,
    Setting,
)
from tests.support.setting_values import TEXTS


def test_setting_name_is_accepted_with_and_without_x() -> None:
    for word in OURS:
        value = TEXTS.get(word, 5)
        assert set(read_arguments("q", {word: value})) == {word}
        assert set(read_arguments("q", {"x-" + word: value})) == {word}


@pytest.mark.parametrize("name", sorted(name for name, ours in ALIASES.items() if ours == "overflow"))
@pytest.mark.parametrize(("policy", "ours"), sorted(OVERFLOW_ALIASES.items()))
def test_overflow_policy_is_known_by_each_name_in_any_case_and_as_bytes(name: str, policy: str, ours: str) -> None:
    assert read_arguments("q", {name: policy})["overflow"].text == ours
    assert read_arguments("q", {name: policy.upper()})["overflow"].text == ours
    assert read_arguments("q", {name: policy.encode()})["overflow"].text == ours


def test_page_is_known_by_artemis_and_qpids_names_and_its_limits_by_artemis_values() -> None:
    assert read_arguments("q", {"address-full-policy": "PAGE"})["overflow"].text == "page"
    assert read_arguments("q", {"qpid.policy_type": "flow_to_disk"})["overflow"].text == "page"
    assert read_arguments("q", {"page-full-policy": "FAIL"})["page-full-policy"].text == "reject"
    assert read_arguments("q", {"page-full-policy": "DROP"})["page-full-policy"].text == "drop-new"
    assert read_arguments("q", {"page-limit-bytes": "10Mb"})["page-limit-bytes"].number == 10 << 20
    assert read_arguments("q", {"page-limit-messages": -1})["page-limit-messages"].none


def test_number_of_no_limit_is_that_of_levels() -> None:
    assert NUMBER_MAX == UNLIMITED


def test_alias_is_of_one_setting_and_no_setting_of_ours() -> None:
    names = [alias.name for alias in ALL_ALIASES]
    assert len(names) == len(set(names))
    assert set(names).isdisjoint(BY_NAME)


def test_keys_of_policies_are_settings_or_have_no_effect() -> None:
    assert SCOPES["queue"].keys() >= SMALLEST
    assert SCOPES["queue"].keys() >= set(OF_OPERATORS)
    assert KEYS_WITHOUT_EFFECT.isdisjoint({*SCOPES["queue"], *ALIASES})


@pytest.mark.parametrize("setting", WITH_FIELD, ids=lambda setting: setting.name)
def test_stored_value_is_shown_as_given(setting: Setting) -> None:
    given = {"max-age": "7000s", "retain-time": "7000s"}.get(setting.name, TEXTS.get(setting.name, 7))
    stored = setting.resolved(read_arguments("q", {setting.name: given})[setting.name])
    shown = {"7000s": "7000000"}.get(str(given), str(given))
    assert str(setting.shown(stored)).lower() == shown
