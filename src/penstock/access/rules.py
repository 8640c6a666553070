"""Rules of one login: the interface for enforcement, its implementation by the table of users, and a cache of
answers.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.access.access_table import AccessTable
from penstock.access.permission import MONITORING, Epoch, expanded, grants
from penstock.errors import AccessRefused
from penstock.flow.pool import PoolHolder
from penstock.flow.timers import NEVER

CACHED_MOST: Final = 32
"""Most permitted answers that a connection caches; beyond, the oldest is dropped. (RabbitMQ caches 12 a channel.)"""
DEFAULT_EXCHANGE: Final = "amq.default"
"""Name of the default exchange in permissions (as in RabbitMQ)."""
EXCHANGE: Final = "exchange"
QUEUE: Final = "queue"


@mypyc_attr(allow_interpreted_subclasses=True)
class Rules:
    """The rules of one login. A virtual host must be entered before its resources are checked.

    `epoch` counts the changes of its answers.
    """

    def __init__(self, epoch: Epoch) -> None:
        self.epoch: Final = epoch

    def enters(self, vhost: str) -> bool:
        """Return whether the user may open a virtual host."""
        raise NotImplementedError

    def permits(self, kind: str, vhost: str, name: str) -> bool:
        """Return whether the user may CONFIGURE, WRITE or READ the queue or exchange `name`."""
        raise NotImplementedError

    def permits_topic(self, kind: str, vhost: str, exchange: str, routing_key: str) -> bool:
        """Return whether the user may WRITE or READ a routing key of a topic exchange."""
        raise NotImplementedError

    def tags(self) -> list[str]:
        """Return the user's tags."""
        raise NotImplementedError

    def has_tag(self, needed: str) -> bool:
        """Return whether the user's tags grant another tag; "" is always granted."""
        return grants(self.tags(), needed)


@mypyc_attr(allow_interpreted_subclasses=True)
class UserRules(Rules):
    """Rules of a user in the table. A deleted user has no rights."""

    def __init__(self, table: AccessTable, user: str, client_id: str = "") -> None:
        super().__init__(table.epoch)
        self._table = table
        self._user = user
        self._client_id = client_id
        """Name that the client chose, for topic permissions; "" leaves its variable unexpanded."""

    @override
    def enters(self, vhost: str) -> bool:
        return self._table.may_enter(self._user, vhost)

    @override
    def permits(self, kind: str, vhost: str, name: str) -> bool:
        return self._table.permits(self._user, kind, vhost, name)

    @override
    def permits_topic(self, kind: str, vhost: str, exchange: str, routing_key: str) -> bool:
        """See `Rules.permits_topic`: without a topic permission for the exchange all keys are permitted (RabbitMQ)."""
        permission = self._table.topic_permission(self._user, vhost, exchange)
        if permission is None:
            return True
        expression = expanded(permission.expression(kind), self._user, vhost, self._client_id)
        return self._table.expressions.matches(expression, routing_key)

    @override
    def tags(self) -> list[str]:
        user = self._table.find(self._user)
        return [] if user is None else user.tags


