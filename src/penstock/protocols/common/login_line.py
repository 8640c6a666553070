"""Line of verifications: networks take turns, users of a network take turns, and the number is bounded.

A client that is gone leaves the line at once. So an attacker has at most as many places as it has open sockets, and
who guesses at one user delays no other one.
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
        self._networks: dict[str, dict[str, dict[int, Verification]]] = {}
        """By network, by user and by number; the network, and the user in it, that was served longest ago first."""
        self._counts: dict[str, int] = {}
        """Number by network."""
        self._count: int = 0
        self._drawn: int = 0

    def __len__(self) -> int:
        return self._count

    def add(self, verification: Verification) -> bool:
        """Add one to the end of those of its network; return false if there is no room."""
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
        """Remove one whose client is gone; does nothing if it has left the line."""
        users = self._networks.get(verification.network, {})
        waiting = users.get(verification.subject, {})
        if waiting.pop(verification.number, None) is not None:
            if not waiting:
                del users[verification.subject]
            if not users:
                del self._networks[verification.network]
            self._left(verification.network)

    def next(self) -> Verification | None:
        """Take the oldest of the user and the network that were served longest ago; None if nothing waits."""
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
        """Count one less."""
        self._count -= 1
        left = self._counts[network] - 1
        if left:
            self._counts[network] = left
        else:
            del self._counts[network]
