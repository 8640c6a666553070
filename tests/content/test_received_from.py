"""Header x-received-from: places of a message, and whether it may go on."""

from __future__ import annotations

import pytest

from penstock.content.received_from import has_passed, may_go_on, places_of


def place(cluster: str, vhost: str = "/") -> dict[str, object]:
    return {"uri": "amqp://host", "exchange": "x", "cluster-name": cluster, "vhost": vhost}


@pytest.mark.parametrize("headers", [None, {}, {"x-received-from": "a"}, {"x-received-from": {"uri": "a"}}])
def test_header_of_another_form_has_no_places(headers: dict[str, object] | None) -> None:
    assert places_of(headers) == []
    assert may_go_on(headers, 1, "here", "/")
    assert not may_go_on(headers, 0, "here", "/")


def test_message_goes_on_while_it_has_hops_left() -> None:
    headers: dict[str, object] = {"x-received-from": [place("b"), place("a")]}
    assert may_go_on(headers, 3, "c", "/")
    assert not may_go_on(headers, 2, "c", "/")


def test_message_does_not_go_where_it_was() -> None:
    headers: dict[str, object] = {"x-received-from": [place("b"), "odd", place("a", "eu")]}
    assert not may_go_on(headers, 9, "a", "eu")
    assert may_go_on(headers, 9, "a", "/")
    assert has_passed(places_of(headers), "b", "/")
