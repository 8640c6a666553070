"""Exchange type x-federation-upstream: arguments, and messages that it keeps back."""

from __future__ import annotations

import pytest

from penstock.core.routing.exchange import Binding
from penstock.core.routing.exchange_types import make_exchange
from penstock.errors import PreconditionFailed
from tests.support.settings_bench import Bench

ARGUMENTS: dict[str, object] = {
    "x-max-hops": 2,
    "x-downstream-name": "far",
    "x-downstream-vhost": "eu",
    "x-internal-purpose": "federation",
}


def place(cluster: str, vhost: str) -> dict[str, object]:
    return {"uri": "amqp://host", "exchange": "x", "cluster-name": cluster, "vhost": vhost}


def routed(headers: dict[str, object]) -> list[str]:
    """Return the queues to which a message with these headers is routed."""
    bench = Bench()
    queue = bench.queue("federation: x -> far")
    bench.vhost.declare_exchange("up A", "x-federation-upstream", dict(ARGUMENTS), True, True, True)
    bench.vhost.bind("up A", queue, None, "", {})
    bindings: list[Binding] = []
    exchange = bench.vhost.exchanges["up A"]
    visited = exchange.match("key", headers, bindings, 100)
    assert visited >= 1
    return [binding.queue.name for binding in bindings if binding.queue is not None]


def test_message_with_hops_left_is_routed_to_all_bindings() -> None:
    assert routed({}) == ["federation: x -> far"]
    assert routed({"x-received-from": [place("other", "/")]}) == ["federation: x -> far"]


def test_message_that_was_downstream_or_has_no_hops_left_is_not_routed() -> None:
    assert routed({"x-received-from": [place("far", "eu")]}) == []
    assert routed({"x-received-from": [place("a", "/"), place("b", "/")]}) == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "argument x-max-hops is missing"),
        ({"x-max-hops": "1"}, "argument x-max-hops must be a whole number, not a longstr"),
        ({"x-max-hops": True}, "argument x-max-hops must be a whole number, not a bool"),
    ],
)
def test_declaration_without_hops_is_refused(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(PreconditionFailed, match=says):
        make_exchange("x-federation-upstream", "/", "up A").set_arguments(arguments)


def test_second_declaration_must_agree_in_its_hops() -> None:
    vhost = Bench().vhost
    vhost.declare_exchange("up A", "x-federation-upstream", dict(ARGUMENTS), True, True, True)
    vhost.declare_exchange("up A", "x-federation-upstream", dict(ARGUMENTS), True, True, True)
    with pytest.raises(PreconditionFailed, match="x-max-hops"):
        vhost.declare_exchange("up A", "x-federation-upstream", {**ARGUMENTS, "x-max-hops": 3}, True, True, True)
