"""Federation upstreams and sets of them are checked as RabbitMQ's plugin checks them."""

from __future__ import annotations

import pytest

from penstock.errors import PreconditionFailed
from penstock.operations.key_table import Key
from penstock.operations.upstreams import (
    ENTRIES_MOST,
    KEYS,
    OF_SET,
    SHARED,
    check_upstream,
    check_upstream_set,
    idle_keys,
)
from penstock.settings.kind import ANYTHING, FLAG, REAL, TEXT, Choices

URI = "amqp://user:secret@host:5672/vhost"


def check(**value: object) -> None:
    check_upstream("up", {"uri": URI, **{key.replace("_", "-"): each for key, each in value.items()}})


@pytest.mark.parametrize("uri", [URI, "amqps://host", "amqp://", [URI, "amqps://other"]])
def test_uri_of_amqp_is_taken(uri: object) -> None:
    check(uri=uri)


@pytest.mark.parametrize("uri", [None, "", 5, [], "http://host", [URI, "host"], {"uri": URI}])
def test_uri_of_another_scheme_is_refused(uri: object) -> None:
    with pytest.raises(PreconditionFailed, match="federation upstream 'up': 'uri' must be a URI of amqp or amqps"):
        check(uri=uri)


def test_missing_uri_is_refused() -> None:
    with pytest.raises(PreconditionFailed, match="federation upstream 'up': 'uri' must be a URI of amqp or amqps"):
        check_upstream("up", {"queue": "q"})


@pytest.mark.parametrize("value", [None, "amqp://host", 5, ["amqp://host"]])
def test_value_other_than_an_object_is_refused(value: object) -> None:
    with pytest.raises(PreconditionFailed, match="the value must be an object"):
        check_upstream("up", value)


def good(key: Key) -> object:
    """Return a value of the kind of a key."""
    if isinstance(key.kind, Choices):
        return next(iter(key.kind.words))
    return {TEXT: "name", REAL: 5, FLAG: True, ANYTHING: None}[key.kind]


GOOD = {key.name: good(key) for key in SHARED}
BAD = [
    (key.name, bad)
    for key in SHARED
    if key.kind is not ANYTHING
    for bad in ({TEXT: 5, REAL: True, FLAG: 1}.get(key.kind, "x"), [])
]


def test_keys_with_values_of_their_kind_are_accepted() -> None:
    assert {"uri", *GOOD} == {key.name for key in KEYS}
    check_upstream("up", {"uri": URI, **GOOD})
    check_upstream_set("set", [{"upstream": "up", **GOOD}])


@pytest.mark.parametrize(("key", "value"), BAD)
def test_value_of_another_kind_is_refused_with_its_key(key: str, value: object) -> None:
    with pytest.raises(PreconditionFailed, match=f": {key} must be "):
        check_upstream("up", {"uri": URI, key: value})
    with pytest.raises(PreconditionFailed, match=f"set 'set': entry 0: {key} must be "):
        check_upstream_set("set", [{"upstream": "up", key: value}])


def test_unknown_key_is_refused_with_the_known_keys() -> None:
    with pytest.raises(PreconditionFailed, match="an upstream has no key 'hats'; known are uri, ack-mode"):
        check(hats=5)
    with pytest.raises(PreconditionFailed, match="entry 1: an entry has no key 'uri'; known are upstream, ack-mode"):
        check_upstream_set("set", [{"upstream": "up"}, {"upstream": "up", "uri": URI}])


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({"upstream": "up"}, "the value must be a list"),
        ([{"queue": "q"}], "entry 0: 'upstream' is missing"),
        (["up"], "entry 0: the value must be an object"),
        ([{"upstream": "up"}] * (ENTRIES_MOST + 1), "it has 101 upstreams; the most is 100"),
    ],
)
def test_set_that_is_no_list_of_upstreams_is_refused(value: object, error: str) -> None:
    with pytest.raises(PreconditionFailed, match=error):
        check_upstream_set("set", value)


def test_set_of_missing_upstreams_is_accepted() -> None:
    check_upstream_set("set", [])
    check_upstream_set("set", [{"upstream": "later"}, {"upstream": "later", "queue": "q"}])
    assert {key.name for key in OF_SET} == {"upstream", *GOOD}


def test_keys_without_effect_are_named_once() -> None:
    assert idle_keys({"uri": URI, "queue": "q"}) == []
    entry = {"upstream": "up", "ha-policy": "all"}
    assert idle_keys([entry, entry]) == ["ha-policy has no effect: RabbitMQ has removed mirrored queues"]
