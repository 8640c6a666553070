"""Limits of logins: back-off after wrong passwords, logins a second, renewals, the line, pending connections.

**Back-off** delays answers to wrong passwords by address and by user, without locking a user out for long.

A right password is answered at once. The answer to a wrong password is delayed. The delay doubles with every failure of
the address, and with every failure of the user name from addresses at which that user never logged in. No thread
sleeps: the answer waits for its deadline while the connection counts as not logged in.

The number of waiting answers is bounded by address, by user name, and by both. Beyond a bound the password is not
checked and the login is refused at once. So an address has `WAITING_MOST` guesses per delay, and a user name
`USER_WAITING_MOST`.

The following must not be locked out:

- A user at other addresses than the attacker's: at an address where the user has logged in before, failures and waiting
  answers of other addresses do not count.
- An operator on this machine: every password is checked, and the delay is at most `LOCAL_DELAY_S`.
- A user at the attacker's address who has logged in there before: only guesses at that user's own name count.

**Logins a second** are limited: of all other machines, of each address, and of this machine.

Each limit is a token bucket with the logins of one second. A login beyond it is refused, whatever its credentials. A
refused login takes nothing from any bucket, so a flooding address does not use up the logins of others.

This machine has as many logins as all others together, and no limit by address: an operator always gets in.

**Renewals of tokens** are verified as often as `RENEWALS_A_S` allows for each user; further renewals wait, and so does
the input of their connections.

**The line of verifications**: networks take turns, users of a network take turns, and the number is bounded.

The verification of a disconnected client leaves the line at once. So an attacker has at most as many places as open
sockets, and guesses at one user delay no other user.

**Connections that are not logged in** have bounds per address and in total, because each costs a socket and some KiB.
Clients that open sockets and never log in affect others as follows:

- At other addresses not at all. At the total bound the address with the most loses its oldest connection, so an address
  with few gets in.
- At the same address little. A connection older than a login takes gives way to a new one. The new one is refused only
  if all are younger.
- This machine has a share of its own, so an operator always gets in.

A connection with an unfinished TLS handshake is dropped first. The client has sent its hello, but may be unable to
answer. Such connections have at most half of an address's bound, so that clients of the address without TLS get in
during a flood of hellos. Beyond, the oldest of them is dropped, however young it is.

A connection whose credentials are being verified is dropped after connections that have sent none. The order applies to
a reasonable number per address, `VERIFYING_SPARED`. Otherwise a flood of logins would lock all other clients out.

**Open connections** are limited in total, by network, user and virtual host, and channels by user. Connections of this
machine have no limit by network.
"""

from __future__ import annotations

import zlib
from typing import Final

from penstock.access.access_table import AccessTable
from penstock.access.user import MAX_CHANNELS
from penstock.connections.connection import Connection
from penstock.connections.connection_counts import ConnectionCounts
from penstock.connections.connection_limits import ConnectionLimits
from penstock.connections.log_line import SOCKET
from penstock.connections.login import Verification
from penstock.connections.peer import THIS_MACHINE
from penstock.connections.services import Services
from penstock.errors import NotAllowed
from penstock.flow.token_bucket import TokenBucket

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
"""Shares of unknown names if a back end knows some of them: guesses at one name hinder only names in the same share."""
FORGET_S: Final = 60.0
"""Seconds without a failure after which earlier ones are forgotten."""
WAITING_MOST: Final = 16
"""Answers that may wait for one address, and for one user name at one address."""
USER_WAITING_MOST: Final = 64
"""Answers that may wait for one user name, from addresses at which the user has not logged in."""
WAITING_ALL: Final = 10_000
"""Answers that may wait for disconnected clients; beyond, such answers are not counted."""
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
        """Count one more failure; return the number of failures that are not forgotten."""
        if now - self.last_at > FORGET_S:
            self.count = 0
        self.count += 1
        self.last_at = now
        return self.count


class Backoff:
    """Failures and waiting answers of all addresses and users.

    All unknown user names count as one. So unknown names cannot fill the table, and a delay does not reveal which names
    exist.
    """

    def __init__(self, table: AccessTable) -> None:
        self._table = table
        self.shares: int = 1
        """Shares of the names that the table does not know; one share, unless a back end knows some of them."""
        self._addresses: dict[str, _Failures] = {}
        """Failures by address, the latest failure last."""
        self._users: dict[str, _Failures] = {}
        self._welcome: dict[tuple[str, str], None] = {}
        """User and address of successful logins, the latest last."""
        self._waiting: dict[tuple[str, str], int] = {}
        """Number of waiting answers by user and address; either may be empty."""
        self._waits_all: int = 0

    def refusal(self, user: str, address: str) -> str:
        """Return the reason why the password of a login is not checked; "" if it may be checked."""
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
        failures = self._addresses.pop(address, None) or _Failures()
        self._addresses[address] = failures
        delay_s = _delay_s(failures.add(now) - FREE_FAILURES)
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
        """Return whether answers to disconnected clients need not be counted any more."""
        return self._waits_all >= WAITING_ALL

    def known_name(self, user: str) -> str:
        """Return the key under which a user is counted: the user's name, or the key of all or a share of the unknown
        users."""
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


