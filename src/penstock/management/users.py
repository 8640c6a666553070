"""Users: passwords and tags. A tag grants access to management operations."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from typing import Final

from typing_extensions import override

from penstock.protocols.common.services import CredentialCheck

GUEST: Final = "guest"
ADMINISTRATOR: Final = "administrator"
"""Tag of users with access to the operator's commands."""
TAGS: Final = (ADMINISTRATOR,)


class Users:
    """Names and passwords; guest/guest, from this machine only, unless others are configured (as in RabbitMQ).

    `tags` holds the tags of users. Without an entry the first user and guest have the tag administrator.
    """

    def __init__(
        self, passwords: Mapping[str, str] | None = None, tags: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._passwords = {GUEST: GUEST} if passwords is None else dict(passwords)
        self._tags: dict[str, list[str]] = {name: [] for name in self._passwords}
        for name in (*list(self._passwords)[:1], GUEST):
            if name in self._tags:
                self._tags[name] = [ADMINISTRATOR]
        for name, given in (tags or {}).items():
            self._tags[name] = list(given)

    def names(self) -> list[str]:
        """Return the names of all users."""
        return list(self._passwords)

    def tags(self, user: str) -> list[str]:
        """Return the tags of a user; none for an unknown one."""
        return self._tags.get(user, [])

    def is_administrator(self, user: str) -> bool:
        """Tell whether a user may use the operator's commands."""
        return ADMINISTRATOR in self.tags(user)

    def refusal(self, user: str, password: str, loopback: bool) -> str:
        """Return why a login is refused, for the log and never for the client; "" if it is accepted."""
        expected = self._passwords.get(user)
        same = hmac.compare_digest((expected or "").encode(), password.encode())
        if expected is None:
            return f"user '{user}' is not known"
        if not same:
            return f"user '{user}' gave a wrong password"
        return self.access_refusal(user, loopback)

    def access_refusal(self, user: str, loopback: bool) -> str:
        """Return why a login is refused although the client is this user; "" if it is accepted."""
        if user not in self._passwords:
            return f"user '{user}' is not known"
        if user == GUEST and not loopback:
            return "user 'guest' can only connect from this machine; configure a user for others"
        return ""

    def password(self, user: str) -> str | None:
        """Return the password of a user, for keys that are derived from it; None for an unknown user."""
        return self._passwords.get(user)


class PasswordCheck(CredentialCheck):
    """Check of the password of a user of the settings file."""

    def __init__(self, users: Users, user: str, password: str, loopback: bool) -> None:
        self.user = user
        self._users = users
        self._password = password
        self._loopback = loopback

    @override
    def is_slow(self) -> bool:
        return False

    @override
    def verify(self) -> None:
        """Do nothing: a comparison is quick."""

    @override
    def refusal(self) -> str:
        return self._users.refusal(self.user, self._password, self._loopback)
