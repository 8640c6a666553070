"""Priority, expiration and delivery mode of a publish choose the variant of its route."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.core.routing.route import expiration_s, route_for
from penstock.errors import PreconditionFailed
from penstock.flow.timers import NEVER
from penstock.settings.table import MILLISECONDS_MAX
from tests.support.topology import checked_route


def test_route_without_attributes_is_the_same() -> None:
    plain = checked_route()
    assert route_for(plain, Properties()) is plain
    assert route_for(plain, Properties(delivery_mode=1, priority=0)) is plain


def test_route_for_attributes_has_them_and_is_cached() -> None:
    plain = checked_route()
    properties = Properties(delivery_mode=2, priority=7, expiration="1500")
    envelope = route_for(plain, properties).envelope
    assert (envelope.persistent, envelope.priority, envelope.ttl_s) == (True, 7, 1.5)
    assert route_for(plain, properties) is route_for(plain, properties)
    assert route_for(plain, Properties(priority=7)).envelope.ttl_s == NEVER


def test_route_without_a_store_ignores_the_delivery_mode() -> None:
    plain = checked_route(False)
    assert route_for(plain, Properties(delivery_mode=2)) is plain


@pytest.mark.parametrize("text", ["", "-1", "1.5", "soon", "٣", str(MILLISECONDS_MAX + 1), "9" * 5000])
def test_an_expiration_that_is_no_number_of_milliseconds_is_refused(text: str) -> None:
    with pytest.raises(PreconditionFailed, match="invalid expiration"):
        route_for(checked_route(), Properties(expiration=text))


def test_the_longest_expiration_is_taken() -> None:
    assert expiration_s(b"%d" % MILLISECONDS_MAX) == MILLISECONDS_MAX / 1000
    assert expiration_s(b"0") == 0.0
