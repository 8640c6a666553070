"""Blocks by the operator."""

from __future__ import annotations

import pytest

from penstock.core.effects import Unblocked
from penstock.core.gates.operator import ADDRESS, CONNECTION, QUEUE, SCOPES, USER, VHOST
from penstock.errors import NotFound
from tests.support.broker_fixture import House, told


@pytest.mark.parametrize(
    ("scope", "vhost", "name"),
    [(QUEUE, "/", "a"), (VHOST, "/", "/"), (USER, "", "alice"), (CONNECTION, "", "1"), (ADDRESS, "/", "amq.fanout")],
)
def test_blocked_object_takes_no_message_until_the_operator_unblocks_the_object(
    scope: str, vhost: str, name: str
) -> None:
    house = House("a")
    house.vhost.bind("amq.fanout", house.vhost.queues["a"], None, "", {})
    producer = house.producer("p")
    exchange = "amq.fanout" if scope == ADDRESS else ""
    house.publish(producer, "a", 100, exchange)
    house.broker.gates.block(scope, vhost, name, "too loud")
    house.publish(producer, "a", 100, exchange)
    house.publish(producer, "a", 100, exchange)
    house.broker.run(1000)
    assert (house.depth("a"), len(producer.outbox)) == (1, 2)
    assert house.take("a"), "consumers are never stopped"
    house.broker.gates.unblock(scope, vhost, name)
    house.broker.run(1000)
    assert house.depth("a") == 2
    assert told(producer) == [(1, 3, True)]
    assert not house.broker.gates.operator_gates
    assert any(isinstance(effect, Unblocked) for effect in house.broker.effects())
    house.publish(producer, "a", 100, exchange)
    assert house.depth("a") == 3
    assert producer.fast_path


@pytest.mark.parametrize("scope", SCOPES)
def test_unblocking_an_unblocked_object_is_an_error_with_the_name(scope: str) -> None:
    house = House()
    with pytest.raises(NotFound, match=f"{scope} 'x' is not blocked by the operator"):
        house.broker.gates.unblock(scope, "/", "x")
