"""Changes of users that end connections."""

from __future__ import annotations

import pytest

from penstock.access.permission import Permission
from penstock.connections.connection import Connection
from penstock.driver.driver import BrokerDriver
from penstock.errors import NotFound, PreconditionFailed
from penstock.operations.users import drop_user, replace_file_users
from penstock.operations.vhosts import declare_vhost, delete_vhost, permit_creator
from tests.support.driven_connection import Dialogue, make_driver
from tests.support.operation_calls import ask
from tests.support.users import file_users


def clear_permission(driver: BrokerDriver, user: str, vhost: str) -> object:
    return ask(driver, "permission.clear", {"user": user, "vhost": vhost})["cleared"]


def logged_in(driver: BrokerDriver) -> Connection:
    """Return an open connection of guest, in /."""
    return Dialogue(driver).connection


@pytest.fixture
def driver() -> BrokerDriver:
    driver = make_driver()
    driver.broker.access.put_user("root", None, ["administrator"])
    return driver


def test_deleted_user_loses_its_connections(driver: BrokerDriver) -> None:
    connection = logged_in(driver)
    assert connection.user == "guest"
    drop_user(driver, "guest")
    assert connection.is_closing()
    with pytest.raises(NotFound):
        drop_user(driver, "guest")


def test_last_administrator_keeps_its_connections() -> None:
    driver = make_driver()
    connection = logged_in(driver)
    with pytest.raises(PreconditionFailed, match="last administrator"):
        drop_user(driver, "guest")
    assert not connection.is_closing()


def test_cleared_permission_closes_connections_to_its_virtual_host_only(driver: BrokerDriver) -> None:
    declare_vhost(driver, "/shop")
    connection = logged_in(driver)
    driver.broker.access.set_permission("guest", "/shop", Permission("", "", ""))
    assert clear_permission(driver, "guest", "/shop")
    assert not connection.is_closing()
    assert clear_permission(driver, "guest", "/")
    assert connection.is_closing()
    assert not clear_permission(driver, "guest", "/")


def test_users_that_leave_the_settings_file_lose_their_connections() -> None:
    driver = make_driver()
    driver.broker.access.set_file_users(file_users({"guest": "guest", "root": "r"}, ("root",)))
    connection = logged_in(driver)
    assert replace_file_users(driver, file_users({"guest": "other", "root": "r"}, ("root",))) == 0
    assert not connection.is_closing()
    assert replace_file_users(driver, file_users({"root": "r"}, ("root",))) == 1
    assert connection.is_closing()


def test_creator_of_a_virtual_host_gets_all_permissions(driver: BrokerDriver) -> None:
    declare_vhost(driver, "/shop")
    permit_creator(driver, "root", "/shop")
    permit_creator(driver, "guest", "/shop")
    assert driver.broker.access.permits("root", "configure", "/shop", "q")
    assert driver.broker.access.user("guest").permissions == {}, "it may do everything anyway"
    delete_vhost(driver, "/shop")
    assert driver.broker.access.user("root").permissions == {}
