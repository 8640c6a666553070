"""Arguments of queues: policies, lengths and deadlines, at all their bounds."""

from __future__ import annotations

import pytest

from penstock.core.settings.limits import Defaults
from penstock.flow.timers import NEVER
from penstock.settings.table import CAPACITY_BYTES
from tests.support.setting_values import marks, settings_of


def test_queue_without_arguments_has_100_mib_and_blocks() -> None:
    queue = settings_of({})
    assert queue.overflow.name == "block"
    mib = 1024 * 1024
    assert 100 * mib == CAPACITY_BYTES
    assert marks({}, "bytes") == (100 * mib, 80 * mib, 70 * mib)
    assert marks({}, "messages") == (None, None, None)
    assert queue.hold_deadline_s == 25.0
    assert queue.message_ttl_s == queue.expires_s == NEVER


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"x-max-length": 10}, (10, None)),
        ({"x-max-length": 0, "x-overflow": "reject-publish-dlx"}, (0, None)),
        ({"x-max-length-bytes": 5000, "x-overflow": "reject-publish"}, (None, 5000)),
        ({"max-length": 10, "max-length-bytes": "4KiB", "overflow": "drop-head"}, (10, 4096)),
        ({"x-max-length": 10, "x-overflow": "block"}, (None, None)),
        ({"capacity-messages": 10, "overflow": "drop-head"}, (None, None)),
        ({"qpid.max_count": 10, "qpid.policy_type": "ring"}, (None, None)),
        ({"maximumQueueDepthMessages": 10, "overflowPolicy": "REJECT"}, (None, None)),
    ],
)
def test_length_by_rabbitmq_names_counts_ready_messages_and_capacity_the_depth(
    arguments: dict[str, object], expected: tuple[int | None, int | None]
) -> None:
    length = settings_of(arguments).length.as_dict()
    assert (length["messages"], length["bytes"]) == expected


@pytest.mark.parametrize(
    ("arguments", "policy"),
    [
        ({"x-max-length": 10}, "block"),  # The default capacity holds; the length drops.
        ({"x-max-length-bytes": 10}, "block"),
        ({"x-max-length": 10, "x-overflow": "block"}, "block"),
        ({"capacity-messages": 10}, "block"),
        ({"qpid.max_count": 10}, "block"),
        ({"qpid.policy_type": "ring"}, "drop-head"),
        ({"overflowPolicy": "PRODUCER_FLOW_CONTROL"}, "block"),
        ({"x-overflow": "reject-publish"}, "reject"),
        ({"qpid.policy_type": "self-destruct"}, "self-destruct"),
        ({"qpid.policy_type": "ring_strict"}, "ring-strict"),
        ({"address-full-policy": "BLOCK"}, "block"),
        ({"address-full-policy": "DROP"}, "drop-new"),
        ({"address-full-policy": "FAIL"}, "reject"),
    ],
)
def test_policy_follows_the_names_in_the_arguments(arguments: dict[str, object], policy: str) -> None:
    assert settings_of(arguments).overflow.name == policy


def test_hold_deadline_of_zero_is_for_ever() -> None:
    assert settings_of({"hold-deadline": 0}).hold_deadline_s == NEVER
    assert settings_of({"hold-deadline": 7}).hold_deadline_s == 7.0
    assert settings_of({}, Defaults(hold_deadline_s=0)).hold_deadline_s == NEVER


def test_times_of_rabbitmq_are_milliseconds() -> None:
    queue = settings_of({"x-message-ttl": 1500, "x-expires": 2500})
    assert (queue.message_ttl_s, queue.expires_s) == (1.5, 2.5)
