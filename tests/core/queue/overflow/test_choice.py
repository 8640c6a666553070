"""Which overflow policy acts at which limit of a declaration; core/settings/test_overflow_changes.py has policies."""

from __future__ import annotations

import pytest

from penstock.core.queue.queue_settings import Settings
from tests.support.setting_values import settings_of

Given = dict[str, object]


def ways(settings: Settings) -> tuple[str, str | None]:
    """The policy at the capacity, and at the length; None without a length."""
    return settings.overflow.name, None if settings.length.unlimited() else settings.at_length.name


@pytest.mark.parametrize(("arguments", "expected"), [
    ({}, ("block", None)),
    ({"capacity-messages": 4}, ("block", None)),
    ({"qpid.max_count": 4}, ("block", None)),
    ({"max-size-messages": 4}, ("block", None)),
    ({"maximumQueueDepthMessages": 4}, ("block", None)),
    ({"x-max-length": 4}, ("block", "drop-head")),
    ({"x-max-length-bytes": 4}, ("block", "drop-head")),
    ({"x-max-length": 4, "x-overflow": "drop-head"}, ("block", "drop-head")),
    ({"x-max-length": 4, "x-overflow": "reject-publish"}, ("block", "reject")),
    ({"x-max-length": 4, "x-overflow": "reject-publish-dlx"}, ("block", "reject-dead-letter")),
    ({"x-max-length": 4, "capacity-messages": 9}, ("block", "drop-head")),
    ({"x-max-length": 9, "max-size-messages": 4}, ("block", "drop-head")),
    ({"x-max-length": 4, "capacity-messages": 9, "overflow": "drop-head"}, ("drop-head", "drop-head")),
    ({"x-max-length": 4, "qpid.max_count": 9, "qpid.policy_type": "reject"}, ("reject", "reject")),
    ({"x-max-length": 4, "overflow": "block"}, ("block", None)),
    ({"x-max-length": 4, "overflow": "drop-new"}, ("drop-new", None)),
    ({"max-length": "none", "overflow": "drop-head"}, ("drop-head", None)),
    ({"x-overflow": "drop-head"}, ("drop-head", None)),
    ({"capacity-messages": 4, "overflow": "drop-head"}, ("drop-head", None)),
    ({"qpid.max_count": 4, "qpid.policy_type": "ring"}, ("drop-head", None)),
    ({"max-size-messages": 4, "address-full-policy": "FAIL"}, ("reject", None)),
    ({"max-size-messages": 4, "address-full-policy": "PAGE"}, ("page", None)),
])  # fmt: skip
def test_overflow_of_a_declaration_is_by_limit(arguments: Given, expected: tuple[str, str | None]) -> None:
    assert ways(settings_of(arguments)) == expected
