"""The policies and operator policies of all virtual hosts."""

from __future__ import annotations

from bisect import insort
from typing import Final

from mypy_extensions import i64

from penstock.core.settings.policy import NO_POLICIES, Policy, PolicyPair
from penstock.errors import ResourceError

POLICIES_A_VHOST: Final = 1_000
"""Most policies of a virtual host, of either kind: each declaration looks through them."""
POLICIES_MAX: Final = 10_000
"""Most policies of a broker."""
MATCHED_A_UNIT: Final = 4096
"""Characters of a name, times those of a pattern, that RE2 matches with a unit of work, at its slowest."""


class PolicyTable:
    """Policies by virtual host and name, in the order in which they apply."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, bool], dict[str, Policy]] = {}
        self._in_order: dict[tuple[str, bool], list[Policy]] = {}
        self._octets: dict[tuple[str, bool], int] = {}
        """Characters of all their patterns."""
        self.count: int = 0

    def get(self, vhost: str, name: str, operator: bool) -> Policy | None:
        """Return a policy by name; None if there is none."""
        policies = self._by_name.get((vhost, operator))
        return None if policies is None else policies.get(name)

    def of(self, vhost: str, operator: bool) -> list[Policy]:
        """Return the policies of a virtual host, by name."""
        policies = self._by_name.get((vhost, operator), {})
        return [policies[name] for name in sorted(policies)]

    def all(self) -> list[Policy]:
        """Return the policies of all virtual hosts."""
        return [policy for policies in self._by_name.values() for policy in policies.values()]

    def work(self, vhost: str, name: str) -> i64:
        """Return the units of work to find the policies of an object, at most: each is matched with its name."""
        letters: i64 = len(name)
        found: i64 = 0
        for operator in (False, True):
            found += len(self._in_order.get((vhost, operator), []))
            found += self._octets.get((vhost, operator), 0) * letters // MATCHED_A_UNIT
        return found

    def put(self, policy: Policy) -> Policy | None:
        """Add a policy, or replace the one of its name; return the former one. Raises ResourceError (506)."""
        key = (policy.vhost, policy.operator)
        policies = self._by_name.setdefault(key, {})
        before = policies.get(policy.name)
        if before is None:
            most = POLICIES_A_VHOST if len(policies) >= POLICIES_A_VHOST else POLICIES_MAX
            if len(policies) >= POLICIES_A_VHOST or self.count >= POLICIES_MAX:
                raise ResourceError(f"there are {most:,} policies, the most that there may be; {policy.title()}"
                                    " was not set")  # fmt: skip
            self.count += 1
        else:
            self._remove(key, before)
        policies[policy.name] = policy
        insort(self._in_order.setdefault(key, []), policy, key=Policy.order)
        self._octets[key] = self._octets.get(key, 0) + len(policy.pattern.text)
        return before

    def drop(self, vhost: str, name: str, operator: bool) -> Policy | None:
        """Remove a policy; return it, or None if there was none."""
        key = (vhost, operator)
        policy = self._by_name.get(key, {}).pop(name, None)
        if policy is not None:
            self.count -= 1
            self._remove(key, policy)
            if not self._in_order[key]:
                del self._in_order[key]
                del self._octets[key]
                del self._by_name[key]
        return policy

    def _remove(self, key: tuple[str, bool], policy: Policy) -> None:
        self._in_order[key].remove(policy)
        self._octets[key] -= len(policy.pattern.text)

    def best(self, vhost: str, kind: str, name: str, operator: bool) -> Policy | None:
        """Return the policy that applies to an object; None if none does. `kind` "" is for what has no policy."""
        if kind:
            for policy in self._in_order.get((vhost, operator), []):
                if policy.covers(kind, name):
                    return policy
        return None

    def pair(self, vhost: str, kind: str, name: str) -> PolicyPair:
        """Return both policies that apply to a queue."""
        policy, operator = self.best(vhost, kind, name, False), self.best(vhost, kind, name, True)
        return NO_POLICIES if policy is None and operator is None else PolicyPair(policy, operator)
