"""A virtual host: names of queues and exchanges, exclusive use, and deletions."""

from __future__ import annotations

import pytest

from penstock.core.routing.route import CONTROL_EXCHANGE
from penstock.core.vhost import PREDECLARED
from penstock.errors import AccessRefused, NotFound, PreconditionFailed, ResourceLocked
from tests.support.broker_fixture import House


def test_vhost_has_the_predeclared_exchanges_which_cannot_be_deleted() -> None:
    vhost = House().vhost
    assert vhost.exchanges.keys() >= {name for name, _ in PREDECLARED}
    for name in ("amq.direct", ""):
        with pytest.raises(AccessRefused):
            vhost.delete_exchange(name, False)
    with pytest.raises(AccessRefused, match="contains reserved prefix"):
        vhost.declare_exchange("amq.mine", "direct", {}, False, False, False)


def test_vhost_finds_queues_and_exchanges_by_name_or_names_the_missing_object() -> None:
    house = House("a")
    assert house.vhost.queue("a").name == "a"
    with pytest.raises(NotFound, match="no queue 'b' in vhost '/'"):
        house.vhost.queue("b")
    with pytest.raises(NotFound, match="no exchange 'b' in vhost '/'"):
        house.vhost.exchange("b")


def test_vhost_refuses_an_exclusive_queue_to_all_except_the_owner() -> None:
    vhost = House().vhost
    owner, other = object(), object()
    queue = vhost.declare_queue("mine", {}, False, False, owner, owner)
    assert vhost.queue("mine", owner) is queue
    for act in (
        lambda: vhost.queue("mine", other),
        lambda: vhost.declare_queue("mine", {}, False, False, other, other),
        lambda: vhost.declare_queue("mine", {}, False, False, None, owner),
    ):
        with pytest.raises(ResourceLocked, match="cannot obtain exclusive access to locked queue 'mine'"):
            act()


def test_vhost_declares_an_equal_queue_once_and_refuses_another() -> None:
    vhost = House().vhost
    queue = vhost.declare_queue("a", {"capacity-messages": 5}, False, False, None, None)
    assert vhost.declare_queue("a", {"capacity-messages": 5}, False, False, None, None) is queue
    with pytest.raises(PreconditionFailed):
        vhost.declare_queue("a", {"capacity-messages": 6}, False, False, None, None)
    with pytest.raises(PreconditionFailed):
        vhost.declare_queue("a", {"capacity-messages": 5}, True, False, None, None)


def test_vhost_deletes_an_auto_delete_exchange_with_the_last_binding() -> None:
    house = House("a")
    queue = house.vhost.queue("a")
    house.vhost.declare_exchange("e", "direct", {}, False, True, False)
    for key in ("one", "two"):
        house.vhost.bind("e", queue, None, key, {})
    house.vhost.unbind("e", queue, None, "one", {})
    assert "e" in house.vhost.exchanges
    house.vhost.unbind("e", queue, None, "two", {})
    assert "e" not in house.vhost.exchanges


def test_vhost_refuses_to_delete_an_exchange_in_use_on_condition_of_no_use() -> None:
    house = House("a")
    house.vhost.declare_exchange("e", "direct", {}, False, False, False)
    house.vhost.bind("e", house.vhost.queue("a"), None, "k", {})
    with pytest.raises(PreconditionFailed, match="in use: it has 1 bindings"):
        house.vhost.delete_exchange("e", True)
    house.vhost.delete_exchange("e", False)
    assert house.vhost.bindings.count == 0


@pytest.mark.parametrize("name", ["", CONTROL_EXCHANGE])
def test_binding_to_the_default_exchange_or_the_broker_is_refused(name: str) -> None:
    vhost = House().vhost
    before = vhost.bindings.count
    with pytest.raises(AccessRefused):
        vhost.bind("amq.direct", None, vhost.exchange(name), "key", {})
    with pytest.raises(AccessRefused):
        vhost.bind(name, None, vhost.exchange("amq.fanout"), "key", {})
    assert vhost.bindings.count == before


def test_selector_of_a_binding_counts_as_work_by_characters() -> None:
    house = House("q")
    queue = house.vhost.queues["q"]
    work = house.broker.work

    def cost(**arguments: object) -> int:
        before = work.done
        house.vhost.bind("amq.topic", queue, None, "#", {"n": len(arguments), **arguments})
        return int(work.done - before)

    selector = " OR ".join(f"k{n} LIKE '%x{n}'" for n in range(50))
    assert cost(**{"x-jms-selector": selector}) - cost() >= len(selector) // 2 - 1
