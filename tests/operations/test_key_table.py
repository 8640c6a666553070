"""Tables of keys: values are checked by rows, older names mean the same, and keys without effect are named."""

from __future__ import annotations

import pytest

from penstock.errors import PreconditionFailed
from penstock.operations import bridge_keys, shovel_keys, upstreams
from penstock.operations.key_table import Key, canonical, check_keys, without_effect
from penstock.settings.kind import OBJECT, TEXT, whole

KEYS = (
    Key("uri", TEXT, "URI.", is_uri=True),
    Key("count", whole(1, 10), "Count.", ("old-count",), ("never",), 5),
    Key("properties", OBJECT, "Properties.", inner=(Key("type", TEXT, ""),)),
    Key("idle", TEXT, "Nothing.", not_served="the reason"),
)


@pytest.mark.parametrize("value", [{}, {"count": 3}, {"old-count": "never"}, {"properties": {"type": "t"}}])
def test_value_of_known_keys_is_accepted(value: dict[str, object]) -> None:
    assert check_keys("it", "a toy", KEYS, value) is value


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (5, "it: the value must be an object"),
        ({"cuont": 1}, "it: a toy has no key 'cuont'; did you mean count?"),
        ({"count": 11}, "it: count must be a whole number from 1 to 10, not 11"),
        ({"old-count": "always"}, "it: old-count must be a whole number from 1 to 10, not 'always'"),
        ({"properties": {"tpye": 1}}, "it: properties: 'properties' has no key 'tpye'; did you mean type?"),
        ({"properties": {"type": 1}}, "it: properties: type must be a string, not 1"),
        ({"properties": []}, "it: properties: the value must be an object"),
        ({"uri": "http://u:secret@h"}, "it: 'uri' must be a URI of amqp or amqps"),
    ],
)
def test_wrong_value_is_refused_with_key_and_rule(value: object, error: str) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_keys("it", "a toy", KEYS, value)
    assert str(caught.value).startswith(error)
    assert "secret" not in str(caught.value)


def test_value_that_may_have_secrets_is_not_quoted() -> None:
    with pytest.raises(PreconditionFailed) as caught:
        check_keys("it", "a toy", KEYS, "amqp://u:secret@h")
    assert "secret" not in str(caught.value)


def test_value_has_present_names_and_defaults_in_place_of_unfit_values() -> None:
    assert canonical(KEYS, {}) == {"count": 5}
    assert canonical(KEYS, {"old-count": "never", "other": 1}) == {"count": "never"}
    assert canonical(KEYS, {"count": 2, "old-count": 3, "uri": ["amqp://"]}) == {"uri": ["amqp://"], "count": 2}
    assert canonical(KEYS, {"count": "many", "idle": 7}) == {"count": 5}


def test_keys_without_effect_have_their_reason() -> None:
    assert without_effect(KEYS, {"count": 1}) == []
    assert without_effect(KEYS, {"idle": "x"}) == ["idle has no effect: the reason"]
    assert without_effect(KEYS, 5) == []


@pytest.mark.parametrize("keys", [shovel_keys.KEYS, upstreams.KEYS, upstreams.OF_SET, bridge_keys.KEYS])
def test_names_of_a_table_are_distinct_and_meanings_are_sentences(keys: tuple[Key, ...]) -> None:
    names = [name for key in keys for name in key.names]
    assert len(set(names)) == len(names)
    assert [key.name for key in keys if not key.meaning.endswith(".") or key.not_served.endswith(".")] == []
