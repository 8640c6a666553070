"""A broker without a network, for tests of operations."""

import pytest

from penstock.driver.driver import BrokerDriver
from tests.support.driven_connection import make_driver


@pytest.fixture
def driver() -> BrokerDriver:
    """Return a driver whose broker has a virtual host and nothing in it."""
    return make_driver()
