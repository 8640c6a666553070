"""Bindings that a link repeats at its upstream."""

from __future__ import annotations

from typing import Any

from penstock.bridges.upstream_bindings import BOUND_FROM, entry, repeated

HERE = entry("c", "/c", "x", "A")
UPSTREAM = ("b", "/b")


def arguments_of(hops: int, *bindings: tuple[str, dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return list(repeated(bindings, HERE, UPSTREAM, hops).values())


def place(cluster: str, vhost: str, hops: object) -> dict[str, object]:
    return {"cluster-name": cluster, "vhost": vhost, "exchange": "x A", "hops": hops}


def test_binding_of_this_broker_goes_upstream_with_the_hops_of_the_link() -> None:
    assert arguments_of(2, ("k", {"a": 1})) == [("k", {"a": 1, BOUND_FROM: [{**HERE, "hops": 2}]})]
    assert HERE == {"cluster-name": "c", "vhost": "/c", "exchange": "/c:x A"}


def test_binding_of_another_link_goes_on_with_a_hop_less() -> None:
    earlier = place("d", "/d", 3)
    assert arguments_of(5, ("k", {BOUND_FROM: [earlier]})) == [("k", {BOUND_FROM: [{**HERE, "hops": 2}, earlier]})]
    ((_, found),) = arguments_of(1, ("k", {BOUND_FROM: [earlier]}))
    assert found[BOUND_FROM][0]["hops"] == 1


def test_binding_without_hops_ends_here() -> None:
    assert arguments_of(5, ("k", {BOUND_FROM: [place("d", "/d", 1)]})) == []
    assert arguments_of(0, ("k", {})) == []


def test_binding_that_was_at_the_upstream_does_not_return() -> None:
    assert arguments_of(9, ("k", {BOUND_FROM: [place("d", "/d", 5), place("b", "/b", 6)]})) == []
    assert len(arguments_of(9, ("k", {BOUND_FROM: [place("b", "/other", 5)]}))) == 1


def test_binding_with_malformed_places_is_not_repeated() -> None:
    for odd in ([{"hops": "5"}], ["text"], [{}]):
        assert arguments_of(9, ("k", {BOUND_FROM: odd})) == []
    assert len(arguments_of(9, ("k", {BOUND_FROM: "text"}))) == 1
    assert len(arguments_of(9, ("k", {BOUND_FROM: []}))) == 1


def test_equal_bindings_are_repeated_once() -> None:
    assert len(arguments_of(1, ("k", {"a": 1, "b": 2}), ("k", {"b": 2, "a": 1}), ("k", {}), ("j", {}))) == 3
