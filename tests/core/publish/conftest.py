"""The scenes of most tests of publishing: an empty house, and a client with a transaction in it."""

from __future__ import annotations

import pytest

from tests.support.broker_fixture import House
from tests.support.transaction_client import Client


@pytest.fixture
def house() -> House:
    return House()


@pytest.fixture
def client(house: House) -> Client:
    return Client(house, "tx")
