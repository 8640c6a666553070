"""Who may log in, with which password."""

from __future__ import annotations

from typing import Final

GUEST: Final = "guest"


class Users:
    """Names and passwords; guest/guest, from this machine only, unless others are configured (as in RabbitMQ)."""

    def __init__(self, passwords: dict[str, str] | None = None) -> None:
        self._passwords = {GUEST: GUEST} if passwords is None else passwords

    def names(self) -> list[str]:
        """Return who may log in."""
        return list(self._passwords)

    def refusal(self, user: str, password: str, loopback: bool) -> str:
        """Return why a login is refused, for the log and never for the client; "" if it is welcome."""
        expected = self._passwords.get(user)
        if expected is None:
            return f"user '{user}' is not known"
        if not _same(expected.encode(), password.encode()):
            return f"user '{user}' gave a wrong password"
        if user == GUEST and not loopback:
            return "user 'guest' can only connect from this machine; configure a user for others"
        return ""


def _same(expected: bytes, given: bytes) -> bool:
    """Compare in a time that does not tell how far they agree."""
    difference = len(expected) ^ len(given)
    for index in range(len(given)):
        difference |= given[index] ^ expected[index % len(expected)] if expected else 1
    return difference == 0
