"""The overflow policy at each limit of a queue: each limit has its own.

A length (RabbitMQ's max-length and max-length-bytes) drops the oldest messages. A capacity, explicit or by default,
holds publishers. An explicit overflow changes the policy of these limits:

- a policy of RabbitMQ: always at the lengths, as in RabbitMQ, wherever it is set;
- `block` and `page`: at all limits, because they lose no message; a length then counts as the capacity;
- any other policy: at a capacity of the same source, and at every capacity if its source has no limit and the queue has
  no length. So no policy makes a queue that holds drop messages below the number set with the policy.
"""

from __future__ import annotations

from typing import Final

from penstock.core.queue.overflow import POLICIES
from penstock.core.queue.overflow.policy import OverflowPolicy
from penstock.core.settings.limits import is_explicit
from penstock.errors import PreconditionFailed
from penstock.settings.table import CAPACITIES, LENGTHS, SettingValue

EVERYWHERE: Final = ("block", "page")
"""Policies that lose no message: they apply at all limits, wherever they are set."""


class Ways:
    """The policies of one queue by limit."""

    def __init__(self, capacity: OverflowPolicy, length: OverflowPolicy | None) -> None:
        self.capacity = capacity
        self.length = length
        """The policy at the length of ready messages; None without a length, or if it is the capacity."""


def choose(values: dict[str, SettingValue]) -> Ways:
    """Return the policies at the limits of a queue; in `values`, lengths that count as the capacity have been
    converted.
    """
    chosen = values.get("overflow")
    length = POLICIES["drop-head"] if has_length(values) else None
    if chosen is None:
        return Ways(POLICIES["block"], length)
    if length is not None:
        length = POLICIES[chosen.text]
    name = chosen.text if _acts_at_capacity(chosen, values) else "block"
    return Ways(POLICIES[name], length)


def has_length(values: dict[str, SettingValue]) -> bool:
    """Return whether a length is set, and is not `none`."""
    for name in LENGTHS:
        value = values.get(name)
        if value is not None and not value.none:
            return True
    return False


def counts_ready(values: dict[str, SettingValue]) -> bool:
    """Return whether lengths count ready messages: no overflow policy that is unknown to RabbitMQ is set."""
    chosen = values.get("overflow")
    return chosen is None or POLICIES[chosen.text].counts_ready


def _acts_at_capacity(chosen: SettingValue, values: dict[str, SettingValue]) -> bool:
    """Return whether an overflow applies to the capacity: to all units of it that are set."""
    if chosen.text in EVERYWHERE:
        return True
    limited = has_length(values)
    explicit = False
    for name in CAPACITIES:
        value = values.get(name)
        if value is None or value.none or not is_explicit(value):
            continue
        explicit = True
        if not _speaks_of(chosen, value, limited):
            return False
    return explicit or not limited


def _speaks_of(chosen: SettingValue, capacity: SettingValue, limited: bool) -> bool:
    """Return whether an overflow applies to a capacity; `limited`: the queue has a length too."""
    if capacity.alias.removeprefix("x-") in LENGTHS or chosen.has_source_of(capacity):
        return True
    if not chosen.beside:
        return not limited
    # A ring stays a ring if a weaker source, such as an operator policy, lowers its capacity.
    return chosen.rank < capacity.rank and not chosen.beside.isdisjoint(CAPACITIES)


def lengths_as_capacity(queue: str, values: dict[str, SettingValue]) -> dict[str, SettingValue]:
    """Return the settings with RabbitMQ's lengths as the capacity, for policies that RabbitMQ lacks.

    The smaller limit applies. Raises PreconditionFailed (406) if one source sets both and the policy, and they differ.
    """
    result, chosen = dict(values), values["overflow"]
    for length, capacity in LENGTHS.items():
        value, other = result.pop(length, None), result.get(capacity)
        if value is None or value.none:
            continue
        beside = other is not None and other.has_source_of(value) and chosen.has_source_of(value)
        if other is not None and beside and other.value() != value.value():
            raise PreconditionFailed(
                f"queue '{queue}': {other.describe()} contradicts {value.describe()}; both set {capacity} "
                "with an overflow policy other than drop-head, reject-publish and reject-publish-dlx"
            )
        if other is None or other.none or not is_explicit(other) or value.number < other.number:
            result[capacity] = value
    return result
