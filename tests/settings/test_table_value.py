"""Values of settings, with the special values of other brokers."""

from __future__ import annotations

import pytest

from penstock.errors import NotSupported, PreconditionFailed
from penstock.settings.read import read_arguments, read_settings
from penstock.settings.table import ALIASES, NEGATIVE_IS_NONE, OURS, SCOPED_ALIASES, ZERO_IS_NONE

TEXTS: dict[str, object] = {
    "overflow": "reject",
    "page-full-policy": "drop-new",
    "slow-consumer-policy": "notify",
    "cursor-max-lag-policy": "detach",
    "dead-letter-exchange": "dlx",
    "dead-letter-routing-key": "key",
    "dead-letter-strategy": "at-least-once",
}
"""What is no number."""


NUMBERS = sorted(name for name, ours in ALIASES.items() if ours not in TEXTS)


@pytest.mark.parametrize("value", ["50", b"50", 50.0, 50])
def test_whole_number_may_be_a_text_as_in_qpid(value: object) -> None:
    assert read_arguments("q", {"qpid.max_count": value})["capacity-messages"].number == 50


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"overflowPolicy": "NONE"}, "would ignore its capacity"),
    ],
)
def test_policy_that_we_know_and_do_not_have_is_refused_with_the_reason(
    arguments: dict[str, object], part: str
) -> None:
    with pytest.raises(NotSupported) as caught:
        read_arguments("q", arguments)
    assert part in str(caught.value)


def test_drop_is_artemis_word_only_by_artemis_name() -> None:
    assert read_arguments("q", {"address-full-policy": "DROP"})["overflow"].text == "drop-new"
    with pytest.raises(PreconditionFailed, match=r"x-overflow must be .*, not 'drop'; did you mean drop-new"):
        read_arguments("q", {"x-overflow": "drop"})


def test_special_values_have_the_meaning_of_the_broker_of_their_name() -> None:
    def said(scope: str, name: str, value: object) -> bool:
        (word,) = read_settings(scope, "" if scope == "broker" else "#", {name: value}).values()
        return word.none

    known = dict.fromkeys(ALIASES, "queue") | {
        alias: scope for scope, aliases in SCOPED_ALIASES.items() for alias in aliases
    }
    for name in ZERO_IS_NONE & known.keys():
        assert said(known[name], name, 0), name
    for name in NEGATIVE_IS_NONE & known.keys():
        assert said(known[name], name, -1), name
    assert known.keys() | set(OURS) >= ZERO_IS_NONE | NEGATIVE_IS_NONE
