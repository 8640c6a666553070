"""Back-off after wrong passwords, by address and by user: guessing is slow, and nobody is locked out for long.

Theory of operation. A right password is answered at once. A wrong one is answered late: the delay doubles with every
failure of the address, and of the user name from addresses at which it has not logged in before. Nobody sleeps; the
answer waits for its deadline while the connection keeps its place among those that have not logged in.

How many answers may wait is bounded: by address, by user name, and by both. Beyond, the password is not looked at and
the login is refused at once. So an address has `WAITING_MOST` guesses in a delay, and a user name `USER_WAITING_MOST`.

Those who must not be locked out:

- A user at other addresses than the one that guesses: where the user has logged in before, neither the failures nor the
  waiting answers of other addresses count.
- An operator on this machine: here every password is looked at, and a wrong one waits no longer than `LOCAL_DELAY_S`.
- A neighbour at the address that guesses: who has logged in there before is bounded by guesses at its own name only.
"""

from __future__ import annotations

from typing import Final

from penstock.protocols.amqp091.connection_state import THIS_MACHINE

FREE_FAILURES: Final = 3
"""Wrong passwords of an address that are answered at once: people mistype."""
FREE_USER_FAILURES: Final = 10
"""Wrong passwords for a user name that are answered at once, from addresses at which it has not logged in."""
FIRST_DELAY_S: Final = 0.5
DELAY_S: Final = 8.0
"""Longest delay, in seconds: below the time that a handshake may take."""
LOCAL_DELAY_S: Final = 2.0
"""Longest delay on this machine."""
FORGET_S: Final = 60.0
"""Seconds without a failure after which earlier ones are forgotten."""
WAITING_MOST: Final = 16
"""Answers that may wait for one address, and for one user name at one address."""
USER_WAITING_MOST: Final = 64
"""Answers that may wait for one user name, from addresses at which it has not logged in."""
REMEMBERED: Final = 10_000
"""Addresses with failures, and pairs of user and address that have logged in; the one longest unused is forgotten."""


class _Failures:
    """Recent failures of an address or a user name."""

    def __init__(self) -> None:
        self.count: int = 0
        self.last_at: float = 0.0

    def add(self, now: float) -> int:
        """Count one more; returns how many there are that are not forgotten."""
        if now - self.last_at > FORGET_S:
            self.count = 0
        self.count += 1
        self.last_at = now
        return self.count


class Backoff:
    """Failures and waiting answers of all addresses and users. A user name that is not known counts as one with all
    others that are not: they cannot fill the table, and nobody learns from a delay which names there are."""

    def __init__(self, users: list[str]) -> None:
        self._names = set(users)
        self._addresses: dict[str, _Failures] = {}
        """By address, the one that failed last at the end."""
        self._users: dict[str, _Failures] = {}
        self._welcome: dict[tuple[str, str], None] = {}
        """User and address of logins that succeeded, the latest at the end."""
        self._waiting: dict[tuple[str, str], int] = {}
        """Answers that wait, by user and address; by one of them, where the other is empty."""

    def refusal(self, user: str, address: str) -> str:
        """Return why the password of a login is not looked at; "" if it is."""
        if address == THIS_MACHINE:
            return ""
        user = self._name(user)
        known = (user, address) in self._welcome
        if self._waits(user, address) >= WAITING_MOST or (self._waits("", address) >= WAITING_MOST and not known):
            return f"{WAITING_MOST} wrong passwords from {address} are not answered yet"
        if not known and self._waits(user, "") >= USER_WAITING_MOST:
            return f"{USER_WAITING_MOST} wrong passwords for user '{user}' are not answered yet"
        return ""

    def succeeded(self, user: str, address: str) -> None:
        """Remember a right password: failures elsewhere do not count for this user at this address."""
        self._welcome.pop((user, address), None)
        self._welcome[(user, address)] = None
        if len(self._welcome) > REMEMBERED:
            del self._welcome[next(iter(self._welcome))]

    def failed(self, user: str, address: str, now: float) -> float:
        """Count a wrong password; returns for how many seconds its answer waits, 0.0 if it does not."""
        user = self._name(user)
        found = self._addresses.pop(address, None) or _Failures()
        self._addresses[address] = found
        delay_s = _delay_s(found.add(now) - FREE_FAILURES)
        if len(self._addresses) > REMEMBERED:
            del self._addresses[next(iter(self._addresses))]
        if (user, address) not in self._welcome:
            of_user = self._users.setdefault(user, _Failures())
            delay_s = max(delay_s, _delay_s(of_user.add(now) - FREE_USER_FAILURES))
        return min(delay_s, LOCAL_DELAY_S) if address == THIS_MACHINE else delay_s

    def wait(self, user: str, address: str) -> list[tuple[str, str]]:
        """Count an answer that waits; returns what `answered` takes."""
        user = self._name(user)
        keys = [(user, address), ("", address)]
        if (user, address) not in self._welcome:
            keys.append((user, ""))
        for key in keys:
            self._waiting[key] = self._waiting.get(key, 0) + 1
        return keys

    def answered(self, keys: list[tuple[str, str]]) -> None:
        """Undo `wait`: the answer was given, or nobody waits for it any more."""
        for key in keys:
            count = self._waiting[key] - 1
            if count > 0:
                self._waiting[key] = count
            else:
                del self._waiting[key]

    def waits(self) -> int:
        """Return how many answers wait."""
        return sum(count for (user, address), count in self._waiting.items() if user and address)

    def _name(self, user: str) -> str:
        return user if user in self._names else "(unknown)"

    def _waits(self, user: str, address: str) -> int:
        return self._waiting.get((user, address), 0)


def _delay_s(failures: int) -> float:
    """Return the delay after so many failures that are not free."""
    if failures <= 0:
        return 0.0
    return min(FIRST_DELAY_S * 2.0 ** min(failures - 1, 10), DELAY_S)
