"""Permissions of guest, as the tables of operations need them."""

from __future__ import annotations

from penstock.access.permission import Permission, TopicPermission
from penstock.driver.driver import BrokerDriver
from tests.support.access_matrix import Grants


def restrict(driver: BrokerDriver, given: Grants) -> None:
    """Give guest these permissions and nothing more."""
    table = driver.broker.access
    table.set_permission("guest", "/", Permission(given.configure, given.write, given.read))
    table.set_topic_permission("guest", "/", "x", TopicPermission(given.topic_write, given.topic_read))
