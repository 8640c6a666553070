"""Deletion of queues and exchanges with very many bindings: in slices, and no message is routed by them."""

import pytest

from penstock.core.vhost import BINDING_COST, BINDINGS_AT_ONCE, VirtualHost
from penstock.errors import ResourceLocked
from penstock.flow.work import SHARE, UNITS_A_TURN
from tests.support.topology import declare, exchange, reached

MANY = 10_000


def run(vhost: VirtualHost) -> int:
    """Make a turn; returns how many bindings went in it."""
    before = vhost.bindings.count
    vhost.gates.broker.run(1000)
    return int(before - vhost.bindings.count)


def test_queue_with_many_bindings_is_deleted_at_once_and_the_bindings_in_slices(vhost: VirtualHost) -> None:
    exchange(vhost, "e", auto_delete=True)
    declare(vhost, "q")
    for number in range(MANY):
        vhost.bind("e", vhost.queue("q"), None, f"k{number}", {})
    vhost.gates.broker.delete_queue(vhost.queue("q"))
    assert vhost.bindings.count == MANY - SHARE // BINDING_COST - 1
    assert reached(vhost, "e", f"k{MANY - 1}") == []
    with pytest.raises(ResourceLocked, match=r"queue 'q' in vhost '/' is being deleted: .* of its bindings are left"):
        declare(vhost, "q")
    while vhost.bindings.count:
        assert run(vhost) <= UNITS_A_TURN // BINDING_COST + 1
    assert "e" not in vhost.exchanges, "deleted with its last binding"
    declare(vhost, "q")


def test_exchange_with_many_bindings_is_deleted_at_once_and_the_bindings_in_slices(vhost: VirtualHost) -> None:
    exchange(vhost, "before")
    exchange(vhost, "e")
    declare(vhost, "q")
    vhost.bind("before", None, vhost.exchange("e"), "k1", {})
    for number in range(MANY):
        vhost.bind("e", vhost.queue("q"), None, f"k{number}", {})
    assert reached(vhost, "before", "k1") == ["q"]
    vhost.delete_exchange("e", False)
    assert reached(vhost, "before", "k1") == []
    with pytest.raises(ResourceLocked, match="exchange 'e' in vhost '/' is being deleted"):
        exchange(vhost, "e")
    vhost.gates.broker.delete_queue(vhost.queue("q"))
    while vhost.bindings.count:
        run(vhost)
    exchange(vhost, "e")
    assert not vhost.exchange("e").bindings


def test_queue_with_few_bindings_is_deleted_at_once_and_the_name_is_free(vhost: VirtualHost) -> None:
    exchange(vhost, "e")
    for _ in range(3):
        declare(vhost, "q")
        for number in range(BINDINGS_AT_ONCE):
            vhost.bind("e", vhost.queue("q"), None, f"k{number}", {})
        vhost.gates.broker.delete_queue(vhost.queue("q"))
        assert vhost.bindings.count == 0
