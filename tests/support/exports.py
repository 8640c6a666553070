"""What an export of the definitions has."""

from __future__ import annotations

from penstock.core.vhost import VirtualHost
from penstock.describe.list_kinds import Item
from penstock.describe.table import Row
from penstock.driver.driver import BrokerDriver
from penstock.operations import definitions_export


def items_of(driver: BrokerDriver, section: str, only: VirtualHost | None = None) -> list[Item]:
    """Return the items of a section, of all virtual hosts or of one."""
    groups = definitions_export.groups(driver, section, only)
    return [Item("", vhost, subject) for vhost, subjects in groups for subject in subjects]


def exported(driver: BrokerDriver, section: str, only: VirtualHost | None = None) -> list[Row]:
    """Return a section as plain data."""
    return definitions_export.exported(items_of(driver, section, only), True)
