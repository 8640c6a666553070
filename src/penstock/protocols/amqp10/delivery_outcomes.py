"""Outcomes that the delivery states of receivers ask for (section 3.4)."""

from __future__ import annotations

from mypy_extensions import i64

from penstock.core.consume.outcome import Outcome, modified
from penstock.wire.amqp10.composite import Composite
from penstock.wire.amqp10.spec import ACCEPTED, MODIFIED, REJECTED


def outcome_of(code: i64, state: object) -> Outcome:
    """Return the outcome of a delivery state, whose descriptor is `code`; released if it is none.

    `state` is None if the state has no fields.
    """
    if code == ACCEPTED:
        return Outcome.ACCEPTED
    if code == REJECTED:
        return Outcome.REJECTED
    if code == MODIFIED and isinstance(state, Composite):
        return modified(state.flag("delivery_failed"), state.flag("undeliverable_here"))
    return Outcome.RELEASED
