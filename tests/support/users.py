"""Users of the settings file, for tests."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.access.access_table import AccessTable
from penstock.access.password_hash import file_password
from penstock.access.permission import ADMINISTRATOR
from penstock.access.user import FILE, User


def file_users(passwords: Mapping[str, str], administrators: tuple[str, ...] = ()) -> list[User]:
    """Return users that may do everything in every virtual host."""
    found = []
    for name, password in passwords.items():
        user = User(name, file_password(password), [ADMINISTRATOR] if name in administrators else [], FILE)
        user.everywhere = True
        found.append(user)
    return found


def table_of(passwords: Mapping[str, str]) -> AccessTable:
    """Return a table with these users alone."""
    table = AccessTable({"/": None})
    table.set_file_users(file_users(passwords))
    return table
