"""Logins of users: whether a name and a password, or a name alone, are those of a user in the table."""

from __future__ import annotations

from typing_extensions import override

from penstock.access.access_table import GUEST, AccessTable
from penstock.access.password_hash import PasswordHash
from penstock.protocols.common.services import CredentialCheck


class PasswordCheck(CredentialCheck):
    """Check of the password of a user in the table, as it is at the beginning."""

    def __init__(self, table: AccessTable, user: str, password: str, loopback: bool) -> None:
        self.user = user
        self._table = table
        self._password = password
        self._loopback = loopback
        found = table.find(user)
        self._hash: PasswordHash | None = None if found is None else found.password_hash
        self._right: bool = False
        self._verified: bool = False

    @override
    def is_slow(self) -> bool:
        return self._hash is not None and self._hash.is_slow()

    @override
    def verify(self) -> None:
        self._right = self._hash is not None and self._hash.verify(self._password)
        self._verified = True

    @override
    def refusal(self) -> str:
        if not self._verified:
            self.verify()
        found = self._table.find(self.user)
        if found is None:
            return f"user '{self.user}' is not known"
        if found.password_hash is None:
            return f"user '{self.user}' has no password"
        if found.password_hash is not self._hash:
            return f"user '{self.user}' got another password meanwhile"
        if not self._right:
            return f"user '{self.user}' gave a wrong password"
        return access_refusal(self._table, self.user, self._loopback)


def access_refusal(table: AccessTable, user: str, loopback: bool) -> str:
    """Return why a login is refused although the client is this user; "" if it is accepted."""
    if table.find(user) is None:
        return f"user '{user}' is not known"
    if user == GUEST and not loopback:
        return "user 'guest' can only connect from this machine; configure a user for others"
    return ""
