"""CC and BCC: further routing keys of one message, whatever its protocol."""

from __future__ import annotations

import pytest

from penstock.core.message import BccEnvelope, Envelope
from penstock.core.message_format import keys_in
from penstock.core.routing.route import COPIES_MAX, Route, route_with_copies
from penstock.errors import PreconditionFailed


def route() -> Route:
    return Route(Envelope("x", "k", 5, 1.5, True), True)


def test_a_message_without_them_keeps_its_route() -> None:
    assert route_with_copies(route(), {}) is None
    assert route_with_copies(route(), {"CC": [], "BCC": [7]}) is None


def test_both_headers_add_keys_and_blind_ones_stay_with_the_envelope() -> None:
    found = route_with_copies(route(), {"CC": ["a", 5], "BCC": ["b"]})
    assert (found.copies, found.mandatory) == (["a", "b"], True)
    envelope = found.envelope
    assert isinstance(envelope, BccEnvelope)
    assert (envelope.bcc, envelope.priority, envelope.ttl_s, envelope.persistent) == (["b"], 5, 1.5, True)


@pytest.mark.parametrize("headers", [{"CC": "a"}, {"BCC": {}}, {"CC": ["k" * 256]}, {"BCC": ["k"] * (COPIES_MAX + 1)}])
def test_headers_of_another_type_and_keys_beyond_a_limit_are_refused(headers: dict[str, object]) -> None:
    with pytest.raises(PreconditionFailed):
        route_with_copies(route(), headers)


def test_keys_are_the_texts_of_an_array() -> None:
    assert keys_in(["a", 1, None, "b"]) == ["a", "b"]
    assert keys_in("a") == keys_in(None) == []
