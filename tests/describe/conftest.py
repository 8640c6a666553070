"""The scene of most tests here: a driver without connections."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from tests.support.driven_connection import make_driver


@pytest.fixture
def driver() -> BrokerDriver:
    return make_driver()
