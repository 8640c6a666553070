"""Shovels that only move messages within the broker, as RabbitMQ's management page makes them."""

from __future__ import annotations

import pytest

from penstock.connections.control_request import ControlRequest
from penstock.core.settings.table import Parameter
from penstock.driver.driver import BrokerDriver
from penstock.errors import NotFound, PreconditionFailed
from penstock.operations.parameters import set_parameter
from penstock.operations.shovels import move_of
from tests.operations.test_transfers import bodies, declare, depth, put
from tests.support.access_of import access_of
from tests.support.job_calls import turn

OF_PAGE = {
    "src-uri": "amqp:///%2F",
    "src-queue": "a",
    "src-protocol": "amqp091",
    "src-prefetch-count": 1000,
    "src-delete-after": "queue-length",
    "dest-protocol": "amqp091",
    "dest-uri": "amqp:///%2F",
    "dest-add-forward-headers": False,
    "ack-mode": "on-confirm",
    "dest-queue": "b",
}
"""The value that RabbitMQ's page sends for "move messages"."""


def shovel(**changes: object) -> Parameter:
    value = {**OF_PAGE, **{name.replace("_", "-"): change for name, change in changes.items()}}
    return Parameter("shovel", "/", "Move from a", {name: each for name, each in value.items() if each is not None})


def asked(driver: BrokerDriver, parameter: Parameter) -> dict[str, object]:
    """Set a parameter as over HTTP."""
    request = ControlRequest(driver.broker.vhosts["/"], None, access=access_of(driver.broker, "guest"))
    request.fields = {"component": parameter.component, "name": parameter.name, "value": parameter.value}
    return set_parameter(driver, request)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, {"queue": "a", "target": "b"}),
        ({"src_uri": "amqp://", "dest_uri": ["amqp://"]}, {"queue": "a", "target": "b"}),
        ({"src_delete_after": None, "delete_after": "queue-length"}, {"queue": "a", "target": "b"}),
        ({"src_delete_after": 7}, {"queue": "a", "count": 7, "target": "b"}),
        (
            {"dest_queue": None, "dest_exchange": "logs", "dest_exchange_key": "k"},
            {"queue": "a", "exchange": "logs", "routing_key": "k"},
        ),
    ],
)
def test_shovel_within_the_broker_is_a_move(changes: dict[str, object], fields: dict[str, object]) -> None:
    assert move_of(shovel(**changes)) == fields


@pytest.mark.parametrize(
    "changes",
    [
        {"src_delete_after": "never"},
        {"src_delete_after": 0},
        {"src_delete_after": None},
        {"dest_uri": "amqp://other-broker/%2F"},
        {"dest_uri": "amqp:///other"},
        {"dest_uri": "amqps:///%2F"},
        {"dest_uri": "amqp://[bad"},
        {"src_uri": None},
        {"src_uri": ["amqp://", "amqp://"]},
        {"dest_protocol": "amqp10"},
        {"dest_queue": None},
        {"dest_queue": None, "dest_exchange": "logs"},
        {"src_queue": None, "src_exchange": "logs"},
    ],
)
def test_other_shovel_is_no_move(changes: dict[str, object]) -> None:
    assert move_of(shovel(**changes)) is None


def test_parameter_of_another_component_is_no_move() -> None:
    assert move_of(Parameter("federation", "/", "f", OF_PAGE)) is None
    assert move_of(Parameter("shovel", "/", "s", "text")) is None


def test_shovel_of_the_page_moves_the_messages_and_is_not_stored(driver: BrokerDriver) -> None:
    declare(driver, "a")
    declare(driver, "b")
    put(driver, "a", b"1", b"2")
    assert asked(driver, shovel()) == {"created": True}
    while driver.jobs.unfinished:
        turn(driver)
    assert bodies(driver, "b") == [b"1", b"2"]
    assert driver.broker.table.parameters.of() == []
    [job] = driver.jobs.all()
    assert (job.kind, job.state, job.user) == ("queue.move", "done", "guest")


def test_shovel_of_a_deleted_target_fails_as_a_job(driver: BrokerDriver) -> None:
    declare(driver, "a")
    declare(driver, "b", capacity_messages=1)
    put(driver, "a", b"1", b"2")
    asked(driver, shovel())
    for _ in range(5):
        turn(driver)
    driver.broker.delete_queue(driver.broker.vhosts["/"].queues["b"])
    while driver.jobs.unfinished:
        turn(driver)
    [job] = driver.jobs.all()
    assert job.state == "failed"
    assert "target queue 'b' was deleted meanwhile; 1 of 2 messages are moved" in job.error
    assert depth(driver, "a") == 1


@pytest.mark.parametrize(
    ("changes", "error"), [({"dest_queue": "none"}, NotFound), ({"dest_queue": "a"}, PreconditionFailed)]
)
def test_impossible_shovel_is_refused(driver: BrokerDriver, changes: dict[str, object], error: type[Exception]) -> None:
    declare(driver, "a")
    with pytest.raises(error):
        asked(driver, shovel(**changes))
    assert not driver.jobs.all()


def test_shovel_between_brokers_is_stored_without_effect(driver: BrokerDriver) -> None:
    declare(driver, "a")
    asked(driver, shovel(dest_uri="amqp://other-broker/"))
    assert len(driver.broker.table.parameters.of()) == 1
    assert not driver.jobs.all()
