"""Blocking and unblocking by command."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import NotFound, PreconditionFailed
from penstock.operations.blocks import block, unblock
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.operation_calls import request_of


@pytest.fixture
def driver() -> BrokerDriver:
    driver = make_driver()
    driver.broker.vhost("/").declare_queue("a", {}, False, False, None, None)
    return driver


def test_block_of_each_scope_has_its_reason_until_unblock(driver: BrokerDriver) -> None:
    for fields in ({"queue": "a"}, {"address": "amq.fanout"}, {"vhost": "/"}, {"user": "guest"}):
        blocked = block(driver, request_of(driver, **fields, reason="too loud"))
        assert blocked["reason"] == "too loud"
        assert unblock(driver, request_of(driver, **fields))["unblocked"] == blocked["blocked"]


def test_block_finds_a_connection_by_its_number_and_by_its_name(driver: BrokerDriver) -> None:
    connection = Dialogue(driver).connection
    for name in (str(connection.number), f"con:{connection.number}", connection.name()):
        block(driver, request_of(driver, connection=name))
        unblock(driver, request_of(driver, connection=name))
    with pytest.raises(NotFound, match="no connection 'none'; the first of 1 are con:1"):
        block(driver, request_of(driver, connection="none"))


def test_block_wants_exactly_one_object_that_exists(driver: BrokerDriver) -> None:
    for fields in ({}, {"queue": "a", "user": "b"}):
        with pytest.raises(PreconditionFailed, match="name exactly one of"):
            block(driver, request_of(driver, **fields))
    for fields in ({"queue": "none"}, {"address": "none"}):
        with pytest.raises(NotFound):
            block(driver, request_of(driver, **fields))


def test_unblock_works_for_a_block_of_a_deleted_queue(driver: BrokerDriver) -> None:
    block(driver, request_of(driver, queue="a"))
    driver.broker.delete_queue(driver.broker.vhost("/").queue("a"))
    driver.broker.vhost("/").declare_queue("a", {}, False, False, None, None)
    unblock(driver, request_of(driver, queue="a"))
    with pytest.raises(NotFound, match="is not blocked by the operator"):
        unblock(driver, request_of(driver, queue="a"))
