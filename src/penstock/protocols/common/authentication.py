"""Verification of credentials beside the event loop: a password hash takes as long as a thousand publishes.

Theory of operation. A `Verification` has a slow part, `run`, which touches nothing of the broker, and `conclude`, which
acts on the result. An `Authenticator` runs the first in a thread and the second in a later turn. Pure tests and the
simulation use `InlineAuthenticator`, which does both at once.
"""

from __future__ import annotations

from mypy_extensions import mypyc_attr
from typing_extensions import override


@mypyc_attr(allow_interpreted_subclasses=True)
class Verification:
    """Verification of the credentials of one client."""

    def __init__(self, network: str) -> None:
        self.network: str = network
        """Network of the client (`Peer.network`): networks take turns."""
        self.subject: str = ""
        """User of the credentials, all unknown ones as one: users of a network take turns."""
        self.remote: bool = False
        """True if `run` may wait for another server, so that it must not keep the threads of passwords."""
        self.back_end: bool = False
        """True if it waits for an HTTP back end, so that it must not keep those of tokens either."""
        self.number: int = 0
        """Number in the line of those that wait."""
        self.cancelled: bool = False
        """True if nobody waits for the result any more."""

    def run(self) -> None:
        """Do the slow part. It runs in a thread, and must not raise."""
        raise NotImplementedError

    def conclude(self) -> None:
        """Act on the result, in a turn of the event loop; not called for one that was cancelled."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Drop it: its client is gone."""
        raise NotImplementedError

    def turn_away(self) -> None:
        """Refuse the client without a verification: too many wait. It may be called by `Authenticator.start`."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Authenticator:
    """Runner of verifications."""

    def start(self, verification: Verification) -> None:
        """Run a verification, now or later, and conclude it; beyond a bound it is turned away."""
        raise NotImplementedError

    def cancel(self, verification: Verification) -> None:
        """Drop a verification: its client is gone. One that runs ends without a conclusion."""
        verification.cancelled = True


class InlineAuthenticator(Authenticator):
    """Runner that does everything at once."""

    @override
    def start(self, verification: Verification) -> None:
        verification.run()
        if not verification.cancelled:
            verification.conclude()
