"""Federated queues and exchanges: those whose policy names upstreams, found without a walk over all others."""

from __future__ import annotations

from typing import Final

from penstock.core.queue.queue import Queue
from penstock.core.routing.exchange import EXCHANGE, QUEUE, Exchange
from penstock.core.routing.route import CONTROL_EXCHANGE
from penstock.core.settings.policies import Policy

INTERNAL_PURPOSE: Final = "x-internal-purpose"
"""Argument of queues and exchanges that federation has declared for itself; these are not federated."""

ObjectKey = tuple[str, str, str]
"""Kind (queue or exchange), virtual host and name."""


class Federated:
    """Federated queues and exchanges of a broker, in the order in which they became so."""

    def __init__(self) -> None:
        self.policies: dict[ObjectKey, Policy] = {}
        """Policies that name the upstreams."""
        self.objects: dict[Policy, dict[ObjectKey, None]] = {}
        """Objects by their policies; none has no object."""
        self.epoch: int = 0
        """Number of all changes."""

    def review_queue(self, queue: Queue) -> None:
        """Look at a queue that is new or deleted, or has other settings."""
        policy = queue.settings.policies.policy
        if policy is not None and policy.upstreams is not None and queue_can_have_upstreams(queue):
            self._put((QUEUE, queue.vhost, queue.name), policy)
        elif self.policies:
            self._drop((QUEUE, queue.vhost, queue.name))

    def review_exchange(self, exchange: Exchange) -> None:
        """Look at an exchange that is new or deleted, or has another policy."""
        policy = exchange.policy
        if policy is not None and policy.upstreams is not None and exchange_can_have_upstreams(exchange):
            self._put((EXCHANGE, exchange.vhost, exchange.name), policy)
        elif self.policies:
            self._drop((EXCHANGE, exchange.vhost, exchange.name))

    def _put(self, key: ObjectKey, policy: Policy) -> None:
        self._forget(key)
        self.policies[key] = policy
        self.objects.setdefault(policy, {})[key] = None
        self.epoch += 1

    def _drop(self, key: ObjectKey) -> None:
        if self._forget(key):
            self.epoch += 1

    def _forget(self, key: ObjectKey) -> bool:
        policy = self.policies.pop(key, None)
        if policy is None:
            return False
        objects = self.objects[policy]
        del objects[key]
        if not objects:
            del self.objects[policy]
        return True


def queue_can_have_upstreams(queue: Queue) -> bool:
    """Return whether a queue can be federated: no stream, which never becomes empty, and none of one connection."""
    if queue.deleted or queue.owner is not None or queue.features.type.retains:
        return False
    return INTERNAL_PURPOSE not in queue.arguments


def exchange_can_have_upstreams(exchange: Exchange) -> bool:
    """Return whether an exchange can be federated: it can be a source of bindings, and clients publish to it."""
    if exchange.deleted or exchange.internal or exchange.name in ("", CONTROL_EXCHANGE):
        return False
    return INTERNAL_PURPOSE not in exchange.arguments
