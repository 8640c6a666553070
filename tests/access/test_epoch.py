"""The count of changes of access."""

from penstock.access.access_table import AccessTable
from penstock.access.connection_access import ConnectionAccess
from penstock.access.epoch import Epoch
from penstock.access.rules import UserRules


def test_everybody_who_asks_reads_the_same_count() -> None:
    table = AccessTable({"/"})
    accesses = [ConnectionAccess(UserRules(table, name), name, "/") for name in ("a", "b")]
    assert Epoch().count == 0
    table.epoch.count += 1
    assert [access.epoch.count for access in accesses] == [1, 1]
