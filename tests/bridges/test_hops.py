"""Header `x-received-from`."""

from __future__ import annotations

from penstock.bridges.ends import source_of
from penstock.bridges.hops import HOPS_MOST, hops_of, with_hop
from penstock.content.properties import Properties

SOURCE = source_of("amqp://shop:secret@old/vh?queue=orders")


def test_hop_is_added_in_front_without_a_password() -> None:
    first = with_hop(Properties(headers={"a": 1}), SOURCE, False)
    second = with_hop(first, SOURCE, True)
    entry = {"uri": "amqp://old/vh", "queue": "orders", "redelivered": False}
    assert first.headers == {"a": 1, "x-received-from": [entry]}
    assert second.headers == {"a": 1, "x-received-from": [{**entry, "redelivered": True}, entry]}
    assert (hops_of(Properties()), hops_of(first), hops_of(second)) == (0, 1, 2)


def test_hops_are_bounded_and_a_header_of_another_kind_is_replaced() -> None:
    properties = Properties(headers={"x-received-from": "nonsense"})
    assert hops_of(properties) == 0
    for _ in range(HOPS_MOST + 3):
        properties = with_hop(properties, SOURCE, False)
    assert hops_of(properties) == HOPS_MOST
