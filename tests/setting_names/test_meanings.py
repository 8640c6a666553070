"""Meanings of the settings by pattern: one for each, and the page has them all."""

from __future__ import annotations

from penstock.setting_names.meanings import KINDS, MEANINGS
from penstock.setting_names.setting_names import SCOPES


def test_every_setting_and_every_kind_has_a_meaning() -> None:
    assert set(MEANINGS) == {name for settings in SCOPES.values() for name in settings}
    assert set(KINDS) == {kind for settings in SCOPES.values() for kind in settings.values()}


def test_setting_has_one_kind_in_all_scopes() -> None:
    kinds: dict[str, set[str]] = {}
    for settings in SCOPES.values():
        for name, kind in settings.items():
            kinds.setdefault(name, set()).add(kind)
    assert [name for name, found in kinds.items() if len(found) > 1] == []
