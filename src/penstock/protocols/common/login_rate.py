"""Limits of logins a second: of all other machines, of each address, and of this machine.

Each limit is a token bucket with the logins of one second. A login beyond it is refused, whatever its credentials. It
takes nothing from any bucket, so an address that floods does not use up the logins of others.

This machine has as many as all others together, and no limit by address: an operator always gets in.
"""

from __future__ import annotations

from penstock.flow.token_bucket import TokenBucket
from penstock.protocols.common.connection_limits import ConnectionLimits
from penstock.protocols.common.login_backoff import REMEMBERED
from penstock.protocols.common.peer import THIS_MACHINE


class LoginRate:
    """Logins of one broker, counted as they begin."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._here = TokenBucket(limits.login_rate_max, limits.login_rate_max)
        """Logins of this machine."""
        self._distant = TokenBucket(limits.login_rate_max, limits.login_rate_max)
        """Logins of all other machines."""
        self._addresses: dict[str, TokenBucket] = {}
        """Logins by network, the one that was used latest last. A forgotten one is full again."""

    def refusal(self, network: str, now: float) -> str:
        """Count a login that begins at `now` (monotonic seconds); return why it is refused, "" if it may go on."""
        limits = self._limits
        bucket = self._of_address(network)
        if bucket is not None and bucket.ready_at(now) > now:
            return (
                f"address login limit ({limits.login_rate_address_max} a second) of {network} is reached; "
                "login-rate-address-max sets it"
            )
        if limits.login_rate_max:
            node = self._here if network == THIS_MACHINE else self._distant
            if node.ready_at(now) > now:
                return f"node login limit ({limits.login_rate_max} a second) is reached; login-rate-max sets it"
            node.take(1.0, now)
        if bucket is not None:
            bucket.take(1.0, now)
        return ""

    def addresses(self) -> int:
        """Return the number of networks that are remembered."""
        return len(self._addresses)

    def _of_address(self, network: str) -> TokenBucket | None:
        """Return the bucket of a network; None if it has no limit."""
        rate = self._limits.login_rate_address_max
        if not rate or network == THIS_MACHINE:
            return None
        bucket = self._addresses.pop(network, None) or TokenBucket(rate, rate)
        self._addresses[network] = bucket
        if len(self._addresses) > REMEMBERED:
            del self._addresses[next(iter(self._addresses))]
        return bucket
