"""Line of verifications: networks take turns, and the number is bounded.

A client that is gone leaves the line at once. So an attacker has at most as many places as it has open sockets.
"""

from __future__ import annotations

from typing import Final

from penstock.protocols.common.authentication import Verification

LINE_MOST: Final = 2_000
"""Most verifications that wait: more than there may be sockets before the login."""
NETWORK_MOST: Final = 500
"""Most of one network, and of this machine."""


class LoginLine:
    """Verifications that wait for a thread."""

    def __init__(self) -> None:
        self._networks: dict[str, dict[int, Verification]] = {}
        """By network, and by number within it; the network that was served longest ago first."""
        self._count: int = 0
        self._drawn: int = 0

    def __len__(self) -> int:
        return self._count

    def add(self, verification: Verification) -> bool:
        """Add one to the end of those of its network; return false if there is no room."""
        waiting = self._networks.get(verification.network)
        if self._count >= LINE_MOST or (waiting is not None and len(waiting) >= NETWORK_MOST):
            return False
        if waiting is None:
            waiting = {}
            self._networks[verification.network] = waiting
        self._drawn += 1
        verification.number = self._drawn
        waiting[self._drawn] = verification
        self._count += 1
        return True

    def remove(self, verification: Verification) -> None:
        """Remove one whose client is gone; does nothing if it has left the line."""
        waiting = self._networks.get(verification.network)
        if waiting is not None and waiting.pop(verification.number, None) is not None:
            self._count -= 1
            if not waiting:
                del self._networks[verification.network]

    def next(self) -> Verification | None:
        """Take the oldest of the network that was served longest ago; None if nothing waits."""
        for network in self._networks:
            waiting = self._networks.pop(network)
            number = next(iter(waiting))
            verification = waiting.pop(number)
            self._count -= 1
            if waiting:
                self._networks[network] = waiting
            return verification
        return None
