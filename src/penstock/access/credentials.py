"""Credentials of a client: the interface of their checks, which tokens, passwords and back ends fill in."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from mypy_extensions import mypyc_attr

from penstock.access.rules import Rules
from penstock.flow.timers import NEVER

REMEMBERED_MOST: Final = 10_000
"""Most users of whom a login is remembered; the one remembered longest ago is forgotten."""

T = TypeVar("T")


class RememberedLogin(Generic[T]):
    """Login that succeeded: the keyed digest of its credentials, and what was learnt by it."""

    def __init__(self, digest: bytes, learnt: T, until: float) -> None:
        self.digest = digest
        self.learnt = learnt
        self.until = until


class LoginMemory(Generic[T]):
    """Logins that succeeded a short time ago, by user. The secret is random; digests without it are useless."""

    def __init__(self, secret: bytes, time_s: float, now: Callable[[], float]) -> None:
        """`time_s` is how long one is remembered; `now` returns monotonic seconds."""
        self._secret = secret
        self._time_s = time_s
        self._now = now
        self._logins: dict[str, RememberedLogin[T]] = {}
        """The one remembered longest ago first."""

    def get(self, user: str, credentials: list[str]) -> T | None:
        """Return what was learnt by a login with the same credentials; None if there was none."""
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
    """Check of one client's credentials: what the broker knows of the user at its beginning."""

    user: str
    """User that the client claims to be; known after `verify` if its credentials say it."""
    remote: bool = False
    """True if `verify` may wait for another server."""
    back_end: bool = False
    """True if it is a server that everything is asked of (`[auth-http]`)."""
    address: str = ""
    """Address of the client without its port."""

    def is_slow(self) -> bool:
        """Return whether `verify` is needed, and takes longer than a turn may."""
        raise NotImplementedError

    def verify(self) -> None:
        """Do the slow part, in a thread. It touches nothing of the broker, and does not raise."""
        raise NotImplementedError

    def refusal(self) -> str:
        """Return the reason why the user may not log in, after `verify` if it is slow; empty if it may.

        It is for the log and never for the client.
        """
        raise NotImplementedError

    def rules(self) -> Rules | None:
        """Return what the credentials permit; None: the table of users says it."""
        return None

    def expires_at(self) -> float:
        """Return the wall-clock time in seconds from which on the credentials are void; infinity for never."""
        return NEVER
