"""Control operations of publishers about their own channels."""

from __future__ import annotations

import pytest

from penstock.connections.control_request import ControlRequest
from penstock.errors import BrokerError
from penstock.management.control_api import withdraw
from tests.support.driven_connection import Dialogue, make_driver


@pytest.mark.parametrize(
    "body", [b"{}", b'{"channel": 1}', b'{"channel": -1, "number": 1}', b'{"channel": 1, "number": 0}']
)
def test_withdrawal_of_no_publish_is_refused(body: bytes) -> None:
    driver = make_driver()
    client = Dialogue(driver)
    request = ControlRequest(driver.broker.vhosts["/"], client.connection, None, None, body)
    with pytest.raises(BrokerError) as refused:
        withdraw(request)
    assert int(refused.value.code) in {404, 406}


def test_withdrawal_needs_a_connection() -> None:
    driver = make_driver()
    request = ControlRequest(driver.broker.vhosts["/"], None, None, None, b'{"channel": 1, "number": 1}')
    with pytest.raises(BrokerError, match="no channel 1 on the connection of the request"):
        withdraw(request)
