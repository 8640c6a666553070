"""Counts of open connections by user, virtual host and network, and the limits that they are checked against."""

from __future__ import annotations

import pytest

from penstock.access.access_table import AccessTable
from penstock.access.password_hash import file_password
from penstock.connections.connection_counts import ConnectionCounts
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.peer import THIS_MACHINE
from penstock.errors import NotAllowed
from penstock.settings.start import Start
from tests.support.driven_connection import make_driver


@pytest.fixture
def table() -> AccessTable:
    access = make_driver().broker.access
    access.put_user("ada", file_password("secret"), [])
    access.set_user_limits("ada", {"max-connections": 2})
    access.copy_vhost_limits("west", {"max-connections": 1})
    return access


def counts(**settings: int) -> ConnectionCounts:
    return ConnectionCounts(ConnectionLimits(Start(**settings)))


def refusal(found: ConnectionCounts, table: AccessTable, user: str, vhost: str, network: str = "10.0.0.1") -> str:
    with pytest.raises(NotAllowed) as refused:
        found.check(table, user, vhost, network)
    assert refused.value.code == 530
    return str(refused.value)


def test_user_at_its_limit_is_refused_until_a_connection_ends(table: AccessTable) -> None:
    found = counts()
    for number in (1, 2):
        found.check(table, "ada", "/", "10.0.0.1")
        found.add(number, "ada", "/", "10.0.0.1")
    assert "user 'ada': user connection limit (2) is reached" in refusal(found, table, "ada", "/")
    found.check(table, "bob", "/", "10.0.0.1")
    assert found.remove(1)
    found.check(table, "ada", "/", "10.0.0.1")
    assert (found.total(), found.connections_of("ada"), found.connections_to("/")) == (1, 1, 1)


def test_vhost_at_its_limit_is_refused_to_every_user(table: AccessTable) -> None:
    found = counts()
    found.add(1, "bob", "west", "10.0.0.1")
    assert "vhost 'west' refused for user 'ada': connection limit (1) is reached" in refusal(
        found, table, "ada", "west"
    )


def test_limit_of_the_node_counts_all_and_that_of_an_address_spares_this_machine(table: AccessTable) -> None:
    found = counts(connections_max=3, connections_address_max=1)
    found.add(1, "bob", "/", "10.0.0.1")
    assert "address connection limit (1) of 10.0.0.1 is reached" in refusal(found, table, "bob", "/")
    for number in (2, 3):
        found.check(table, "bob", "/", THIS_MACHINE)
        found.add(number, "bob", "/", THIS_MACHINE)
    assert "node connection limit (3) is reached" in refusal(found, table, "bob", "/", THIS_MACHINE)


def test_connection_that_is_not_counted_is_removed_without_effect(table: AccessTable) -> None:
    found = counts()
    found.add(1, "ada", "/", "10.0.0.1")
    assert (found.has(1), found.remove(2), found.remove(1), found.remove(1)) == (True, False, True, False)
    assert (found.total(), found.count("10.0.0.1"), found.connections_to("/")) == (0, 0, 0)