class ConnectionAccess:
    """Access of a connection to its virtual host, with refusals in RabbitMQ's words.

    Only permitted answers are cached, until the rules change.
    """

    def __init__(self, rules: Rules, user: str, vhost: str) -> None:
        self.rules = rules
        self.user = user
        self.vhost = vhost
        self._permitted: dict[tuple[str, ...], None] = {}
        """Permitted queues and exchanges, and routing keys of topic exchanges, whose tuples are longer."""
        self.epoch: Final = rules.epoch
        """Count of changes of the rules: a route checked at another count must be checked again."""
        self._checked: i64 = rules.epoch.count

    def check(self, kind: str, what: str, name: str) -> None:
        """Check access to a queue or exchange (`what` is QUEUE or EXCHANGE).

        Raises AccessRefused (403), in RabbitMQ's words.
        """
        self._renew()
        if not name and what == EXCHANGE:
            name = DEFAULT_EXCHANGE
        asked = (kind, what, name)
        if asked in self._permitted:
            return
        if not self.rules.permits(kind, self.vhost, name):
            raise AccessRefused(
                f"{kind} access to {what} '{name}' in vhost '{self.vhost}' refused for user '{self.user}'"
            )
        self._keep(asked)

    def holder(self) -> PoolHolder:
        """Return the user and virtual host as a holder of units of pools."""
        return PoolHolder(self.user, self.vhost, self.rules.has_tag(MONITORING))

    def may(self, kind: str, name: str) -> bool:
        """Return whether a queue or exchange may be accessed, for lists of visible objects."""
        return self.rules.permits(kind, self.vhost, name)

    def check_topic(self, kind: str, exchange: str, routing_key: str) -> None:
        """Check access to a routing key of a topic exchange. Raises AccessRefused (403), in RabbitMQ's words."""
        self._renew()
        asked = (kind, EXCHANGE, exchange, routing_key)
        if asked in self._permitted:
            return
        if not self.rules.permits_topic(kind, self.vhost, exchange, routing_key):
            raise AccessRefused(
                f"{kind} access to topic '{routing_key}' in exchange '{exchange}' in vhost '{self.vhost}' "
                f"refused for user '{self.user}'"
            )
        self._keep(asked)

    def _renew(self) -> None:
        """Drop all cached answers when the rules have changed."""
        if self.epoch.count != self._checked:
            self._checked = self.epoch.count
            self._permitted.clear()

    def _keep(self, asked: tuple[str, ...]) -> None:
        if len(self._permitted) >= CACHED_MOST:
            del self._permitted[next(iter(self._permitted))]
        self._permitted[asked] = None


REMEMBERED_MOST: Final = 10_000
"""Most users whose login is remembered; the oldest is forgotten."""

T = TypeVar("T")


class RememberedLogin(Generic[T]):
    """Successful login: the keyed digest of its credentials, and the result."""

    def __init__(self, digest: bytes, learnt: T, until: float) -> None:
        self.digest = digest
        self.learnt = learnt
        self.until = until


class LoginMemory(Generic[T]):
    """Recent successful logins, by user. The secret is random; digests without it are useless."""

    def __init__(self, secret: bytes, time_s: float, now: Callable[[], float]) -> None:
        """`time_s` is how long a login is remembered; `now` returns monotonic seconds."""
        self._secret = secret
        self._time_s = time_s
        self._now = now
        self._logins: dict[str, RememberedLogin[T]] = {}
        """Remembered logins, the oldest first."""

    def get(self, user: str, credentials: list[str]) -> T | None:
        """Return the result of a login with the same credentials; None if there was none."""
        login = self._logins.get(user)
        if login is None or login.until < self._now():
            return None
        return login.learnt if hmac.compare_digest(login.digest, self._digest(user, credentials)) else None

    def put(self, user: str, credentials: list[str], learnt: T) -> None:
        """Remember a login that succeeded."""
        self._logins.pop(user, None)
        self._logins[user] = RememberedLogin(self._digest(user, credentials), learnt, self._now() + self._time_s)
        if len(self._logins) > REMEMBERED_MOST:
            del self._logins[next(iter(self._logins))]

    def _digest(self, user: str, credentials: list[str]) -> bytes:
        texts = [text.encode(errors="surrogatepass") for text in [user, *credentials]]
        octets = b"".join([b"%d %s" % (len(text), text) for text in texts])
        return hashlib.blake2b(octets, digest_size=32, key=self._secret).digest()


@mypyc_attr(allow_interpreted_subclasses=True)
class CredentialCheck:
    """Check of one client's credentials, with the broker's knowledge of the user at its start."""

    user: str
    """User that the client claims to be; known after `verify` if it is in the credentials."""
    remote: bool = False
    """True if `verify` may wait for another server."""
    back_end: bool = False
    """True if a back end decides about everything (`[auth-http]`)."""
    address: str = ""
    """Address of the client without its port."""

    def is_slow(self) -> bool:
        """Return whether `verify` is needed, and takes longer than a turn allows."""
        raise NotImplementedError

    def verify(self) -> None:
        """Do the slow part, in a thread. This touches no state of the broker, and does not raise."""
        raise NotImplementedError

    def refusal(self) -> str:
        """Return the reason why the user may not log in, after `verify` if it is slow; empty if it may.

        The reason is for the log and never for the client.
        """
        raise NotImplementedError

    def rules(self) -> Rules | None:
        """Return the rules of the credentials; None: the table of users decides."""
        return None

    def expires_at(self) -> float:
        """Return the wall-clock time in seconds from which on the credentials are void; infinity for never."""
        return NEVER
