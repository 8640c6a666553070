"""Federation upstreams are checked as RabbitMQ's plugin checks them, though they have no effect here."""

from __future__ import annotations

import pytest

from penstock.core.settings.table import Parameter
from penstock.errors import PreconditionFailed
from penstock.operations.upstreams import KEYS, KINDS, UPSTREAM, check_upstream
from penstock.settings.kind import FLAG, REAL, TEXT, Choices, Kind

URI = "amqp://user:secret@host:5672/vhost"


def check(**value: object) -> None:
    check_upstream(
        Parameter(UPSTREAM, "/", "up", {"uri": URI, **{key.replace("_", "-"): each for key, each in value.items()}})
    )


@pytest.mark.parametrize("uri", [URI, "amqps://host", "amqp://", [URI, "amqps://other"]])
def test_uri_of_amqp_is_taken(uri: object) -> None:
    check(uri=uri)


@pytest.mark.parametrize("uri", [None, "", 5, [], "http://host", [URI, "host"], {"uri": URI}])
def test_uri_of_another_scheme_is_refused(uri: object) -> None:
    with pytest.raises(PreconditionFailed, match="federation upstream 'up': 'uri' must be a URI of amqp or amqps"):
        check(uri=uri)


@pytest.mark.parametrize("value", [None, "amqp://host", 5, ["amqp://host"]])
def test_value_other_than_an_object_is_refused(value: object) -> None:
    with pytest.raises(PreconditionFailed, match="the value must be an object"):
        check_upstream(Parameter(UPSTREAM, "/", "up", value))


def good(kind: Kind) -> object:
    """Return a value of a kind."""
    if isinstance(kind, Choices):
        return next(iter(kind.words))
    return {TEXT: "name", REAL: 5, FLAG: True}[kind]


GOOD = {key: good(kind) for key, kind in KINDS.items()}
BAD = [(key, bad) for key, kind in KINDS.items() for bad in ({TEXT: 5, REAL: True, FLAG: 1}.get(kind, "x"), [])]


def test_keys_with_values_of_their_kind_are_accepted() -> None:
    assert {"uri", "ha-policy", *GOOD} == set(KEYS)
    check_upstream(Parameter(UPSTREAM, "/", "up", {"uri": URI, "ha-policy": None, **GOOD}))


@pytest.mark.parametrize(("key", "value"), BAD)
def test_value_of_another_kind_is_refused_with_its_key(key: str, value: object) -> None:
    with pytest.raises(PreconditionFailed, match=f": {key} must be "):
        check_upstream(Parameter(UPSTREAM, "/", "up", {"uri": URI, key: value}))


def test_unknown_key_is_refused_with_the_known_keys() -> None:
    with pytest.raises(PreconditionFailed, match="an upstream has no key 'hats'; known are uri, ack-mode"):
        check(hats=5)


def test_parameters_of_other_components_pass() -> None:
    check_upstream(Parameter("hats", "/", "up", 5))
