"""Clients that a node has given to its shards: what counts, from when and until when."""

from __future__ import annotations

import pytest

from penstock.access.password_hash import file_password
from penstock.cluster.open_clients import OpenClients
from penstock.driver.driver import BrokerDriver
from penstock.errors import NotAllowed
from tests.support.driven_connection import make_driver
from tests.support.finished_logins import guest_record


@pytest.fixture
def driver() -> BrokerDriver:
    driver = make_driver()
    driver.broker.access.put_user("ada", file_password("secret"), [])
    driver.broker.access.set_user_limits("ada", {"max-connections": 2})
    return driver


def enter(clients: OpenClients, *numbers: int) -> None:
    for number in numbers:
        clients.enter(guest_record(user="ada", number=number), "/")


def is_full(clients: OpenClients) -> bool:
    """Return whether one more client of the user is refused."""
    try:
        enter(clients, 999)
    except NotAllowed:
        return True
    clients.leave(999)
    return False


def test_client_counts_while_it_is_given_away_and_until_its_shard_reports_its_end(driver: BrokerDriver) -> None:
    clients = OpenClients(driver)
    enter(clients, 1, 2)
    assert is_full(clients)
    clients.taken(1, "west")
    clients.taken(2, "east")
    clients.ended("west", [1, 7])
    assert (is_full(clients), clients.total()) == (False, 1)


def test_client_that_no_shard_takes_counts_no_more(driver: BrokerDriver) -> None:
    clients = OpenClients(driver)
    enter(clients, 1, 2)
    clients.leave(2)
    assert not is_full(clients)


def test_clients_of_a_process_that_ends_count_no_more_but_those_that_wait_do(driver: BrokerDriver) -> None:
    clients = OpenClients(driver)
    enter(clients, 1, 2)
    clients.taken(1, "west")
    clients.shard_ended("west")
    assert clients.total() == 1
    clients.shard_ended("west")
    assert clients.total() == 1


def test_end_that_is_reported_before_the_client_is_known_as_taken_counts(driver: BrokerDriver) -> None:
    clients = OpenClients(driver)
    enter(clients, 1, 2)
    clients.ended("west", [1])
    clients.taken(1, "west")
    assert clients.total() == 1
    enter(clients, 3)
    clients.shard_ended("west")
    assert clients.total() == 2
