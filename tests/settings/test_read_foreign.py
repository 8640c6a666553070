"""Names of Artemis that are no settings here: refused by name, with what there is instead."""

from __future__ import annotations

import pytest

from penstock.core.settings.policies import read_policy
from penstock.errors import PreconditionFailed
from penstock.settings.read import (
    FEATURES,
    FOREIGN,
    WITHOUT_EFFECT,
    read_arguments,
    read_consume_arguments,
    read_link_properties,
    read_settings,
)
from penstock.settings.table import ALIASES, SCOPED_ALIASES, SCOPES


def test_foreign_names_are_not_ours() -> None:
    ours = {*ALIASES, *FEATURES, *WITHOUT_EFFECT}
    for names in (*SCOPES.values(), *SCOPED_ALIASES.values()):
        ours |= names.keys()
    assert not ours & FOREIGN.keys()


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_name_is_refused_wherever_settings_are_read(name: str) -> None:
    advice = f"there is no setting {name}, which is one of Artemis; {FOREIGN[name]}"
    for scope in SCOPES:
        with pytest.raises(PreconditionFailed) as caught:
            read_settings(scope, "a", {name: 5})
        assert str(caught.value) == f"scope {scope}: {advice}"
    with pytest.raises(PreconditionFailed) as caught:
        read_arguments("q", {name: 5})
    assert str(caught.value) == f"queue 'q': {advice}"
    with pytest.raises(PreconditionFailed):
        read_arguments("q", {f"x-{name}": 5})
    with pytest.raises(PreconditionFailed) as caught:
        read_consume_arguments("tag", {name: 5})
    assert str(caught.value) == f"consumer 'tag': {advice}"
    with pytest.raises(PreconditionFailed) as caught:
        read_link_properties("link", {name: 5})
    assert str(caught.value) == f"link 'link': {advice}"
    with pytest.raises(PreconditionFailed) as caught:
        read_policy("/", "p", {"pattern": "a", "definition": {name: 5}}, False)
    assert advice in str(caught.value)


def test_advice_names_settings_that_exist() -> None:
    known = {name for scope in SCOPES.values() for name in scope}
    advice = " ".join(FOREIGN.values())
    named = [word.strip(",;").partition("=")[0] for word in advice.split() if word.count("-") >= 1]
    elsewhere = {
        "min-large-message",
        "alternate-exchange",
        "x-single-active-consumer",
        "auto-delete",
        "start-up",
        "dead-letter",
    }
    assert {word for word in named if word not in known} <= elsewhere


def test_policy_of_an_address_is_block_or_refused_with_where_to_set_it() -> None:
    for name, value in (("address-full-policy", "BLOCK"), ("overflow", "block")):
        assert read_settings("address", "a", {name: value})["overflow"].text == "block"
    for value in ("PAGE", "DROP", "FAIL"):
        with pytest.raises(PreconditionFailed) as caught:
            read_settings("address", "jms.queue.a", {"address-full-policy": value})
        assert str(caught.value) == (
            f"address 'jms.queue.a': address-full-policy={value} is a policy of queues, and an address blocks at its "
            "bound; give it to the queues with a capacity of theirs: "
            f"`penstock queues set PATTERN address-full-policy={value}`, or by a policy"
        )
    with pytest.raises(PreconditionFailed, match="is not an overflow policy"):
        read_settings("address", "a", {"address-full-policy": "WAIT"})
