"""Login back-off: delays answers to wrong passwords by address and by user, without locking anybody out for long.

Theory of operation. A right password is answered at once. The answer to a wrong one is delayed. The delay doubles with
every failure of the address, and with every failure of the user name from addresses at which that user never logged in.
No thread sleeps: the answer waits for its deadline while the connection counts as not logged in.

The number of waiting answers is bounded by address, by user name, and by both. Beyond a bound the password is not
checked and the login is refused at once. So an address has `WAITING_MOST` guesses per delay, and a user name
`USER_WAITING_MOST`.

These must not be locked out:

- A user at other addresses than the attacker's: at an address where the user has logged in before, failures and waiting
  answers of other addresses do not count.
- An operator on this machine: every password is checked, and the delay is at most `LOCAL_DELAY_S`.
- A user at the attacker's address who has logged in there before: only guesses at that user's own name count.
"""

from __future__ import annotations

import zlib
from typing import Final

from penstock.access.access_table import AccessTable
from penstock.protocols.common.peer import THIS_MACHINE

FREE_FAILURES: Final = 3
"""Wrong passwords of an address that are answered at once, because people mistype."""
FREE_USER_FAILURES: Final = 10
"""Wrong passwords for a user name that are answered at once, from addresses at which that user never logged in."""
FIRST_DELAY_S: Final = 0.5
DELAY_S: Final = 8.0
"""Longest delay, in seconds: below the handshake time-out."""
LOCAL_DELAY_S: Final = 2.0
"""Longest delay on this machine."""
SHARES: Final = 1_024
"""Shares of unknown names where a back end knows some: who guesses at one hinders only those that share with it."""
FORGET_S: Final = 60.0
"""Seconds without a failure after which earlier ones are forgotten."""
WAITING_MOST: Final = 16
"""Answers that may wait for one address, and for one user name at one address."""
USER_WAITING_MOST: Final = 64
"""Answers that may wait for one user name, from addresses at which it has not logged in."""
WAITING_ALL: Final = 10_000
"""Answers that may wait for clients that are gone; beyond, they count no more."""
REMEMBERED: Final = 10_000
"""Most addresses with failures, and most pairs of user and address that have logged in; the least recently used is
dropped.
"""


class _Failures:
    """Recent failures of an address or a user name."""

    def __init__(self) -> None:
        self.count: int = 0
        self.last_at: float = 0.0

    def add(self, now: float) -> int:
        """Count one more failure; return the number that is not forgotten."""
        if now - self.last_at > FORGET_S:
            self.count = 0
        self.count += 1
        self.last_at = now
        return self.count


class Backoff:
    """Failures and waiting answers of all addresses and users.

    All unknown user names count as one. They cannot fill the table, and a delay does not reveal which names exist.
    """

    def __init__(self, table: AccessTable) -> None:
        self._table = table
        self.shares: int = 1
        """Shares of the names that the table does not know; one, unless a back end knows some of them."""
        self._addresses: dict[str, _Failures] = {}
        """By address, the latest failure last."""
        self._users: dict[str, _Failures] = {}
        self._welcome: dict[tuple[str, str], None] = {}
        """User and address of successful logins, the latest last."""
        self._waiting: dict[tuple[str, str], int] = {}
        """Number of waiting answers by user and address; one of the two may be empty."""
        self._waits_all: int = 0

    def refusal(self, user: str, address: str) -> str:
        """Return the reason why the password of a login is not checked; "" if it is."""
        if address == THIS_MACHINE:
            return ""
        known = (user, address) in self._welcome
        user = self.known_name(user)
        if self._waits(user, address) >= WAITING_MOST or (self._waits("", address) >= WAITING_MOST and not known):
            return f"{WAITING_MOST} wrong passwords from {address} are not answered yet"
        if not known and self._waits(user, "") >= USER_WAITING_MOST:
            return f"{USER_WAITING_MOST} wrong passwords for user '{user}' are not answered yet"
        return ""

    def succeeded(self, user: str, address: str) -> None:
        """Record a right password: failures elsewhere do not count for this user at this address."""
        self._welcome.pop((user, address), None)
        self._welcome[(user, address)] = None
        if len(self._welcome) > REMEMBERED:
            del self._welcome[next(iter(self._welcome))]

    def failed(self, user: str, address: str, now: float) -> float:
        """Count a wrong password. Return the delay of its answer in seconds, 0.0 for none."""
        known = (user, address) in self._welcome
        user = self.known_name(user)
        found = self._addresses.pop(address, None) or _Failures()
        self._addresses[address] = found
        delay_s = _delay_s(found.add(now) - FREE_FAILURES)
        if len(self._addresses) > REMEMBERED:
            del self._addresses[next(iter(self._addresses))]
        if not known:
            of_user = self._users.setdefault(user, _Failures())
            delay_s = max(delay_s, _delay_s(of_user.add(now) - FREE_USER_FAILURES))
        return min(delay_s, LOCAL_DELAY_S) if address == THIS_MACHINE else delay_s

    def wait(self, user: str, address: str) -> list[tuple[str, str]]:
        """Count a waiting answer. Return the arguments for `answered`."""
        known = (user, address) in self._welcome
        user = self.known_name(user)
        keys = [(user, address), ("", address)]
        if not known:
            keys.append((user, ""))
        for key in keys:
            self._waiting[key] = self._waiting.get(key, 0) + 1
        self._waits_all += 1
        return keys

    def answered(self, keys: list[tuple[str, str]]) -> None:
        """Undo `wait`: the time of the answer has come."""
        self._waits_all -= 1
        for key in keys:
            count = self._waiting[key] - 1
            if count > 0:
                self._waiting[key] = count
            else:
                del self._waiting[key]

    def waits(self) -> int:
        """Return the number of waiting answers."""
        return self._waits_all

    def waits_are_many(self) -> bool:
        """Tell whether answers to clients that are gone need not be counted any more."""
        return self._waits_all >= WAITING_ALL

    def known_name(self, user: str) -> str:
        """Return the name that a user counts by: its own, or that of all unknown ones, or of a share of them."""
        if self._table.find(user) is not None:
            return user
        if self.shares == 1:
            return "(unknown)"
        return f"(unknown {zlib.crc32(user.encode(errors='surrogatepass')) % self.shares})"

    def _waits(self, user: str, address: str) -> int:
        return self._waiting.get((user, address), 0)


def _delay_s(failures: int) -> float:
    """Return the delay after this many failures beyond the free ones."""
    if failures <= 0:
        return 0.0
    return min(FIRST_DELAY_S * 2.0 ** min(failures - 1, 10), DELAY_S)
