"""The properties that matter to a route, read in place, against the same choice from decoded properties."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.content.properties import Properties
from penstock.core.message import Envelope
from penstock.core.routing.attributes import route_for
from penstock.core.routing.route import Route
from penstock.errors import PreconditionFailed
from penstock.protocols.amqp091.content_frames import make_content
from penstock.protocols.amqp091.publish_properties import property_mask, route_variant
from tests.profiles import examples
from tests.wire.amqp091.test_content_header import properties


def route(checks: bool) -> Route:
    found = Route(Envelope("x", "k"), False)
    found.checks_delivery_mode = checks
    return found


@settings(max_examples=examples(300), derandomize=True, database=None)
@given(properties(), st.booleans(), st.none() | st.integers(0, 1 << 32).map(str), st.integers(0, 9))
def test_variant_is_that_of_the_decoded_properties(made: Properties, checks: bool, ttl: str | None, at: int) -> None:
    made.expiration = ttl
    plain = route(checks)
    data = b"." * at + make_content(made, b"body")
    try:
        expected = route_for(plain, made)
    except PreconditionFailed:
        with pytest.raises(PreconditionFailed):
            route_variant(plain, data, at)
        return
    assert route_variant(plain, data, at) is expected


def test_delivery_mode_matters_only_with_a_store() -> None:
    assert (property_mask(route(True)), property_mask(route(False))) == (0x1900, 0x0900)
