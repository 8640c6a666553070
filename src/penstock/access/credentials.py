"""Credentials of a client: the interface of their checks, which tokens, passwords and back ends fill in."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from penstock.access.rules import Rules
from penstock.flow.timers import NEVER


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
        """Tell whether `verify` is needed, and takes longer than a turn may."""
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
