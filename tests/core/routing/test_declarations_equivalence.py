"""A second declaration: equivalent, or refused with the first difference in RabbitMQ's words."""

from __future__ import annotations

import pytest

from penstock.core.routing.declarations import check_exchange, check_queue
from penstock.errors import PreconditionFailed
from tests.support.broker_fixture import House


@pytest.mark.parametrize(
    ("arguments", "durable", "auto_delete", "said"),
    [
        (
            {"x-max-length": 6},
            False,
            False,
            "'x-max-length' for queue 'a' in vhost '/': received '6' but current is '5'",
        ),
        ({}, False, False, "received none but current is the value '5' of type 'signedint'"),
        (
            {"x-max-length": 5},
            True,
            False,
            "'durable' for queue 'a' in vhost '/': received 'true' but current is 'false'",
        ),
        ({"x-max-length": 5}, False, True, "'auto_delete'"),
        ({"x-max-length": 5, "x-queue-type": "quorum"}, False, False, "received 'quorum' but current is 'classic'"),
    ],
)
def test_equivalence_of_queues_names_the_first_difference(
    arguments: dict[str, object], durable: bool, auto_delete: bool, said: str
) -> None:
    house = House("a", x_max_length=5)
    with pytest.raises(PreconditionFailed) as refused:
        check_queue(house.vhost.queue("a"), arguments, durable, auto_delete)
    assert said in str(refused.value)


def test_equivalence_ignores_arguments_that_nobody_knows_and_a_type_that_is_the_default() -> None:
    house = House("a", x_max_length=5, x_colour="red")
    check_queue(house.vhost.queue("a"), {"x-max-length": 5, "x-queue-type": "classic"}, False, False)


def test_equivalence_of_exchanges_compares_type_flags_and_alternate_only() -> None:
    exchange = House().vhost.declare_exchange("e", "topic", {"x-colour": "red"}, False, False, False)
    check_exchange(exchange, "/", "topic", {}, False, False, False)
    for kind, arguments, internal, said in (
        ("fanout", {}, False, "'type'"),
        ("topic", {}, True, "'internal'"),
        ("topic", {"alternate-exchange": "other"}, False, "'alternate-exchange'"),
    ):
        with pytest.raises(PreconditionFailed, match=said):
            check_exchange(exchange, "/", kind, arguments, False, False, internal)
