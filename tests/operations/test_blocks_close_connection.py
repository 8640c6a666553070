"""Connections that are closed by command."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused, NotFound
from penstock.operations.blocks import close_connection
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue
from tests.support.operation_calls import request_of


def test_command_closes_a_connection_with_a_reason(driver: BrokerDriver) -> None:
    first, second = Dialogue(driver).connection, Dialogue(driver).connection
    assert close_connection(driver, request_of(driver, connection=str(first.number))) == {"closed": first.name()}
    assert close_connection(driver, request_of(driver, connection=second.name(), reason="why not")) == {
        "closed": second.name()
    }
    with pytest.raises(NotFound, match="no connection 'none'"):
        close_connection(driver, request_of(driver, connection="none"))


def test_command_closes_connections_of_others_for_administrators_only(driver: BrokerDriver) -> None:
    connection = Dialogue(driver).connection
    for tag, error in (("management", NotFound), ("monitoring", AccessRefused)):
        driver.broker.access.put_user(tag, None, [tag])
        asked = request_of(driver, connection=str(connection.number))
        asked.access = access_of(driver.broker, tag)
        with pytest.raises(error):
            close_connection(driver, asked)