class LoginRate:
    """Logins of one broker, counted as they begin."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._here = TokenBucket(limits.start.login_rate_max, limits.start.login_rate_max)
        """Logins of this machine."""
        self._distant = TokenBucket(limits.start.login_rate_max, limits.start.login_rate_max)
        """Logins of all other machines."""
        self._addresses: dict[str, TokenBucket] = {}
        """Logins by network, the least recently used first. A forgotten network has a full bucket again."""

    def refusal(self, network: str, now: float) -> str:
        """Count a login that begins at `now` (monotonic seconds); return why it is refused, "" if it may continue."""
        limits = self._limits
        bucket = self._of_address(network)
        if bucket is not None and bucket.ready_at(now) > now:
            return (
                f"address login limit ({limits.start.login_rate_address_max} a second) of {network} is reached; "
                "login-rate-address-max sets it"
            )
        if limits.start.login_rate_max:
            node = self._here if network == THIS_MACHINE else self._distant
            if node.ready_at(now) > now:
                return f"node login limit ({limits.start.login_rate_max} a second) is reached; login-rate-max sets it"
            node.take(1.0, now)
        if bucket is not None:
            bucket.take(1.0, now)
        return ""

    def addresses(self) -> int:
        """Return the number of networks that are remembered."""
        return len(self._addresses)

    def _of_address(self, network: str) -> TokenBucket | None:
        """Return the bucket of a network; None if it has no limit."""
        rate = self._limits.start.login_rate_address_max
        if not rate or network == THIS_MACHINE:
            return None
        bucket = self._addresses.pop(network, None) or TokenBucket(rate, rate)
        self._addresses[network] = bucket
        if len(self._addresses) > REMEMBERED:
            del self._addresses[next(iter(self._addresses))]
        return bucket


RENEWALS_A_S: Final = 100
"""Verifications of newer tokens of one user, a second and at once: 4 % of a core."""


class RenewalRate:
    """Renewals of tokens, by user."""

    def __init__(self) -> None:
        self._users: dict[str, TokenBucket] = {}
        """Renewals by user, the least recently used first. A forgotten user has a full bucket again."""

    def reserve(self, user: str, now: float) -> float:
        """Count a renewal; return the time at which it may begin."""
        bucket = self._users.pop(user, None) or TokenBucket(RENEWALS_A_S, RENEWALS_A_S)
        self._users[user] = bucket
        if len(self._users) > REMEMBERED:
            del self._users[next(iter(self._users))]
        at = bucket.ready_at(now)
        bucket.take(1.0, now)
        return at

    def give_back(self, user: str, now: float) -> None:
        """Undo `reserve`: the client disconnected before its time."""
        bucket = self._users.get(user)
        if bucket is not None:
            bucket.take(-1.0, now)

    def users(self) -> int:
        """Return the number of users that are remembered."""
        return len(self._users)


LINE_MOST: Final = 2_000
"""Most waiting verifications: more than there may be sockets before the login."""
NETWORK_MOST: Final = 500
"""Most verifications of one network, and of this machine."""


class LoginLine:
    """Line of verifications that wait for a thread."""

    def __init__(self) -> None:
        self._networks: dict[str, dict[str, dict[int, Verification]]] = {}
        """Verifications by network, by user and by number; networks, and their users, that were served longest ago come
        first."""
        self._counts: dict[str, int] = {}
        """Number of verifications by network."""
        self._count: int = 0
        self._drawn: int = 0

    def __len__(self) -> int:
        return self._count

    def add(self, verification: Verification) -> bool:
        """Append a verification to those of its network; return False without room."""
        network = verification.network
        of_network = self._counts.get(network, 0)
        if self._count >= LINE_MOST or of_network >= NETWORK_MOST:
            return False
        self._drawn += 1
        verification.number = self._drawn
        self._networks.setdefault(network, {}).setdefault(verification.subject, {})[self._drawn] = verification
        self._counts[network] = of_network + 1
        self._count += 1
        return True

    def remove(self, verification: Verification) -> None:
        """Remove the verification of a disconnected client; no-op if it has left the line."""
        users = self._networks.get(verification.network, {})
        waiting = users.get(verification.subject, {})
        if waiting.pop(verification.number, None) is not None:
            if not waiting:
                del users[verification.subject]
            if not users:
                del self._networks[verification.network]
            self._left(verification.network)

    def next(self) -> Verification | None:
        """Take the oldest verification of the network and user that were served longest ago; None if none waits."""
        if not self._networks:
            return None
        network = next(iter(self._networks))
        users = self._networks.pop(network)
        user = next(iter(users))
        waiting = users.pop(user)
        verification = waiting.pop(next(iter(waiting)))
        if waiting:
            users[user] = waiting
        if users:
            self._networks[network] = users
        self._left(network)
        return verification

    def _left(self, network: str) -> None:
        """Count one verification less."""
        self._count -= 1
        left = self._counts[network] - 1
        if left:
            self._counts[network] = left
        else:
            del self._counts[network]


LOGIN_S: Final = 2.0
"""Seconds after which a connection gives way to a newer one of its address: a few round trips around the world."""
VERIFYING_SPARED: Final = 16
"""Logins of an address that are not counted while they are verified, as many as answers may wait."""


HELLO_PART: Final = 2
"""Part (a half) of the connections of an address that may be handshakes of TLS."""


class NetworkLogins:
    """Connections of one network that are not logged in."""

    def __init__(self) -> None:
        self.hellos: dict[int, Connection] = {}
        """Connections whose TLS handshake is not over, by number, the oldest first."""
        self.silent: dict[int, Connection] = {}
        """Connections without credentials, by number, the oldest first, followed by refused ones."""
        self.verifying: dict[int, Connection] = {}
        """Connections whose credentials are being verified, by number, the first in the line first."""

    def count(self) -> int:
        """Return the number of connections."""
        return len(self.hellos) + len(self.silent) + len(self.verifying)

    def claim(self) -> int:
        """Return the number by which networks are compared when a connection of any network must be dropped."""
        return len(self.hellos) + len(self.silent) + max(0, len(self.verifying) - VERIFYING_SPARED)

    def oldest(self, opened_by: float, hello_by: float) -> Connection | None:
        """Return the connection to drop, if it was opened by a time: a handshake first, a verified one last.

        `hello_by` is the time for handshakes.
        """
        connection = _first_of(self.hellos, hello_by)
        if connection is None:
            connection = _first_of(self.silent, opened_by)
        if connection is None and len(self.verifying) > VERIFYING_SPARED:
            connection = _first_of(self.verifying, opened_by)
        return connection


class PendingLogins:
    """Registry of connections from connect to successful login, or to their end."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._waiting: dict[str, NetworkLogins] = {}
        """Pending logins by network."""
        self._abroad: int = 0
        """Number of pending logins from other machines."""
        self._turned_away: list[Connection] = []

    def count(self, network: str) -> int:
        """Return the number of pending logins of a network."""
        waiting = self._waiting.get(network)
        return 0 if waiting is None else waiting.count()

    def enter(self, connection: Connection) -> None:
        """Add a connection; beyond a bound one connection is dropped, the new one or another."""
        network = connection.peer.network
        waiting = self._waiting.setdefault(network, NetworkLogins())
        policy = self._services.connection_limits
        if network != THIS_MACHINE:
            self._abroad += 1
        if connection.peer.securing:
            self._enter_hello(waiting, connection)
        else:
            waiting.silent[connection.number] = connection
        if waiting.count() > policy.start.handshakes_address_max:
            most = policy.start.handshakes_address_max
            self._turn_away(
                self._slowest(waiting, connection, LOGIN_S), f"{most} of its address, handshakes-address-max"
            )
        elif network != THIS_MACHINE and self._abroad > policy.start.handshakes_max:
            crowd = self._crowd(waiting)
            age_s = 0.0 if crowd.claim() > waiting.claim() else LOGIN_S
            self._turn_away(
                self._slowest(crowd, connection, age_s),
                f"{policy.start.handshakes_max} of all addresses, handshakes-max",
            )

    def _enter_hello(self, waiting: NetworkLogins, connection: Connection) -> None:
        """Add a connection whose TLS handshake begins; beyond the share of handshakes the oldest is dropped."""
        most = max(1, self._services.connection_limits.start.handshakes_address_max // HELLO_PART)
        if len(waiting.hellos) >= most:
            oldest = next(iter(waiting.hellos.values()))
            self._turn_away(oldest, f"{most} handshakes of TLS of its address, a part of handshakes-address-max")
            self._waiting.setdefault(connection.peer.network, waiting)
        waiting.hellos[connection.number] = connection

    def end_handshake(self, connection: Connection) -> None:
        """Record that the TLS handshake of a connection is over."""
        connection.peer.securing = False
        waiting = self._waiting.get(connection.peer.network)
        if waiting is not None and waiting.hellos.pop(connection.number, None) is not None:
            waiting.silent[connection.number] = connection

    def await_verdict(self, connection: Connection) -> None:
        """Record that the credentials of a connection have come, and are being verified."""
        waiting = self._waiting.get(connection.peer.network)
        if waiting is not None and waiting.silent.pop(connection.number, None) is not None:
            waiting.verifying[connection.number] = connection

    def end_verdict(self, connection: Connection) -> None:
        """Record that the credentials of a connection were verified; a refused connection may still be listed."""
        waiting = self._waiting.get(connection.peer.network)
        if waiting is not None and waiting.verifying.pop(connection.number, None) is not None:
            waiting.silent[connection.number] = connection

    def leave(self, connection: Connection) -> None:
        """Remove a connection that has logged in or is closed. A repeated call changes nothing."""
        network, number = connection.peer.network, connection.number
        waiting = self._waiting.get(network)
        if waiting is None:
            return
        known = waiting.hellos.pop(number, None) or waiting.silent.pop(number, None)
        if known is None and waiting.verifying.pop(number, None) is None:
            return
        if network != THIS_MACHINE:
            self._abroad -= 1
        if not waiting.count():
            del self._waiting[network]

    def take_turned_away(self) -> list[Connection]:
        """Take the connections whose sockets must be closed."""
        turned_away = self._turned_away
        if turned_away:
            self._turned_away = []
        return turned_away

    def _slowest(self, waiting: NetworkLogins, newcomer: Connection, age_s: float) -> Connection:
        """Return the connection of a network to drop, if it is at least so many seconds old, else the new one."""
        now = self._services.broker.now
        hello_age_s = age_s if newcomer.peer.securing else 0.0
        oldest = waiting.oldest(now - age_s, now - hello_age_s)
        return newcomer if oldest is None else oldest

    def _crowd(self, of_newcomer: NetworkLogins) -> NetworkLogins:
        """Return the network with the largest claim; on a tie, the network with pending logins for longest."""
        logins, most = of_newcomer, 0
        for network, waiting in self._waiting.items():
            if network != THIS_MACHINE and waiting.claim() > most:
                logins, most = waiting, waiting.claim()
        return logins

    def _turn_away(self, connection: Connection, bound: str) -> None:
        self.leave(connection)
        self._turned_away.append(connection)
        line = f"[{connection.name()}] turned away: too many connections have not logged in ({bound})"
        self._services.log_refusal(SOCKET, line)


def _first_of(connections: dict[int, Connection], opened_by: float) -> Connection | None:
    """Return the first connection if it was opened by a time."""
    for connection in connections.values():
        return connection if connection.times.opened <= opened_by else None
    return None


class OpenConnections:
    """The connections of a broker that have opened a virtual host."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.counts = ConnectionCounts(limits)
        self._users: dict[str, dict[int, Connection]] = {}
        """Connections by user and number."""

    def total(self) -> int:
        """Return the number of open connections."""
        return self.counts.total()

    def enter(self, connection: Connection, vhost: str) -> None:
        """Count a connection that opens a virtual host. Raises NotAllowed (530), in RabbitMQ's words, at a bound."""
        user, network = connection.user, connection.peer.network
        self.counts.check(connection.broker.access, user, vhost, network)
        self.counts.add(connection.number, user, vhost, network)
        self._users.setdefault(user, {})[connection.number] = connection

    def check_channels(self, connection: Connection) -> None:
        """Check that a user may open another channel, or session. Raises NotAllowed (530), in RabbitMQ's words."""
        user = connection.user
        most = connection.broker.access.user_limit(user, MAX_CHANNELS)
        if 0 <= most <= self.channels_of(user):
            reached = f"has reached the maximum allowed user limit of ({most})"
            raise NotAllowed(f"number of channels opened for user '{user}' {reached}")

    def connections_of(self, user: str) -> int:
        """Return the number of connections of a user."""
        return self.counts.connections_of(user)

    def channels_of(self, user: str) -> int:
        """Return the number of channels, and sessions, of a user over all its connections."""
        count = 0
        for connection in self._users.get(user, {}).values():
            connection.broker.work.done += 1
            count += len(connection.engine.sessions())
        return count

    def connections_to(self, vhost: str) -> int:
        """Return the number of connections to a virtual host."""
        return self.counts.connections_to(vhost)

    def leave(self, connection: Connection) -> None:
        """Remove a connection, if it was counted."""
        if not self.counts.remove(connection.number):
            return
        mine = self._users[connection.user]
        del mine[connection.number]
        if not mine:
            del self._users[connection.user]

    def count(self, network: str) -> int:
        """Return the number of connections of a network."""
        return self.counts.count(network)
