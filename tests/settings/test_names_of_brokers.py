"""Arguments and keys of RabbitMQ 3.8 to 4.3 and of LavinMQ 2: each has an effect, is named without one, or is refused.

The names are those that the brokers' sources read; a name that is only refused as a misspelling fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from penstock.core.queue.types import read_features
from penstock.core.settings.federated import INTERNAL_PURPOSE
from penstock.core.settings.policies import ALTERNATE
from penstock.core.settings.policy_reader import read_policy
from penstock.errors import PreconditionFailed
from penstock.settings.read import (
    FEATURES,
    check_exchange_arguments,
    read_arguments,
    read_consume_arguments,
    read_priority,
)
from penstock.settings.without_effect import OF_STREAMS, in_consumer, in_exchange, in_queue

QUEUES: Final = [
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-queue-type",
    "x-quorum-initial-group-size",
    "x-quorum-target-group-size",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
    "x-queue-master-locator",
    "x-member-placement-tag",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-delivery-limit",
    "x-consumer-timeout",
    "x-consumer-disconnected-timeout",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
    "x-ha-policy",
    "x-ha-policy-params",
    "x-internal-purpose",
    "x-max-hops",
    "x-name-prefix",
    "x-super-stream",
    "x-stream-partition-order",
    "x-message-deduplication",
    "x-cache-size",
    "x-cache-ttl",
    "x-deduplication-header",
]
CONSUMERS: Final = [
    "x-priority",
    "x-cancel-on-ha-failover",
    "x-consumer-timeout",
    "x-credit",
    "x-stream-offset",
    "x-stream-filter",
    "x-stream-match-unfiltered",
    "x-stream-automatic-offset-tracking",
    "x-filter-match-type",
]
EXCHANGES: Final = [
    "alternate-exchange",
    "hash-header",
    "hash-property",
    "x-delayed-type",
    "x-recent-history-length",
    "x-recent-history-no-store",
    "x-internal-purpose",
    "x-max-hops",
    "x-downstream-name",
    "x-super-stream",
    "x-alternate-exchange",
    "x-delayed-exchange",
    "x-algorithm",
    "x-hash-on",
    "x-persist-ms",
    "x-persist-messages",
    "x-message-deduplication",
    "x-cache-size",
    "x-cache-ttl",
    "x-deduplication-header",
]
KEYS: Final = [
    "alternate-exchange",
    "consumer-disconnected-timeout",
    "consumer-timeout",
    "dead-letter-exchange",
    "dead-letter-routing-key",
    "dead-letter-strategy",
    "delayed-retry-type",
    "delayed-retry-min",
    "delayed-retry-max",
    "delivery-limit",
    "expires",
    "federation-upstream",
    "federation-upstream-pattern",
    "federation-upstream-set",
    "ha-mode",
    "ha-params",
    "ha-promote-on-failure",
    "ha-promote-on-shutdown",
    "ha-sync-batch-size",
    "ha-sync-mode",
    "initial-cluster-size",
    "max-age",
    "max-in-memory-bytes",
    "max-in-memory-length",
    "max-length",
    "max-length-bytes",
    "member-placement-tag",
    "message-ttl",
    "overflow",
    "queue-leader-locator",
    "queue-master-locator",
    "queue-mode",
    "queue-version",
    "routing-key",
    "shards-per-node",
    "stream-filter-size-bytes",
    "stream-max-segment-size-bytes",
    "target-group-size",
    "delayed-message",
]
VALUES: Final[tuple[object, ...]] = (5, "drop-head", "at-least-once", True, "quorum", "7D")
"""One of them suits each name."""
REASON: Final = "is not supported here; "


def fate(read: Callable[[dict[str, object]], tuple[bool, list[str]]], name: str) -> str:
    """Return whether a name has an effect, is named without one, or is refused, with the reason."""
    refusals: list[str] = []
    for value in VALUES:
        try:
            effect, sentences = read({name: value})
        except PreconditionFailed as error:
            refusals.append(str(error))
            continue
        assert effect != bool(sentences), f"{name} must have an effect, or be named: {sentences}"
        assert effect or name in sentences[0]
        return "effect" if effect else "named"
    assert REASON in refusals[0], refusals
    assert refusals[0].split(REASON)[1]
    return "refused"


def of_queue(arguments: dict[str, object]) -> tuple[bool, list[str]]:
    effect = bool(read_arguments("q", arguments)) or not {*FEATURES, INTERNAL_PURPOSE}.isdisjoint(arguments)
    if not OF_STREAMS.keys().isdisjoint(arguments):
        arguments = {**arguments, "x-queue-type": "stream"}
    read_features("q", arguments)
    return effect, in_queue(arguments)


def of_consumer(arguments: dict[str, object]) -> tuple[bool, list[str]]:
    effect = bool(read_consume_arguments("c", arguments)) or read_priority("c", arguments) != 0
    return effect, in_consumer(arguments)


def of_exchange(arguments: dict[str, object]) -> tuple[bool, list[str]]:
    check_exchange_arguments("e", arguments)
    return ALTERNATE in arguments or INTERNAL_PURPOSE in arguments, in_exchange(arguments)


def of_policy(definition: dict[str, object]) -> tuple[bool, list[str]]:
    policy = read_policy("/", "p", {"pattern": "", "definition": definition}, False)
    has_effect = policy.alternate is not None or policy.upstreams is not None
    return bool(policy.values) or has_effect, policy.idle


READERS: Final = {"queue": of_queue, "consumer": of_consumer, "exchange": of_exchange, "policy": of_policy}
NAMES: Final = {"queue": QUEUES, "consumer": CONSUMERS, "exchange": EXCHANGES, "policy": KEYS}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_name_of_another_broker_has_effect_or_is_named_or_refused_with_a_reason(kind: str, name: str) -> None:
    assert fate(READERS[kind], name) in ("effect", "named", "refused")


def test_names_of_other_brokers_cover_each_fate() -> None:
    for kind, names in NAMES.items():
        assert {fate(READERS[kind], name) for name in names} == {"effect", "named", "refused"}, kind


MISSPELT: Final = {"queue": "x-mesage-ttl", "consumer": "x-consumer-timeot", "policy": "mesage-ttl"}


@pytest.mark.parametrize("kind", MISSPELT)
def test_misspelt_name_of_another_broker_is_refused_with_the_right_one(kind: str) -> None:
    with pytest.raises(PreconditionFailed, match="did you mean"):
        READERS[kind]({MISSPELT[kind]: 5})
